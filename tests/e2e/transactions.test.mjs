// Sessions and multi-document transactions: what they see, their codes and labels. Through the Node driver, but
// for the state machine and the concerns, which are met with commands that no driver adds to (raw_client).
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {Binary, Long, MongoClient, Timestamp, UUID} from 'mongodb';

import {RawClient} from './support/raw_client.mjs';
import {Server} from './support/server.mjs';

let server, client, bare, db;
before(async () => {
  server = await Server.start({args: ['--test-commands']});
  client = await new MongoClient(server.uri).connect();
  bare = await RawClient.connect(server.port);
  db = client.db('txn');
});
after(async () => {
  RawClient.endAll();
  await client?.close();
  assert.equal(await server?.stop(), 0);
});

const label = (error, name) => error.hasErrorLabel?.(name) ?? error.errorLabels?.includes(name);

// A session whose transactions are numbered by hand.
class Session {
  constructor(client = bare) { this.client = client; this.lsid = {id: new UUID()}; this.number = 0; }
  start(command, dbName = 'txn', extra = {}) {
    ++this.number;
    return this.send(command, dbName, {startTransaction: true, ...extra});
  }
  send(command, dbName = 'txn', extra = {}, number = this.number) {
    return this.client.command(dbName, {...command, lsid: this.lsid, txnNumber: Long.fromNumber(number),
                                        autocommit: false, ...extra});
  }
  commit(extra, number) { return this.send({commitTransaction: 1}, 'admin', extra, number); }
  abort(extra, number) { return this.send({abortTransaction: 1}, 'admin', extra, number); }
}

