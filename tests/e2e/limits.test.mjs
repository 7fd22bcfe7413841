// Sizes and numbers at their limits. MULTIFORA_LIMITS_FULL=1: the full ones (10,000 collections with 3
// indexes each: opened within a second, with at most 200 MB resident); otherwise small.
import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {BSON, MongoClient} from 'mongodb';
import {Server} from './support/server.mjs';

const full = process.env.MULTIFORA_LIMITS_FULL === '1';
let server, client, db;

before(async () => {
  server = await Server.start();
  client = await MongoClient.connect(server.uri);
  db = client.db('limits');
});
after(async () => {
  await client.close();
  assert.equal(await server.stop(), 0);
});

async function codeOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code;
  }
  return 0;
}

async function valid(name) {
  const report = await db.command({validate: name, full: true});
  assert(report.valid, JSON.stringify(report.errors));
}

test('a document of 16 MiB, and one byte more', async () => {
  const overhead = BSON.calculateObjectSize({_id: 1, pad: ''});
  const pad = 'p'.repeat(16 * 1024 * 1024 - overhead);
  const documents = db.collection('largest');
  await documents.insertOne({_id: 1, pad});
  assert.equal((await documents.findOne({_id: 1})).pad, pad);
  assert.notEqual(await codeOf(documents.insertOne({_id: 2, pad: pad + 'p'})), 0);
  assert.notEqual(await codeOf(documents.updateOne({_id: 1}, {$set: {more: 1}})), 0);
  assert.equal(await documents.countDocuments(), 1);
  // A field in its place: the document has its largest size still.
  await documents.updateOne({_id: 1}, {$set: {pad: 'q' + pad.slice(1)}});
  assert.equal((await documents.findOne({_id: 1})).pad[0], 'q');
  await valid('largest');
});

test('batches of 100,000 documents, and one more', async () => {
  const batch = db.collection('batch');
  const documents = Array.from({length: 100_000}, (_, i) => ({_id: i}));
  assert.equal((await db.command({insert: 'batch', documents})).n, 100_000);
  assert.equal(await codeOf(db.command({insert: 'batch', documents: [...documents, {_id: -1}]})), 16);
  assert.equal(await batch.countDocuments(), 100_000);
  assert.equal((await batch.deleteMany({})).deletedCount, 100_000);
  await valid('batch');
});

test('64 indexes on a collection, and one more', async () => {
  const many = db.collection('many');
  await many.insertMany(Array.from({length: 200}, (_, i) => ({_id: i, f1: i, f40: -i})));
  await many.createIndexes(Array.from({length: 63}, (_, i) => ({key: {[`f${i}`]: 1}})));
  assert.equal((await many.indexes()).length, 64);
  assert.equal(await codeOf(many.createIndex({more: 1})), 67);
  assert.equal(await codeOf(many.createIndex({f3: 1})), 0);  // is there
  await many.updateMany({}, {$inc: {f1: 1, f40: 2, f62: 1}});
  await many.deleteMany({_id: {$lt: 100}});
  assert.equal(await many.countDocuments({f62: 1}), 100);
  await valid('many');
});

test('keys of a megabyte', async () => {
  const long = db.collection('long');
  await long.createIndex({s: 1});
  const key = (i) => 'k'.repeat(1_000_000) + i;
  for (let i = 0; i < 6; ++i) await long.insertOne({_id: i, s: key(i)});
  for (let i = 10; i < 300; ++i) await long.insertOne({_id: i, s: `short ${i}`});
  assert.equal((await long.find({s: key(3)}).hint({s: 1}).toArray())[0]._id, 3);
  assert.deepEqual((await long.find({s: {$gte: key(2), $lt: key(5)}}, {projection: {_id: 1}}).sort({s: 1}).toArray()).map((d) => d._id), [2, 3, 4]);
  await long.updateOne({_id: 4}, {$set: {s: key(40)}});
  await long.deleteOne({_id: 2});
  await long.createIndex({s: -1, _id: 1}, {unique: true});
  assert.equal(await codeOf(long.insertOne({_id: 5, s: key(5)})), 11000);
  assert.equal(await long.countDocuments({s: {$gte: 'k'}}), 5 + 290);
  await valid('long');
  await long.deleteMany({});
  await valid('long');
});

