// Change streams and the oplog through the Node driver.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';

import {MongoClient, Timestamp} from 'mongodb';

import {Server} from './support/server.mjs';

let server, client, db;
before(async () => {
  server = await Server.start();
  client = await new MongoClient(server.uri).connect();
  db = client.db('streams');
});
after(async () => {
  await client?.close();
  assert.equal(await server?.stop(), 0);
});

// The next `count` events; `act` runs once the stream is open.
async function events(target, count, act, pipeline = [], options = {}) {
  const stream = target.watch(pipeline, {maxAwaitTimeMS: 50, ...options});
  await stream.tryNext();
  await act();
  const told = [];
  while (told.length < count) told.push(await stream.next());
  await stream.close();
  return told;
}

test('events of a collection, a database and everything', async () => {
  const c = db.collection('wide');
  await c.insertOne({_id: 0});
  for (const target of [c, db, client]) {
    const told = await events(target, 4, async () => {
      await c.insertOne({_id: 1, a: [1, 2, 3]});
      await c.updateOne({_id: 1}, {$push: {a: 4}, $set: {b: {c: 1}}});
      await c.replaceOne({_id: 1}, {z: 1});
      await c.deleteOne({_id: 1});
    });
    assert.deepEqual(told.map((e) => e.operationType), ['insert', 'update', 'replace', 'delete']);
    assert.deepEqual(told[1].updateDescription,
                     {updatedFields: {'a.3': 4, b: {c: 1}}, removedFields: [], truncatedArrays: []});
    assert.deepEqual(told[2].fullDocument, {_id: 1, z: 1});
    assert.deepEqual(told[3].ns, {db: 'streams', coll: 'wide'});
    assert.ok(told.every((e) => e.wallTime instanceof Date && e.clusterTime instanceof Timestamp));
  }
});

test('a waiting getMore is woken by the event, not by its time', async () => {
  const c = db.collection('wake');
  await c.insertOne({_id: 0});
  const stream = c.watch([], {maxAwaitTimeMS: 20000});
  const waiting = stream.next();
  await new Promise((resolve) => setTimeout(resolve, 500));
  const started = performance.now();
  await c.insertOne({_id: 1});
  assert.equal((await waiting).documentKey._id, 1);
  assert.ok(performance.now() - started < 5000);
  await stream.close();
});

test('resuming after a restart of the server', async () => {
  const own = await Server.start();
  const dbpath = own.dbpath;
  let now = await new MongoClient(own.uri).connect();
  const stream = now.db('r').collection('c').watch([], {maxAwaitTimeMS: 50});
  await stream.tryNext();
  await now.db('r').collection('c').insertMany([{_id: 1}, {_id: 2}, {_id: 3}]);
  const token = (await stream.next())._id;
  await now.close();
  own.ownsPath = false;
  assert.equal(await own.stop(), 0);
  const again = await Server.start({dbpath});
  again.ownsPath = true;
  now = await new MongoClient(again.uri).connect();
  const resumed = now.db('r').collection('c').watch([], {resumeAfter: token});
  assert.equal((await resumed.next()).documentKey._id, 2);
  assert.equal((await resumed.next()).documentKey._id, 3);
  await now.close();
  assert.equal(await again.stop(), 0);
});

test('a transaction is told as one moment, and a drop ends the stream', async () => {
  const c = db.collection('ends');
  await c.insertOne({_id: 0});
  const told = await events(c, 4, async () => {
    await client.withSession((session) => session.withTransaction(async () => {
      await c.insertOne({_id: 1}, {session});
      await c.insertOne({_id: 2}, {session});
    }));
    await c.drop();
  });
  assert.deepEqual(told.map((e) => e.operationType), ['insert', 'insert', 'drop', 'invalidate']);
  assert.deepEqual(told[0].clusterTime, told[1].clusterTime);
  assert.ok(told[0].lsid && told[0].txnNumber > 0 && told[2].lsid === undefined);
});

test('the oplog: shapes, ranges, order, tailing; nobody writes to it', async () => {
  const oplog = client.db('local').collection('oplog.rs');
  const c = db.collection('logged');
  const {operationTime: from} = await client.db('admin').command({ping: 1});
  await c.insertOne({_id: 1, a: {b: 1, c: 1}, l: [1, 2]});
  await c.updateOne({_id: 1}, {$set: {'a.b': 2, n: 1, 'l.0': 5}, $unset: {'a.c': 1}});
  await c.deleteOne({_id: 1});
  await client.withSession((session) => session.withTransaction(async () => {
    await c.insertOne({_id: 2}, {session});
  }));
  const found = await oplog.find({ts: {$gt: from}, ns: /logged|cmd/}).toArray();
  assert.deepEqual(found.map((e) => e.op), ['c', 'i', 'u', 'd', 'c']);
  const [create, insert, update, remove, transaction] = found;
  assert.equal(create.o.create, 'logged');
  assert.deepEqual(insert.o, {_id: 1, a: {b: 1, c: 1}, l: [1, 2]});
  assert.deepEqual(update.o, {$v: 2, diff: {i: {n: 1}, sa: {d: {c: false}, u: {b: 2}}, sl: {a: true, u0: 5}}});
  assert.deepEqual(update.o2, {_id: 1});
  assert.deepEqual(remove.o, {_id: 1});
  assert.equal(transaction.o.applyOps[0].op, 'i');
  assert.ok(transaction.lsid && found.every((e) => e.ts && e.wall && e.v === 2 && e.t === 1));
  const [newest] = await oplog.find().sort({$natural: -1}).limit(1).toArray();
  assert.deepEqual(newest.ts, transaction.ts);
  const backwards = await oplog.find({ts: {$gt: from}, ns: /logged|cmd/}).sort({$natural: -1}).toArray();
  assert.deepEqual(backwards, found.reverse());
  const tail = oplog.find({ts: {$gt: newest.ts}}, {tailable: true, awaitData: true, maxAwaitTimeMS: 10000});
  const next = tail.next();
  await new Promise((resolve) => setTimeout(resolve, 50));
  await c.insertOne({_id: 3});
  assert.deepEqual((await next).o, {_id: 3});
  await tail.close();
  assert.ok((await client.db('local').listCollections().toArray()).some(({name, options}) => name === 'oplog.rs' && options.capped));
  await assert.rejects(oplog.insertOne({_id: 1}));
  await assert.rejects(client.db('local').createCollection('oplog.rs'), {code: 48});
  const [{storageStats}] = await oplog.aggregate([{$collStats: {storageStats: {}}}]).toArray();
  assert.equal(storageStats.capped, true);
});