describe('transactions', () => {
  test('withTransaction over several collections and databases', async () => {
    await client.withSession((session) => session.withTransaction(async () => {
      await db.collection('a').insertOne({_id: 1, x: 1}, {session});
      await client.db('txn2').collection('b').insertMany([{_id: 1}, {_id: 2}], {session});
      assert.equal(await db.collection('a').countDocuments({}, {session}), 1);
      assert.equal(await db.collection('a').countDocuments({}), 0);
    }));
    assert.deepEqual(await db.collection('a').findOne({}), {_id: 1, x: 1});
    assert.equal(await client.db('txn2').collection('b').countDocuments(), 2);
  });

  test('reads see the snapshot and own writes: find, aggregate with $lookup, distinct, cursors', async () => {
    const c = db.collection('reads'), other = db.collection('reads_other');
    await c.insertMany(Array.from({length: 50}, (_, i) => ({_id: i, k: i % 5, n: 0})));
    await c.createIndex({k: 1});
    await other.insertMany([{_id: 0, name: 'zero'}, {_id: 1, name: 'one'}]);
    const session = client.startSession();
    session.startTransaction();
    assert.equal((await c.find({k: 1}, {session}).toArray()).length, 10);
    await c.updateMany({k: 1}, {$set: {k: 7}}, {session});
    await c.insertOne({_id: 100, k: 1}, {session});
    await c.deleteOne({_id: 0}, {session});
    await c.insertOne({_id: 200, k: 1});
    await other.updateOne({_id: 1}, {$set: {name: 'uno'}});
    assert.deepEqual(await c.find({k: 1}, {session, hint: {k: 1}}).map((d) => d._id).toArray(), [100]);
    assert.deepEqual((await c.distinct('k', {}, {session})).sort(), [0, 1, 2, 3, 4, 7]);
    const joined = await c.aggregate([
      {$match: {k: {$in: [1, 7]}}}, {$group: {_id: '$k', n: {$sum: 1}}}, {$sort: {_id: 1}},
      {$lookup: {from: 'reads_other', pipeline: [{$match: {_id: 1}}], as: 'o'}}], {session}).toArray();
    assert.deepEqual(joined.map(({_id, n, o}) => [_id, n, o[0].name]), [[1, 1, 'one'], [7, 10, 'one']]);
    const cursor = c.find({}, {session, batchSize: 7, sort: {_id: 1}});
    const ids = [];
    for await (const d of cursor) {
      ids.push(d._id);
      if (d._id === 10) await c.insertOne({_id: 300}, {session});
    }
    assert.deepEqual(ids, [...Array.from({length: 49}, (_, i) => i + 1), 100, 300]);
    await session.abortTransaction();
    await session.endSession();
    assert.equal(await c.countDocuments({k: 1}), 11);
    assert.equal(await c.countDocuments(), 51);
  });

  test('every kind of write inside one', async () => {
    const c = db.collection('writes');
    await c.insertMany([{_id: 1, v: 1}, {_id: 2, v: 2}, {_id: 3, v: 3}]);
    await client.withSession((session) => session.withTransaction(async () => {
      const options = {session};
      assert.equal((await c.findOneAndUpdate({_id: 1}, {$inc: {v: 10}}, {...options, returnDocument: 'after'})).v, 11);
      assert.equal((await c.findOneAndDelete({_id: 2}, options)).v, 2);
      assert.equal((await c.updateOne({_id: 9}, {$set: {v: 9}}, {...options, upsert: true})).upsertedId, 9);
      await c.bulkWrite([{insertOne: {document: {_id: 4}}}, {replaceOne: {filter: {_id: 3}, replacement: {w: 3}}},
                         {deleteMany: {filter: {_id: 4}}}], options);
      await client.bulkWrite([{name: 'insertOne', namespace: 'txn.writes', document: {_id: 5}},
                              {name: 'insertOne', namespace: 'txn.writes_made', document: {_id: 5}}], options);
      await db.createCollection('writes_created', options);
      await db.collection('writes_created').createIndex({u: 1}, {...options, unique: true});
      await db.collection('writes_created').insertOne({_id: 1, u: 1}, options);
    }));
    assert.deepEqual(await c.find().sort({_id: 1}).toArray(),
                     [{_id: 1, v: 11}, {_id: 3, w: 3}, {_id: 5}, {_id: 9, v: 9}]);
    assert.equal(await db.collection('writes_made').countDocuments(), 1);
    await assert.rejects(db.collection('writes_created').insertOne({_id: 2, u: 1}), {code: 11000});
    for (const name of ['writes', 'writes_made', 'writes_created'])
      assert.equal((await db.command({validate: name, full: true})).valid, true);
  });

  test('a write conflict aborts the second writer, with its label', async () => {
    const c = db.collection('conflict');
    await c.insertOne({_id: 1, n: 0});
    const one = client.startSession(), two = client.startSession();
    one.startTransaction();
    two.startTransaction();
    await c.updateOne({_id: 1}, {$inc: {n: 1}}, {session: one});
    await assert.rejects(c.updateOne({_id: 1}, {$inc: {n: 1}}, {session: two}), (error) => {
      assert.equal(error.code, 112);
      assert.ok(label(error, 'TransientTransactionError'));
      return true;
    });
    await assert.rejects(c.findOne({_id: 1}, {session: two}), {code: 251});
    await two.abortTransaction();
    // A writer outside waits for the transaction.
    const outside = c.updateOne({_id: 1}, {$inc: {n: 10}});
    await new Promise((resolve) => setTimeout(resolve, 50));
    await one.commitTransaction();
    await outside;
    assert.equal((await c.findOne({_id: 1})).n, 11);
    await one.endSession();
    await two.endSession();
  });

  test('a waiting writer heeds maxTimeMS', async () => {
    const c = db.collection('conflict');
    const session = client.startSession();
    session.startTransaction();
    await c.updateOne({_id: 1}, {$set: {held: true}}, {session});
    await assert.rejects(db.command({update: 'conflict', updates: [{q: {_id: 1}, u: {$set: {a: 1}}}], maxTimeMS: 60}),
                         {code: 50});
    await session.abortTransaction();
    await session.endSession();
  });

  test('a duplicate key aborts the transaction', async () => {
    const c = db.collection('duplicate');
    await c.insertOne({_id: 1});
    const session = client.startSession();
    session.startTransaction();
    await c.insertOne({_id: 2}, {session});
    await assert.rejects(c.insertMany([{_id: 3}, {_id: 1}, {_id: 4}], {session, ordered: false}), {code: 11000});
    await assert.rejects(c.findOne({}, {session}), {code: 251});
    await assert.rejects(session.commitTransaction(), {code: 251});
    await session.endSession();
    assert.equal(await c.countDocuments(), 1);
  });
});

