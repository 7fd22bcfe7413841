// Failures by what the server does not have, so that the rest, which nobody has explained, stands out.
const kCauses = [
  [/collation plugin/, 'collation plugin not loaded'],
  [/multi-document transactions? |in a multi-document transaction/i, 'transactions'],
  [/\$changeStream|change streams?/i, 'change streams'],
  [/timeseries|create\.expireAfterSeconds/, 'time series'],
  [/readConcern level snapshot/, 'snapshot reads'],
  [/JavaScript|\$where/, 'server-side JavaScript'],
  [/no such command: '(authenticate|sasl\w+|\w+User)'/, 'authentication'],
];

// `operations`: of the test; its own failure may only be what follows from such a thing.
export const causeOf = (why, operations) =>
  kCauses.find(([pattern]) => pattern.test(why))?.[1] ??
  (/"\$where"/.test(JSON.stringify(operations)) ? 'server-side JavaScript' : 'unexplained');
