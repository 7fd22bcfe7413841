// Operations on the object "testRunner": assertions about sessions, events, collections, and failpoints.
import {Mismatch, show} from './match.mjs';

const kWithinMs = 10000;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function lastTwoLsids(entities, {client}) {
  const lsids = entities.events(client).started().slice(-2).map((event) => event.command.lsid);
  if (lsids.length < 2 || lsids.some((lsid) => lsid === undefined)) throw new Mismatch('two commands with an lsid expected');
  return lsids.map((lsid) => show(lsid));
}

function require(condition, why) {
  if (!condition) throw new Mismatch(why);
}

async function hasCollection(context, {databaseName, collectionName}) {
  return (await context.admin.db(databaseName).listCollections({name: collectionName}).toArray()).length > 0;
}

async function hasIndex(context, {databaseName, collectionName, indexName}) {
  const indexes = await context.admin.db(databaseName).collection(collectionName).listIndexes().toArray()
    .catch((error) => {
      if (error.code === 26) return [];
      throw error;
    });
  return indexes.some((index) => index.name === indexName);
}

const kStates = {none: 'NO_TRANSACTION', starting: 'STARTING_TRANSACTION', in_progress: 'TRANSACTION_IN_PROGRESS',
                 committed: 'TRANSACTION_COMMITTED', aborted: 'TRANSACTION_ABORTED'};
const pinned = (session) => session.isPinned;
const topologyOf = (client) => client.topology.description;

export const kTestRunner = {
  failPoint: (context, {failPoint}) => {
    context.failPoints.add(failPoint.configureFailPoint);
    return context.admin.db('admin').command(failPoint);
  },
  targetedFailPoint: (context, args) => kTestRunner.failPoint(context, args),
  createEntities: ({entities}, args) => entities.create(args.entities),
  wait: (context, {ms}) => sleep(ms),
  waitForEvent: async ({entities, matcher}, {client, event, count}) => {
    const until = Date.now() + kWithinMs;
    while (entities.events(client).count(event, matcher) < count) {
      require(Date.now() < until, `waited in vain for ${count} of ${show(event)}`);
      await sleep(5);
    }
  },
  assertEventCount: ({entities, matcher}, {client, event, count}) => {
    const actual = entities.events(client).count(event, matcher);
    require(actual === count, `expected ${count} of ${show(event)}, got ${actual}`);
  },
  assertSameLsidOnLastTwoCommands: ({entities}, args) => {
    const [a, b] = lastTwoLsids(entities, args);
    require(a === b, `the last two commands have sessions ${a} and ${b}`);
  },
  assertDifferentLsidOnLastTwoCommands: ({entities}, args) => {
    const [a, b] = lastTwoLsids(entities, args);
    require(a !== b, `the last two commands have the same session ${a}`);
  },
  assertSessionDirty: ({entities}, {session}) =>
    require(entities.get(session).serverSession.isDirty, 'the session is not dirty'),
  assertSessionNotDirty: ({entities}, {session}) =>
    require(!entities.get(session).serverSession.isDirty, 'the session is dirty'),
  assertSessionPinned: ({entities}, {session}) => require(pinned(entities.get(session)), 'the session is not pinned'),
  assertSessionUnpinned: ({entities}, {session}) => require(!pinned(entities.get(session)), 'the session is pinned'),
  assertSessionTransactionState: ({entities}, {session, state}) => {
    const actual = entities.get(session).transaction.state;
    require(actual === kStates[state], `expected transaction state ${state}, got ${actual}`);
  },
  assertNumberConnectionsCheckedOut: ({entities}, {client, connections}) => {
    const actual = entities.events(client).checkedOut;
    require(actual === connections, `expected ${connections} connections checked out, got ${actual}`);
  },
  assertCollectionExists: async (context, args) =>
    require(await hasCollection(context, args), `collection ${args.collectionName} does not exist`),
  assertCollectionNotExists: async (context, args) =>
    require(!await hasCollection(context, args), `collection ${args.collectionName} exists`),
  assertIndexExists: async (context, args) => require(await hasIndex(context, args), `index ${args.indexName} does not exist`),
  assertIndexNotExists: async (context, args) => require(!await hasIndex(context, args), `index ${args.indexName} exists`),
  recordTopologyDescription: ({entities}, {client, id}) => entities.set(id, topologyOf(entities.get(client))),
  assertTopologyType: ({entities}, {topologyDescription, topologyType}) => {
    const {type} = entities.get(topologyDescription);
    require(type === topologyType, `expected topology ${topologyType}, got ${type}`);
  },
  waitForPrimaryChange: async ({entities}, {client, priorTopologyDescription, timeoutMS = kWithinMs}) => {
    const primary = (d) => [...d.servers.values()].find((s) => s.type === 'RSPrimary')?.address;
    const before = primary(entities.get(priorTopologyDescription));
    const until = Date.now() + timeoutMS;
    for (;;) {
      const now = primary(topologyOf(entities.get(client)));
      if (now !== undefined && now !== before) return;
      require(Date.now() < until, 'the primary did not change');
      await sleep(20);
    }
  },
  runOnThread: ({entities, run}, {thread, operation}) => {
    const job = entities.threads.get(thread).then(() => run(operation));
    job.catch(() => {});
    entities.threads.set(thread, job);
  },
  waitForThread: async ({entities}, {thread}) => {
    await Promise.race([entities.threads.get(thread),
                        sleep(kWithinMs).then(() => { throw new Mismatch(`thread ${thread} is still running`); })]);
  },
};
