// expectError of the unified test format.
import {mongodb} from './driver.mjs';
import {Mismatch, show} from './match.mjs';
import {plainResult} from './results.mjs';

const {MongoServerError, MongoBulkWriteError, MongoClientBulkWriteError, MongoWriteConcernError} = mongodb;

// A failed bulk write carries the server's first error in its cause.
const fromServer = (error) => error instanceof MongoServerError || error instanceof MongoBulkWriteError ||
                              error instanceof MongoClientBulkWriteError;
const serverError = (error) => (error instanceof MongoClientBulkWriteError && error.cause ? error.cause : error);

export function describe(error) {
  const e = serverError(error);
  const code = e.code === undefined ? '' : ` (code ${e.code} ${e.codeName ?? ''})`;
  return `${e.constructor.name}: ${e.message}${code}`;
}

export function checkError(error, expected, matcher) {
  const fail = (why) => { throw new Mismatch(`${why}; the error was ${describe(error)}`); };
  const e = serverError(error);
  if (expected.isClientError !== undefined && expected.isClientError === fromServer(e))
    fail(`expected an error of the ${expected.isClientError ? 'client' : 'server'}`);
  if (expected.errorContains !== undefined &&
      !e.message.toLowerCase().includes(expected.errorContains.toLowerCase()))
    fail(`expected a message with ${show(expected.errorContains)}`);
  if (expected.errorCode !== undefined && codeOf(e) !== expected.errorCode) fail(`expected code ${expected.errorCode}`);
  if (expected.errorCodeName !== undefined && codeNameOf(e) !== expected.errorCodeName)
    fail(`expected code name ${expected.errorCodeName}`);
  for (const label of expected.errorLabelsContain ?? [])
    if (!error.hasErrorLabel?.(label) && !e.hasErrorLabel?.(label)) fail(`expected label ${label}`);
  for (const label of expected.errorLabelsOmit ?? [])
    if (error.hasErrorLabel?.(label)) fail(`did not expect label ${label}`);
  if (expected.errorResponse !== undefined)
    matcher.match(e.errorResponse ?? e.result, expected.errorResponse, {at: 'errorResponse'});
  if (expected.expectResult !== undefined)
    matcher.match(plainResult(error.partialResult ?? error.result), expected.expectResult, {at: 'error.result'});
  for (const [index, wanted] of Object.entries(expected.writeErrors ?? {}))
    matcher.match(error.writeErrors.get(Number(index)), wanted, {at: `writeErrors.${index}`});
  if (expected.writeErrors !== undefined && error.writeErrors.size !== Object.keys(expected.writeErrors).length)
    fail(`expected ${Object.keys(expected.writeErrors).length} write errors, got ${error.writeErrors.size}`);
  if (expected.writeConcernErrors !== undefined)
    matcher.match([...(error.writeConcernErrors ?? [])], expected.writeConcernErrors, {at: 'writeConcernErrors'});
}

const codeOf = (e) => (e instanceof MongoWriteConcernError ? e.code ?? e.result?.writeConcernError?.code : e.code);
const codeNameOf = (e) => e.codeName ?? e.result?.writeConcernError?.codeName ?? e.errorResponse?.codeName;