describe('the state machine', () => {
  test('numbers, commits and aborts', async () => {
    const raw = new Session();
    const find = {find: 'state'};
    await assert.rejects(raw.send(find), {code: 251});
    await raw.start({insert: 'state', documents: [{_id: 1}]});
    await assert.rejects(raw.send(find, 'txn', {startTransaction: true}), {code: 50911});
    await raw.start({insert: 'state', documents: [{_id: 2}]});  // aborts the first
    await assert.rejects(raw.send(find, 'txn', {}, 1), {code: 225});
    await assert.rejects(raw.send(find, 'txn', {}, 9), {code: 251});
    assert.equal((await raw.send(find)).cursor.firstBatch.length, 1);
    await raw.commit();
    await raw.commit();  // again
    await assert.rejects(raw.abort(), {code: 256});
    await assert.rejects(raw.send(find), {code: 256});
    await raw.start(find);
    await raw.abort();
    await assert.rejects(raw.abort(), {code: 251});
    await assert.rejects(raw.commit(), (error) => error.code === 251 && label(error, 'TransientTransactionError'));
    assert.deepEqual(await db.collection('state').find().toArray(), [{_id: 2}]);
  });

  test('what may not be said or done inside', async () => {
    const raw = new Session();
    const refused = (command, code, dbName, extra) =>
      assert.rejects(raw.start(command, dbName, extra), (error) => {
        assert.equal(error.code, code, `${JSON.stringify(command)}: ${error.code} ${error.message}`);
        return true;
      });
    await refused({count: 'state'}, 263);
    await refused({listCollections: 1}, 263);
    await refused({dropIndexes: 'state', index: 'x_1'}, 263);
    await refused({find: 'state', readConcern: {level: 'linearizable'}}, 72);
    await refused({insert: 'state', documents: [{}], writeConcern: {w: 1}}, 72);
    await refused({find: 'system.users'}, 263, 'admin');
    await refused({aggregate: 'state', pipeline: [{$out: 'x'}], cursor: {}}, 263);
    await refused({createIndexes: 'state', indexes: [{key: {q: 1}, name: 'q_1'}]}, 263);
    await db.createCollection('capped', {capped: true, size: 4096});
    await refused({insert: 'capped', documents: [{}]}, 263);
    await raw.start({find: 'state'});
    await assert.rejects(raw.send({find: 'state', readConcern: {level: 'snapshot'}}), {code: 72});
    await assert.rejects(bare.command('admin', {commitTransaction: 1}), {code: 125});
  });

  test('cursors belong to their transaction', async () => {
    await db.collection('cursors').insertMany(Array.from({length: 10}, (_, i) => ({_id: i})));
    const raw = new Session();
    const {cursor} = await raw.start({find: 'cursors', batchSize: 2});
    const more = {getMore: cursor.id, collection: 'cursors', batchSize: 2};
    await assert.rejects(bare.command('txn', {...more, lsid: raw.lsid}), {code: 50740});
    assert.equal((await raw.send(more)).cursor.nextBatch.length, 2);
    await raw.commit();
    await assert.rejects(bare.command('txn', {...more, lsid: raw.lsid}), {code: 43});
  });

  test('killing and ending sessions aborts their transactions', async () => {
    const raw = new Session();
    await raw.start({insert: 'killed', documents: [{_id: 1}]});
    await bare.command('admin', {killSessions: [raw.lsid]});
    await assert.rejects(raw.commit(), {code: 251});
    await raw.start({insert: 'killed', documents: [{_id: 2}]});
    await bare.command('admin', {endSessions: [raw.lsid]});
    await assert.rejects(raw.commit(), {code: 251});
    assert.equal(await db.collection('killed').countDocuments(), 0);
  });

  test('a commit is known after kill -9, and an open transaction leaves nothing', async () => {
    const own = await Server.start();
    const {dbpath} = own;
    own.ownsPath = false;
    const raw = new Session(await RawClient.connect(own.port));
    await raw.start({insert: 'c', documents: [{_id: 1}]}, 'k');
    await raw.commit({writeConcern: {w: 'majority'}});
    await raw.start({insert: 'c', documents: [{_id: 2}]}, 'k');
    await own.kill9();
    const again = await Server.start({dbpath});
    raw.client = await RawClient.connect(again.port);
    await raw.commit({}, 1);
    await assert.rejects(raw.send({insert: 'c', documents: [{_id: 3}]}, 'k', {}, 1), {code: 256});
    await assert.rejects(raw.commit({}, 2), {code: 251});
    assert.deepEqual((await raw.client.command('k', {find: 'c'})).cursor.firstBatch, [{_id: 1}]);
    raw.client.end();
    again.ownsPath = true;
    assert.equal(await again.stop(), 0);
  });

  test('a transaction past its time is aborted', async () => {
    const {writeFileSync, mkdtempSync, rmSync} = await import('node:fs');
    const folder = mkdtempSync('/tmp/multifora-lifetime-');
    writeFileSync(`${folder}/config.json`, JSON.stringify({'command-session': {transaction_lifetime_secs: 1, snapshot_history_secs: 2}}));
    const own = await Server.start({args: ['--config', `${folder}/config.json`]});
    const c = await new MongoClient(own.uri).connect();
    const session = c.startSession();
    session.startTransaction();
    await c.db('l').collection('c').insertOne({_id: 1}, {session});
    const shown = await c.db('admin').command({getParameter: 1, transactionLifetimeLimitSeconds: 1, minSnapshotHistoryWindowInSeconds: 1});
    assert.deepEqual([shown.transactionLifetimeLimitSeconds, shown.minSnapshotHistoryWindowInSeconds], [1, 2]);
    const later = c.startSession({snapshot: true});
    assert.equal((await c.db('l').collection('d').find({}, {session: later}).toArray()).length, 0);
    await c.db('l').collection('d').insertOne({_id: 1});
    await new Promise((resolve) => setTimeout(resolve, 2500));
    await assert.rejects(c.db('l').collection('d').find({}, {session: later}).toArray(), {code: 239});
    await later.endSession();
    await assert.rejects(c.db('l').collection('c').insertOne({_id: 2}, {session}), {code: 251});
    await session.abortTransaction();
    assert.equal(await c.db('l').collection('c').countDocuments(), 0);
    await session.endSession();
    await c.close();
    assert.equal(await own.stop(), 0);
    rmSync(folder, {recursive: true});
  });
});

