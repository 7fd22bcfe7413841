// Index builds as clients see them: progress in currentOp, killOp, maxTimeMS, dropIndexes, duplicates,
// use counts, and writers that go on meanwhile.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {MongoClient} from 'mongodb';
import {Server} from './support/server.mjs';

const count = 60_000;
let server, client, db, docs;

before(async () => {
  server = await Server.start();
  client = await MongoClient.connect(server.uri);
  db = client.db('builds');
  docs = db.collection('docs');
  for (let from = 0; from < count; from += 10_000)
    await docs.insertMany(Array.from({length: 10_000}, (_, i) => ({
      _id: from + i, k: (from + i) * 7919 % count, words: `${'some words '.repeat(8)}${from + i}`,
      list: Array.from({length: 20}, (_, j) => from + i + j)})));
});
after(async () => {
  await client.close();
  assert.equal(await server.stop(), 0);
});

const heavy = [{key: {list: 1, words: 1}, name: 'heavy'}, {key: {words: 1, list: -1}, name: 'heavier'}];

async function shownBuild() {
  const {inprog} = await client.db('admin').command({currentOp: 1});
  return inprog.find((op) => /^Index Build/.test(op.msg ?? ''));
}

// Starts the heavy build and calls `act` while currentOp shows it; gives what createIndexes came to.
async function during(act, options = {}) {
  for (let attempt = 0; attempt < 20; ++attempt) {
    let over = false;
    const built = db.command({createIndexes: 'docs', indexes: heavy, ...options})
                      .then(() => 'built', (error) => error)
                      .finally(() => { over = true; });
    let shown;
    while (!over && !shown) shown = await shownBuild();
    if (shown) await act(shown);
    const result = await built;
    if (shown && result !== 'built') return result;
    await db.command({dropIndexes: 'docs', index: ['heavy', 'heavier']});
  }
  assert.fail('every build was done before it could be stopped');
}

async function untouched() {
  assert.deepEqual((await docs.indexes()).map((index) => index.name), ['_id_']);
  assert.equal(await shownBuild(), undefined);
  const report = await db.command({validate: 'docs'});
  assert(report.valid, JSON.stringify(report));
}

test('killOp ends a build, which currentOp shows with its progress', async () => {
  const result = await during(async (shown) => {
    assert.equal(shown.ns, 'builds.docs');
    assert.equal(shown.command.createIndexes, 'docs');
    assert.deepEqual(shown.command.indexes.map((index) => index.name), ['heavy', 'heavier']);
    assert(shown.progress.done <= shown.progress.total);
    if (shown.progress.total > 0) assert.match(shown.msg, /^(Index Build: .+) \1: \d+\/\d+ \d+%$/);
    const staged = await client.db('admin').aggregate([{$currentOp: {}}, {$match: {msg: /^Index Build/}}]).toArray();
    assert(staged.length <= 1);
    const {inprog} = await client.db('admin').command({currentOp: 1});
    const op = inprog.find((one) => one.command?.createIndexes === 'docs' && one.opid !== undefined);
    if (op) await client.db('admin').command({killOp: 1, op: op.opid});
  });
  assert.equal(result.code, 11601);
  await untouched();
});

test('maxTimeMS ends a build', async () => {
  let result = 'built';
  for (let ms = 40; result === 'built' && ms > 1; ms = Math.floor(ms / 2)) {
    result = await db.command({createIndexes: 'docs', indexes: heavy, maxTimeMS: ms}).then(() => 'built', (error) => error);
    if (result === 'built') await db.command({dropIndexes: 'docs', index: ['heavy', 'heavier']});
  }
  assert.equal(result.code, 50);
  await untouched();
});

test('dropIndexes stops a build when it names all of it', async () => {
  const result = await during(async () => {
    const partly = await db.command({dropIndexes: 'docs', index: 'heavy'}).then(() => 0, (error) => error.code);
    assert([12587, 0, 27].includes(partly));
    if (partly === 12587)
      await db.command({dropIndexes: 'docs', index: ['heavier', 'heavy']}).catch((error) => assert.equal(error.code, 27));
  });
  assert.equal(result.code, 276);
  await untouched();
});

