// One test of a unified test file: set up, operate, compare, tear down.
import {gapOf} from './driver_gaps.mjs';
import {checkEvents, checkLogMessages} from './events.mjs';
import {Entities} from './entities.mjs';
import {checkError, describe} from './errors.mjs';
import {Matcher, Mismatch, show} from './match.mjs';
import {operationFor, Unsupported} from './operations.mjs';
import {unmet, usesFailPoint} from './requirements.mjs';
import {kTestRunner} from './test_runner.mjs';

const kCaseMs = 20000;

export function skipReason(test, file, name, server) {
  if (test.skipReason) return `by the specification: ${test.skipReason}`;
  const need = unmet(file.runOnRequirements, server) ?? unmet(test.runOnRequirements, server);
  if (need) return need;
  if (!server.failCommand && usesFailPoint(test.operations)) return 'needs failCommand';
  return gapOf(name, test.description);
}

const kMajority = {writeConcern: {w: 'majority'}};

async function insertInitialData(admin, collections = []) {
  for (const {databaseName, collectionName, createOptions, documents = []} of collections) {
    const db = admin.db(databaseName);
    await db.dropCollection(collectionName, kMajority);
    if (createOptions || documents.length === 0) await db.createCollection(collectionName, {...createOptions, ...kMajority});
    if (documents.length > 0) await db.collection(collectionName).insertMany(documents, kMajority);
  }
}

async function checkOutcome(admin, outcome = [], matcher) {
  for (const {databaseName, collectionName, documents} of outcome) {
    const actual = await admin.db(databaseName).collection(collectionName)
      .find({}, {sort: {_id: 1}, readPreference: 'primary', readConcern: {level: 'local'}}).toArray();
    matcher.match(actual, documents, {root: false, at: `outcome ${collectionName}`});
  }
}

class Case {
  constructor(server, admin) {
    this.admin = admin;
    this.entities = new Entities(server);
    this.matcher = new Matcher(this.entities);
    this.failPoints = new Set();
    this.run = (operation, options) => this.operate(operation, options);
  }

  async call(operation) {
    const {name, object, arguments: args = {}} = operation;
    if (object === 'testRunner') {
      const special = kTestRunner[name];
      if (!special) throw new Unsupported(`testRunner.${name} is not in this runner`);
      return special(this, args);
    }
    const target = this.entities.get(object);
    const method = operationFor(name, target);
    if (!method) throw new Unsupported(`operation ${name} is not in this runner`);
    return method(target, structuredCopy(args), this.entities, this.run);
  }

  // rethrow: within a transaction's callback the driver must see the operation's error.
  async operate(operation, {rethrow = false} = {}) {
    const at = `${operation.object}.${operation.name}`;
    let result;
    try {
      result = await this.call(operation);
    } catch (error) {
      if (error instanceof Mismatch || error instanceof Unsupported) throw error;
      if (operation.object === 'testRunner' || operation.ignoreResultAndError) {
        if (operation.ignoreResultAndError && !rethrow) return;
        throw error;
      }
      if (!operation.expectError) {
        if (rethrow) throw error;
        throw new Mismatch(`${at} ${show(operation.arguments ?? {})} failed: ${describe(error)}`);
      }
      this.within(at, () => checkError(error, operation.expectError, this.matcher));
      if (rethrow) throw error;
      return;
    }
    if (operation.expectError)
      throw new Mismatch(`${at} ${show(operation.arguments ?? {})} should have failed with ${show(operation.expectError)}, ` +
                         `got ${show(result)}`);
    if ('expectResult' in operation)
      this.within(`${at} ${show(operation.arguments ?? {})}`,
                  () => this.matcher.match(result ?? (operation.expectResult === null ? null : undefined),
                                           operation.expectResult, {root: true, at: 'result'}));
    if (operation.saveResultAsEntity) this.entities.set(operation.saveResultAsEntity, result);
  }

  within(what, check) {
    try {
      return check();
    } catch (error) {
      if (error instanceof Mismatch) error.message = `${what}: ${error.message}`;
      throw error;
    }
  }

  async execute(test, file) {
    // As the format asks: what an earlier test left open must not hold this one up.
    await this.admin.db('admin').command({killAllSessions: []}).catch(() => {});
    await insertInitialData(this.admin, file.initialData);
    await this.entities.create(file.createEntities);
    for (const operation of test.operations) await this.operate(operation);
    await this.disableFailPoints();
    if (test.expectEvents) checkEvents(test.expectEvents, this.entities, this.matcher);
    if (test.expectLogMessages) checkLogMessages(test.expectLogMessages, this.entities, this.matcher);
    await checkOutcome(this.admin, test.outcome, this.matcher);
  }

  async disableFailPoints() {
    for (const name of this.failPoints) {
      this.failPoints.delete(name);
      await this.admin.db('admin').command({configureFailPoint: name, mode: 'off'});
    }
  }

  async close(force) {
    await this.disableFailPoints().catch(() => {});
    await this.entities.close(force);
  }
}

// The driver may add _id to documents it is given; the test's own text must stay as it is.
function structuredCopy(value) {
  if (Array.isArray(value)) return value.map(structuredCopy);
  if (value === null || typeof value !== 'object' || value._bsontype || value instanceof Date || value instanceof RegExp ||
      Buffer.isBuffer(value))
    return value;
  return Object.fromEntries(Object.entries(value).map(([key, v]) => [key, structuredCopy(v)]));
}

const within = (promise, ms) => {
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(resolve, ms, 'late'); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

// {outcome: 'passed' | 'failed' | 'skipped', why, timedOut}
export async function runCase(test, {name, content: file}, server, admin) {
  const reason = skipReason(test, file, name, server);
  if (reason) return {outcome: 'skipped', why: reason};
  const running = new Case(server, admin);
  let result = {outcome: 'passed'};
  const work = running.execute(test, file).catch((error) => error);
  const ended = await within(work, kCaseMs);
  if (ended === 'late') result = {outcome: 'failed', why: `no end after ${kCaseMs / 1000} s`, timedOut: true};
  else if (ended instanceof Unsupported) result = {outcome: 'skipped', why: ended.message};
  else if (ended instanceof Mismatch) result = {outcome: 'failed', why: ended.message};
  else if (ended instanceof Error) result = {outcome: 'failed', why: `${describe(ended)}${stackOf(ended)}`};
  await within(running.close(result.outcome === 'failed'), 5000);
  return result;
}

// Where an error that is not the server's came from: mostly a bug of this runner.
const stackOf = (error) => (error.code !== undefined ? '' : ` ${error.stack?.split('\n')[1]?.trim() ?? '?'}`);