describe('sessions', () => {
  test('are listed, refreshed and ended', async () => {
    const admin = client.db('admin');
    const {id, timeoutMinutes} = await admin.command({startSession: 1});
    assert.equal(timeoutMinutes, 30);
    const listed = async () => (await admin.aggregate([{$listLocalSessions: {}}]).toArray())
      .map((s) => s._id.id.toString('hex'));
    const name = id.id.toString('hex');
    assert.ok((await listed()).includes(name));
    await admin.command({refreshSessions: [id]});
    await admin.command({endSessions: [id]});
    assert.ok(!(await listed()).includes(name));
    await assert.rejects(admin.aggregate([{$listLocalSessions: {bogus: 1}}]).toArray(), {code: 40415});
    await assert.rejects(admin.aggregate([{$listSessions: {}}]).toArray(), {code: 73});
    const stored = await client.db('config').collection('system.sessions').aggregate([{$listSessions: {allUsers: true}}])
      .toArray();
    assert.ok(stored.length > 0);
  });

  test('a replica set of one answers for itself', async () => {
    const admin = client.db('admin');
    const status = await admin.command({replSetGetStatus: 1});
    assert.equal(status.set, 'rs0');
    assert.equal(status.members[0].stateStr, 'PRIMARY');
    assert.equal((await admin.command({replSetGetConfig: 1})).config.members.length, 1);
    await assert.rejects(admin.command({replSetInitiate: {}}), {code: 23});
    await assert.rejects(admin.command({replSetStepDown: 10}), {code: 115});
  });
});

