// What the driver does not have: the test is skipped.
export class Unsupported extends Error {}