test('deep documents', async () => {
  const deep = db.collection('deep');
  const nested = (levels) => {
    let value = {leaf: 1};
    for (let i = 1; i < levels; ++i) value = i % 2 === 0 ? {a: value} : {a: [value]};
    return value;
  };
  await deep.insertOne({_id: 1, a: nested(40)});
  await deep.createIndex({a: 1});
  const path = Array(20).fill('a').join('.');
  assert.equal(await codeOf(deep.updateOne({_id: 1}, {$set: {[`${path}.x`]: 1}})) !== 8000, true);
  assert.notEqual(await codeOf(deep.insertOne({_id: 2, a: nested(150)})), 0);
  assert.notEqual(await codeOf(deep.find({a: nested(400)}).toArray()), 0);
  assert.equal(await deep.countDocuments(), 1);
  await valid('deep');
});

function residentMb(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kib = (name) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]);
  return {anonymous: kib('RssAnon') / 1024, file: kib('RssFile') / 1024};
}

test(`${full ? 10_000 : 300} collections with 3 indexes each`, async () => {
  const count = full ? 10_000 : 300;
  const dbpath = mkdtempSync(path.join(tmpdir(), 'multifora-limits-'));
  let many = await Server.start({dbpath});
  let connected = await MongoClient.connect(many.uri);
  const slices = [];  // milliseconds a collection, by tenth
  for (let tenth = 0; tenth < 10; ++tenth) {
    const started = performance.now();
    for (let i = 0; i < count / 10; ++i) {
      const collection = connected.db('many').collection(`c${tenth}_${i}`);
      await collection.createIndexes([{key: {a: 1}}, {key: {b: 1}}, {key: {c: 1, d: 1}}]);
      await collection.insertOne({_id: 1, a: i, b: 2, c: 3, d: 4});
    }
    slices.push((performance.now() - started) / (count / 10));
  }
  const checkpoints = [];
  for (let i = 0; i < 5; ++i) {
    await connected.db('many').collection('c0_0').updateOne({_id: 1}, {$inc: {a: 1}});
    const started = performance.now();
    await connected.db('admin').command({fsync: 1});
    checkpoints.push(performance.now() - started);
  }
  const used = residentMb(many.process.pid);
  await connected.close();
  assert.equal(await many.stop(), 0);

  const opens = [];
  let opened;
  for (let i = 0; i < 3; ++i) {
    const started = performance.now();
    many = await Server.start({dbpath});
    connected = await MongoClient.connect(many.uri);
    await connected.db('many').command({ping: 1});
    opens.push(performance.now() - started);
    opened = residentMb(many.process.pid);
    assert.equal((await connected.db('many').listCollections({}, {nameOnly: true}).toArray()).length, count);
    await connected.close();
    if (i === 0) await many.kill9();
    else assert.equal(await many.stop(), 0);
  }
  rmSync(dbpath, {recursive: true, force: true});
  const open = Math.min(...opens), mb = opened.anonymous + opened.file;
  console.log(`${count} collections: ${slices.map((ms) => ms.toFixed(2)).join(' ')} ms each, by tenth; checkpoint with ` +
              `one changed ${Math.min(...checkpoints).toFixed(1)} ms; open ${open.toFixed(0)} ms; resident after open ` +
              `${opened.anonymous.toFixed(0)} + ${opened.file.toFixed(0)} MB, after creating ` +
              `${used.anonymous.toFixed(0)} + ${used.file.toFixed(0)} MB`);
  // Not quadratic: the last tenth costs about what the first did.
  assert(slices[9] < 4 * Math.min(slices[0], slices[1]) + 1, `creating slows down: ${slices}`);
  assert(open <= 1000, `opened in ${open} ms`);
  assert(mb <= 200, `${mb} MB resident`);
});