describe('causal consistency and concerns', () => {
  const timestamp = (seconds) => new Timestamp({t: seconds, i: 1});
  const now = () => Math.floor(Date.now() / 1000);

  test('a time that the client knows is taken over; one far ahead is refused', async () => {
    const own = await Server.start();
    const raw = await RawClient.connect(own.port);
    const ahead = timestamp(now() + 100);
    const gossip = {$clusterTime: {clusterTime: ahead, signature: {hash: new Binary(Buffer.alloc(20)), keyId: Long.ZERO}}};
    const read = (time, extra) => raw.command('t', {find: 'c', readConcern: {afterClusterTime: time}, ...extra});
    await assert.rejects(read(ahead), {code: 72});
    const reply = await read(ahead, gossip);
    assert.ok(reply.operationTime.greaterThanOrEqual(ahead));
    const written = await raw.command('t', {insert: 'c', documents: [{_id: 1}]});
    assert.ok(written.operationTime.greaterThan(ahead));
    const farAhead = {...gossip.$clusterTime, clusterTime: timestamp(now() + 2 * 365 * 86400)};
    await assert.rejects(raw.command('t', {ping: 1, $clusterTime: farAhead}), {code: 202});
    raw.end();
    assert.equal(await own.stop(), 0);
  });

  test('a snapshot session reads one state over several commands, cursors and drops', async () => {
    const c = db.collection('snapshot');
    await c.insertMany(Array.from({length: 10}, (_, i) => ({_id: i, v: 0})));
    const session = client.startSession({snapshot: true});
    assert.equal((await c.find({}, {session}).toArray()).length, 10);
    await c.updateMany({}, {$set: {v: 1}});
    await c.deleteOne({_id: 0});
    assert.deepEqual(await c.distinct('v', {}, {session}), [0]);
    const cursor = c.find({}, {session, batchSize: 3, sort: {_id: 1}});
    assert.equal((await cursor.next())._id, 0);
    assert.equal((await c.aggregate([{$count: 'n'}], {session}).toArray())[0].n, 10);
    await c.drop();
    assert.equal((await cursor.toArray()).length, 9);
    await session.endSession();
    assert.equal(await c.countDocuments(), 0);
    // The driver says snapshot with getMore and killCursors, too; what they read is the cursor's.
    const level = {level: 'snapshot'};
    const {cursor: {id}} = await bare.command('txn', {find: 'reads', batchSize: 2, readConcern: level});
    const rest = await bare.command('txn', {getMore: id, collection: 'reads', batchSize: 1, readConcern: level});
    assert.equal(rest.cursor.nextBatch.length, 1);
    assert.equal((await bare.command('txn', {killCursors: 'reads', cursors: [id], readConcern: level})).cursorsKilled.length, 1);
    const longAgo = {level: 'snapshot', atClusterTime: timestamp(now() - 50)};
    await assert.rejects(bare.command('txn', {find: 'snapshot', readConcern: longAgo}), {code: 239});
    await assert.rejects(bare.command('txn', {count: 'snapshot', readConcern: {level: 'snapshot'}}), {code: 72});
  });

  test('many snapshot sessions at once, each with its own state', async () => {
    const c = db.collection('snapshots');
    const sessions = [];
    for (let i = 0; i < 100; ++i) {
      await c.insertOne({_id: i});
      sessions.push(client.startSession({snapshot: true}));
      assert.equal(await c.countDocuments({}, {session: sessions[i]}), i + 1);
    }
    for (let i = 0; i < 100; ++i) assert.equal(await c.countDocuments({}, {session: sessions[i]}), i + 1);
    for (const session of sessions) await session.endSession();
  });

  test('a snapshot session begins with its first read, whatever that finds', async () => {
    const own = await Server.start();  // nothing was ever written
    const c = await new MongoClient(own.uri).connect();
    const session = c.startSession({snapshot: true});
    assert.equal((await c.db('t').collection('c').find({}, {session}).toArray()).length, 0);
    await c.db('t').collection('c').insertOne({_id: 1});
    assert.equal((await c.db('t').collection('c').find({}, {session}).toArray()).length, 0);
    await session.endSession();
    await c.close();
    assert.equal(await own.stop(), 0);
    const reads = {
      find: (c, options) => c.find({}, options).toArray(), aggregate: (c, options) => c.aggregate([], options).toArray(),
      distinct: (c, options) => c.distinct('_id', {}, options)};
    for (const [what, read] of Object.entries(reads)) {
      const name = `snapshot_first_${what}`;
      await db.createCollection(`${name}_view`, {viewOn: name, pipeline: []});
      for (const seen of [name, `${name}_view`]) {
        const session = client.startSession({snapshot: true});
        const before = (await read(db.collection(seen), {session})).length;
        await db.collection(name).insertOne({_id: seen});
        assert.equal((await read(db.collection(seen), {session})).length, before, `${what} of ${seen}`);
        await session.endSession();
      }
    }
  });

  test('default concerns are kept and used', async () => {
    const admin = (command) => bare.command('admin', command);
    const insert = () => bare.command('txn', {insert: 'defaults', documents: [{}]});
    assert.equal((await admin({getDefaultRWConcern: 1})).defaultWriteConcernSource, 'implicit');
    await assert.rejects(admin({setDefaultRWConcern: 1}), {code: 2});
    await assert.rejects(admin({setDefaultRWConcern: 1, defaultWriteConcern: {w: 0}}), {code: 2});
    await assert.rejects(admin({setDefaultRWConcern: 1, defaultReadConcern: {level: 'snapshot'}}), {code: 2});
    await admin({setDefaultRWConcern: 1, defaultWriteConcern: {w: 2}, defaultReadConcern: {level: 'majority'}});
    assert.equal((await insert()).writeConcernError.code, 100);
    await admin({setDefaultRWConcern: 1, defaultWriteConcern: {w: 1}});
    const {defaultWriteConcern, defaultReadConcern, defaultWriteConcernSource} = await admin({getDefaultRWConcern: 1});
    assert.deepEqual([defaultWriteConcern.w, defaultReadConcern.level, defaultWriteConcernSource], [1, 'majority', 'global']);
    assert.equal((await insert()).n, 1);
    await assert.rejects(admin({setDefaultRWConcern: 1, defaultWriteConcern: {}}), {code: 20});
  });
});