test('dropIndexes "*" stops what runs and drops what is there', async () => {
  await docs.createIndex({k: 1});
  const result = await during(() => docs.dropIndexes());
  assert.equal(result.code, 276);
  await untouched();
});

test('dropping the collection stops a build on it', async () => {
  const other = db.collection('other');
  let result = 'built';
  for (let attempt = 0; attempt < 20 && result === 'built'; ++attempt) {
    await docs.aggregate([{$limit: 20_000}, {$out: 'other'}]).toArray();
    const built = db.command({createIndexes: 'other', indexes: heavy}).then(() => 'built', (error) => error);
    while (!(await shownBuild()) && (await Promise.race([built, 'running'])) === 'running');
    await other.drop();
    result = await built;
  }
  assert([276, 26].includes(result.code), String(result));
  assert.equal((await db.listCollections({name: 'other'}).toArray()).length, 0);
});

test('duplicates name key and value; those that are gone at the end do not count', async () => {
  await docs.updateOne({_id: 5}, {$set: {k: 7919 * 6 % count}});
  const error = await docs.createIndex({k: 1}, {unique: true}).then(() => null, (e) => e);
  assert.equal(error.code, 11000);
  assert.match(error.message, /E11000 duplicate key error collection: builds\.docs index: k_1 dup key: \{ k: 47514 \}/);
  assert.deepEqual(error.errorResponse.keyPattern, {k: 1});
  assert.deepEqual(error.errorResponse.keyValue, {k: 47514});
  await untouched();
  await docs.updateOne({_id: 5}, {$set: {k: 7919 * 5 % count}});
  await docs.createIndex({k: 1}, {unique: true});
  assert.equal(await docs.insertOne({_id: -1, k: 5}).then(() => 0, (e) => e.code), 11000);
  await docs.dropIndex('k_1');
});

test('writers go on beside builds, and the indexes have what they wrote', async () => {
  let stop = false, written = 0, slowest = 0;
  const writers = Array.from({length: 4}, async (_, w) => {
    for (let i = 0; !stop; ++i) {
      const id = count + w * 1_000_000 + i;
      const started = performance.now();
      await docs.insertOne({_id: id, k: id, words: 'new', list: [id]});
      await docs.updateOne({_id: (i * 31 + w) % count}, {$inc: {k: count}});
      if (i % 3 === 0) await docs.deleteOne({_id: id});
      slowest = Math.max(slowest, performance.now() - started);
      ++written;
    }
  });
  for (let round = 0; round < 3; ++round) {
    await db.command({createIndexes: 'docs', indexes: [{key: {k: 1}, name: 'k_1'}, ...heavy]});
    if (round < 2) await docs.dropIndexes();
  }
  stop = true;
  await Promise.all(writers);
  console.log(`${written} rounds of writes beside builds, the slowest ${slowest.toFixed(1)} ms`);
  assert(written > 0);
  const report = await db.command({validate: 'docs', full: true});
  assert(report.valid, JSON.stringify(report.errors));
  assert.equal(report.keysPerIndex.k_1, await docs.countDocuments());
  await docs.dropIndexes();
});

test('$indexStats counts the queries that used an index, $collStats their time', async () => {
  const used = db.collection('used');
  await used.insertMany(Array.from({length: 100}, (_, i) => ({_id: i, k: i})));
  await used.createIndex({k: 1});
  for (let i = 0; i < 7; ++i) await used.find({k: {$gt: i}}).toArray();
  for (let i = 0; i < 3; ++i) await used.findOne({_id: i});
  await used.countDocuments({k: {$lt: 50}});
  const stats = Object.fromEntries((await used.aggregate([{$indexStats: {}}]).toArray()).map((one) => [one.name, one.accesses]));
  assert.equal(Number(stats.k_1.ops), 8);
  assert.equal(Number(stats._id_.ops), 3);
  assert(stats.k_1.since instanceof Date && stats.k_1.since <= new Date());
  const [{latencyStats}] = await used.aggregate([{$collStats: {latencyStats: {}}}]).toArray();
  assert(Number(latencyStats.reads.ops) >= 11);
  assert(Number(latencyStats.reads.latency) > 0);
  assert.equal(Number(latencyStats.writes.ops), 1);
  assert(Number(latencyStats.commands.ops) >= 1);
});
