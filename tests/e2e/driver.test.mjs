// The Node driver against a running server: values, types, error codes.
import assert from 'node:assert/strict';
import {after, before, describe, test} from 'node:test';

import {Binary, Decimal128, Double, Int32, Long, MongoClient, ObjectId, Timestamp} from 'mongodb';

import {Server} from './support/server.mjs';

let server, client, db;
before(async () => {
  server = await Server.start({args: ['--ttl-sweep-secs', '1']});
  client = await new MongoClient(server.uri).connect();
  db = client.db('e2e');
});
after(async () => {
  await client?.close();
  assert.equal(await server?.stop(), 0);
});

describe('connection', () => {
  test('hello says a primary of a one-node replica set', async () => {
    const hello = await client.db('admin').command({hello: 1});
    assert.equal(hello.isWritablePrimary, true);
    assert.equal(hello.setName, 'rs0');
    assert.deepEqual(hello.hosts, [hello.me]);
    assert.equal(hello.me, hello.primary);
    assert.equal(hello.maxWireVersion, 25);
    assert.equal(hello.minWireVersion, 0);
    assert.equal(hello.logicalSessionTimeoutMinutes, 30);
    assert.ok(hello.topologyVersion);
  });

  test('the topology is found from the set name without a direct connection', async () => {
    const other = await new MongoClient(`mongodb://127.0.0.1:${server.port}/?replicaSet=rs0`).connect();
    assert.equal((await other.db('admin').command({ping: 1})).ok, 1);
    await other.close();
  });

  // Node has zlib; snappy and zstd are tested with PyMongo.
  test('wire compression with zlib', async () => {
    const other = await new MongoClient(`${server.uri}&compressors=zlib`).connect();
    const text = 'compressible '.repeat(5000);
    await other.db('e2e').collection('compressed').insertOne({_id: 1, text});
    assert.equal((await other.db('e2e').collection('compressed').findOne({_id: 1})).text, text);
    const {zlib} = (await other.db('admin').command({serverStatus: 1})).network.compression;
    for (const {bytesIn, bytesOut} of [zlib.compressor, {bytesIn: zlib.decompressor.bytesOut, bytesOut: zlib.decompressor.bytesIn}])
      assert.ok(bytesIn > 65000 && bytesOut < bytesIn / 10, `${bytesIn} to ${bytesOut}`);
    await other.close();
  });

  test('unknown commands and fields are refused with their codes', async () => {
    await assert.rejects(db.command({noSuchThing: 1}), {code: 59, codeName: 'CommandNotFound'});
    await assert.rejects(db.command({find: 'c', bogus: 1}), {code: 40415});
    await assert.rejects(db.command({listDatabases: 1}), {code: 13});
  });
});