describe('fail points', () => {
  const failPoint = (configureFailPoint, mode, data) => client.db('admin').command({configureFailPoint, mode, ...(data && {data})});

  test('failCommand fails a command as often as it is told', async () => {
    await failPoint('failCommand', {times: 1}, {failCommands: ['count'], errorCode: 13});
    await assert.rejects(db.command({count: 'c'}), {code: 13});
    await db.command({count: 'c'});
    await failPoint('failCommand', 'alwaysOn', {failCommands: ['count'], errorCode: 91, errorLabels: ['Mine']});
    await assert.rejects(db.command({count: 'c'}), (error) => label(error, 'Mine'));
    await failPoint('failCommand', 'off');
    await db.command({count: 'c'});
    await assert.rejects(failPoint('noSuchPoint', 'alwaysOn'), {code: 266});
    await assert.rejects(failPoint('failCommand', 'alwaysOn', {failCommands: ['count'], bogus: 1}), {code: 40415});
  });

  test('failCommand closes connections, blocks, and adds write concern errors', async () => {
    await failPoint('failCommand', {times: 1}, {failCommands: ['insert'], closeConnection: true});
    await assert.rejects(db.command({insert: 'fp', documents: [{_id: 1}]}), /connection/);
    assert.equal(await db.collection('fp').countDocuments(), 0);
    await failPoint('failCommand', {times: 1}, {failCommands: ['insert'], blockConnection: true, blockTimeMS: 120});
    const started = Date.now();
    const blocked = db.collection('fp').insertMany([{_id: 2}, {_id: 3}]);
    await db.command({ping: 1});
    assert.ok(Date.now() - started < 100, 'others are served meanwhile');
    await blocked;
    assert.ok(Date.now() - started >= 120);
    assert.equal(await db.collection('fp').countDocuments(), 2);
    await failPoint('failCommand', {times: 1},
                    {failCommands: ['insert'], writeConcernError: {code: 64, errmsg: 'slow', errInfo: {a: 1}}});
    const reply = await db.command({insert: 'fp', documents: [{_id: 4}]}).catch((error) => error.result ?? error);
    assert.equal((reply.writeConcernError ?? reply.result?.writeConcernError).code, 64);
    assert.equal(await db.collection('fp').countDocuments(), 3);
  });

  test('a server without test commands has none', async () => {
    const plain = await Server.start();
    const c = await new MongoClient(plain.uri).connect();
    await assert.rejects(c.db('admin').command({configureFailPoint: 'failCommand', mode: 'off'}), {code: 59});
    assert.equal((await c.db('admin').command({getParameter: 1, enableTestCommands: 1})).enableTestCommands, false);
    await c.close();
    await plain.stop();
    assert.equal((await client.db('admin').command({getParameter: 1, enableTestCommands: 1})).enableTestCommands, true);
  });
});