describe('create, read, update, delete', () => {
  test('every BSON type comes back as it was sent', async () => {
    const types = db.collection('types');
    const document = {
      _id: new ObjectId(), double: new Double(1.5), whole: new Double(3), string: 'žluťoučký\u0000kůň',
      object: {a: {b: [1, {c: null}]}}, array: [[], [[]], {}], binary: new Binary(Buffer.from([1, 2, 3]), 0),
      oid: new ObjectId('65a000000000000000000001'), yes: true, no: false,
      date: new Date('1969-12-31T23:59:59.999Z'), null: null, regex: /a.b/im, int: new Int32(-7),
      long: Long.fromString('9007199254740993'), timestamp: new Timestamp({t: 5, i: 6}),
      decimal: Decimal128.fromString('0.1000'), nan: new Double(NaN), zero: new Double(-0),
    };
    await types.insertOne(document);
    const options = {promoteValues: false, promoteLongs: false};
    const found = await types.findOne({_id: document._id}, options);
    assert.equal(found.double.value, 1.5);
    assert.equal(found.whole._bsontype, 'Double');
    assert.equal(found.string, document.string);
    assert.equal(found.long.toString(), '9007199254740993');
    assert.equal(found.decimal.toString(), '0.1000');
    assert.equal(found.int._bsontype, 'Int32');
    assert.ok(Object.is(found.zero.value, -0));
    assert.deepEqual(Object.keys(found), Object.keys(document));
    const plain = await types.findOne({_id: document._id});
    assert.deepEqual(plain.object, document.object);
    assert.deepEqual(plain.array, document.array);
    assert.equal(plain.date.getTime(), -1);
  });

  test('inserts, finds with cursors, sorts, skips, limits, projections', async () => {
    const c = db.collection('crud');
    const many = Array.from({length: 1000}, (_, i) => ({_id: i, k: i % 10, text: `t${i}`}));
    assert.equal((await c.insertMany(many)).insertedCount, 1000);
    const all = await c.find({}, {batchSize: 37}).toArray();
    assert.equal(all.length, 1000);
    const page = await c.find({k: {$gte: 5}}).sort({k: -1, _id: 1}).skip(3).limit(4)
      .project({text: 0}).toArray();
    assert.deepEqual(page, [39, 49, 59, 69].map((_id) => ({_id, k: 9})));
    assert.equal(await c.countDocuments({k: 3}), 100);
    assert.equal(await c.estimatedDocumentCount(), 1000);
    assert.deepEqual((await c.distinct('k')).sort((a, b) => a - b), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.equal((await db.collection('nothing').find().toArray()).length, 0);
  });

  test('updates: operators, replacement, upsert, multi, pipeline', async () => {
    const c = db.collection('updates');
    await c.insertMany([{_id: 1, n: 1, a: [1, 2]}, {_id: 2, n: 2}, {_id: 3, n: 3}]);
    let result = await c.updateOne({_id: 1}, {$inc: {n: 10}, $push: {a: 3}, $set: {'x.y': 'new'}});
    assert.deepEqual([result.matchedCount, result.modifiedCount], [1, 1]);
    assert.deepEqual(await c.findOne({_id: 1}), {_id: 1, n: 11, a: [1, 2, 3], x: {y: 'new'}});
    result = await c.updateOne({_id: 1}, {$set: {n: 11}});
    assert.deepEqual([result.matchedCount, result.modifiedCount], [1, 0]);
    result = await c.updateMany({n: {$lt: 5}}, {$set: {small: true}});
    assert.equal(result.modifiedCount, 2);
    result = await c.replaceOne({_id: 2}, {whole: 'new'});
    assert.deepEqual(await c.findOne({_id: 2}), {_id: 2, whole: 'new'});
    result = await c.updateOne({_id: 9, k: 'seed'}, {$set: {v: 1}}, {upsert: true});
    assert.equal(result.upsertedId, 9);
    assert.deepEqual(await c.findOne({_id: 9}), {_id: 9, k: 'seed', v: 1});
    await c.updateOne({_id: 3}, [{$set: {double: {$multiply: ['$n', 2]}}}]);
    assert.equal((await c.findOne({_id: 3})).double, 6);
    await assert.rejects(c.updateOne({_id: 1}, {$set: {_id: 2}}), {code: 66});
    await assert.rejects(c.updateOne({_id: 1}, {$inc: {x: 1}}), {code: 14});
    const image = await c.findOneAndUpdate({_id: 3}, {$inc: {n: 1}}, {returnDocument: 'after'});
    assert.equal(image.n, 4);
    assert.equal(await c.findOneAndDelete({_id: 77}), null);
    assert.equal((await c.deleteMany({_id: {$in: [1, 2]}})).deletedCount, 2);
  });

  test('bulk writes report exactly which writes failed', async () => {
    const c = db.collection('bulk');
    await assert.rejects(
      c.insertMany([{_id: 1}, {_id: 1}, {_id: 2}], {ordered: false}),
      (error) => error.code === 11000 && error.result.insertedCount === 2 &&
        error.writeErrors.length === 1 && error.writeErrors[0].index === 1);
    const result = await c.bulkWrite([
      {insertOne: {document: {_id: 3}}}, {updateOne: {filter: {_id: 1}, update: {$set: {x: 1}}}},
      {deleteOne: {filter: {_id: 2}}}, {replaceOne: {filter: {_id: 4}, replacement: {y: 1}, upsert: true}}]);
    assert.deepEqual([result.insertedCount, result.modifiedCount, result.deletedCount, result.upsertedCount],
                     [1, 1, 1, 1]);
  });

  test('a retryable write sent twice is done once', async () => {
    // Never ended, so that the driver does not use it, and its numbers, again.
    const session = client.startSession();
    const command = (n) => ({insert: 'retry', documents: [{_id: 1}], txnNumber: Long.fromNumber(n)});
    const first = await db.command(command(1007), {session});
    const second = await db.command(command(1007), {session});
    assert.equal(first.n, 1);
    assert.equal(second.n, 1);
    assert.equal(await db.collection('retry').countDocuments({}), 1);
    await assert.rejects(db.command(command(1006), {session}), {code: 225});
  });
});

describe('aggregation', () => {
  test('match, group, sort, project, unwind, count', async () => {
    const c = db.collection('agg');
    await c.insertMany(Array.from({length: 50}, (_, i) => ({_id: i, k: i % 5, tags: ['a', `b${i % 2}`]})));
    assert.deepEqual(
      await c.aggregate([{$match: {_id: {$lt: 20}}}, {$group: {_id: '$k', n: {$sum: 1}, max: {$max: '$_id'}}},
                         {$sort: {_id: 1}}, {$limit: 2}]).toArray(),
      [{_id: 0, n: 4, max: 15}, {_id: 1, n: 4, max: 16}]);
    assert.deepEqual(
      await c.aggregate([{$unwind: '$tags'}, {$group: {_id: '$tags', n: {$sum: 1}}}, {$sort: {_id: 1}}]).toArray(),
      [{_id: 'a', n: 50}, {_id: 'b0', n: 25}, {_id: 'b1', n: 25}]);
    assert.deepEqual(await c.aggregate([{$match: {k: 1}}, {$count: 'c'}]).toArray(), [{c: 10}]);
    assert.equal((await c.aggregate([{$project: {d: {$add: ['$_id', 1]}}}], {batchSize: 7}).toArray()).length, 50);
    await assert.rejects(c.aggregate([{$bogus: 1}]).toArray(), {code: 40324});
  });
});

describe('indexes', () => {
  test('unique: 11000 with pattern and value', async () => {
    const c = db.collection('unique');
    await c.createIndex({email: 1}, {unique: true});
    await c.insertOne({email: 'a@x'});
    await assert.rejects(c.insertOne({email: 'a@x'}), (error) => {
      assert.equal(error.code, 11000);
      assert.deepEqual(error.keyPattern, {email: 1});
      assert.deepEqual(error.keyValue, {email: 'a@x'});
      return true;
    });
    await c.insertOne({});
    await assert.rejects(c.insertOne({}), {code: 11000});
    await db.collection('dups').insertMany([{a: 1}, {a: 1}]);
    await assert.rejects(db.collection('dups').createIndex({a: 1}, {unique: true}), {code: 11000});
  });

  test('sparse and unique together; compound and descending; multikey; listing and dropping', async () => {
    const c = db.collection('indexes');
    await c.createIndex({s: 1}, {unique: true, sparse: true});
    await c.insertMany([{}, {}, {s: 1}]);
    await c.createIndex({a: 1, b: -1});
    await c.createIndex({tags: 1});
    await c.insertMany([{a: 1, b: 1, tags: ['x', 'y']}, {a: 1, b: 2, tags: ['y']}, {a: 2, b: 0}]
      .map((document, i) => ({...document, s: `s${i}`})));
    assert.deepEqual((await c.find({a: 1}).sort({a: 1, b: -1}).toArray()).map((d) => d.b), [2, 1]);
    assert.equal(await c.countDocuments({tags: 'y'}), 2);
    const plan = await c.find({tags: 'y'}).explain('queryPlanner');
    assert.match(JSON.stringify(plan.queryPlanner.winningPlan), /IXSCAN/);
    assert.deepEqual((await c.indexes()).map((i) => i.name).sort(), ['_id_', 'a_1_b_-1', 's_1', 'tags_1']);
    await c.dropIndex('tags_1');
    await assert.rejects(c.dropIndex('tags_1'), {code: 27});
    await assert.rejects(c.createIndex({a: 1, b: -1}, {name: 'other'}), {code: 85});
    await assert.rejects(c.createIndex({x: 1}, {name: 'a_1_b_-1'}), {code: 86});
    await assert.rejects(c.createIndex({x: 'no-such-kind'}), {code: 67});
  });

  test('TTL: expiry within two sweeps, rejected specifications', async () => {
    const c = db.collection('ttl');
    await c.createIndex({at: 1}, {expireAfterSeconds: 1});
    await c.insertMany([{_id: 'old', at: new Date(Date.now() - 60000)}, {_id: 'new', at: new Date(Date.now() + 3600000)},
                        {_id: 'text', at: 'yesterday'}, {_id: 'array', at: [new Date(0), new Date(Date.now() + 3600000)]}]);
    const deadline = Date.now() + 5000;
    let left;
    do {
      await new Promise((resolve) => setTimeout(resolve, 100));
      left = (await c.find().sort({_id: 1}).toArray()).map((d) => d._id);
    } while (left.length > 2 && Date.now() < deadline);
    assert.deepEqual(left, ['new', 'text']);
    await assert.rejects(c.createIndex({a: 1, b: 1}, {expireAfterSeconds: 1}), {code: 67});
    await assert.rejects(c.createIndex({_id: 1}, {expireAfterSeconds: 1}), {code: 197});
  });
});

describe('catalog', () => {
  test('collections, rename, views, capped, validators, drop', async () => {
    const other = client.db('catalog');
    await other.createCollection('plain');
    await assert.rejects(other.createCollection('plain', {capped: true, size: 4096}), {code: 48});
    await other.createCollection('capped', {capped: true, size: 65536, max: 2});
    await other.collection('capped').insertMany([{_id: 1}, {_id: 2}, {_id: 3}]);
    assert.deepEqual((await other.collection('capped').find().toArray()).map((d) => d._id), [2, 3]);
    await other.createCollection('checked', {validator: {n: {$type: 'int'}}});
    await assert.rejects(other.collection('checked').insertOne({n: 'text'}), {code: 121});
    await other.collection('plain').insertMany([{_id: 1, x: 1}, {_id: 2, x: 2}]);
    await other.createCollection('view', {viewOn: 'plain', pipeline: [{$match: {x: 2}}]});
    assert.deepEqual(await other.collection('view').find().toArray(), [{_id: 2, x: 2}]);
    await assert.rejects(other.collection('view').insertOne({}), {code: 166});
    await other.collection('plain').rename('renamed');
    const names = (await other.listCollections({}, {nameOnly: true}).toArray()).map((c) => c.name).sort();
    assert.deepEqual(names, ['capped', 'checked', 'renamed', 'system.views', 'view']);
    const databases = (await client.db('admin').admin().listDatabases()).databases.map((d) => d.name);
    assert.ok(databases.includes('catalog'));
    await other.dropDatabase();
    assert.deepEqual(await other.listCollections().toArray(), []);
  });

  test('stats, validate, explain', async () => {
    assert.equal((await db.command({validate: 'crud', full: true})).valid, true);
    assert.equal((await db.command({collStats: 'crud'})).count, 1000);
    assert.ok((await db.stats()).collections > 3);
    const status = await client.db('admin').command({serverStatus: 1});
    assert.ok(status.connections.current >= 1);
  });
});

describe('concurrency', () => {
  test('4 writers and 4 readers on one collection: nothing lost, nothing torn', async () => {
    const c = db.collection('mixed');
    const perWriter = 250;
    const pair = (n) => ({a: n, b: -n, text: String(n).repeat(200)});
    let done = false;
    const writers = Array.from({length: 4}, async (_, w) => {
      for (let i = 0; i < perWriter; ++i) {
        await c.insertOne({_id: `${w}-${i}`, ...pair(i)});
        if (i % 3 === 0) await c.replaceOne({_id: `${w}-${i}`}, pair(i + 1));
      }
    });
    const readers = Array.from({length: 4}, async () => {
      let torn = 0;
      while (!done)
        for (const d of await c.find().toArray())
          if (d.a !== -d.b || d.text !== String(d.a).repeat(200)) ++torn;
      return torn;
    });
    await Promise.all(writers);
    done = true;
    assert.deepEqual(await Promise.all(readers), [0, 0, 0, 0]);
    assert.equal(await c.countDocuments({}), 4 * perWriter);
  });

  test('16 clients on 16 collections', async () => {
    await Promise.all(Array.from({length: 16}, async (_, n) => {
      const own = await new MongoClient(server.uri).connect();
      const c = own.db('sixteen').collection(`c${n}`);
      await c.createIndex({k: 1});
      for (let i = 0; i < 50; ++i) await c.insertOne({_id: i, k: i % 7});
      assert.equal(await c.countDocuments({k: 3}), 7);
      await own.close();
    }));
    assert.equal((await client.db('sixteen').listCollections().toArray()).length, 16);
  });
});
