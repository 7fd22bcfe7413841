// Everything at once: inserts, updates, deletes, finds with getMore, aggregates, index builds and drops,
// TTL, changes of the catalog, checkpoints, from 1, 2, 8 and 64 clients. Each reply must be a result or an
// error that such company explains; afterwards every collection must validate and the server must end well.
// MULTIFORA_MIX_SECONDS: how long each number of clients runs (1.5). Meant to be run for minutes against a
// server built with ThreadSanitizer, whose reports (on its standard error) fail the test.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {MongoClient} from 'mongodb';
import {makeRandom} from './support/random.mjs';
import {Server} from './support/server.mjs';

const seconds = Number(process.env.MULTIFORA_MIX_SECONDS ?? 1.5);
const seed = Number(process.env.MULTIFORA_MIX_SEED ?? Date.now() % 1e9);

// What may happen to one client because of another.
const explained = new Set([
  11000,  // DuplicateKey: ids are chosen at random
  26, 48, 27,  // NamespaceNotFound, NamespaceExists, IndexNotFound
  68, 85, 86, 276, 12587,  // an index that somebody else builds, has built, has dropped
  175, 43,  // the collection of a cursor was dropped
  112,  // WriteConflict
]);

function operations(client, number) {
  const random = makeRandom(seed * 64 + number);
  const below = (n) => Math.floor(random() * n);
  const db = client.db('mix');
  const some = () => db.collection(`c${below(4)}`);
  const document = () => ({
    _id: below(20000), k: below(500), s: `text ${below(1000)}`, list: [below(10), below(10)],
    pad: 'x'.repeat(below(20) === 0 ? below(40000) : below(300)),
  });
  const fields = ['k', 's', 'list', 'pad'];
  const weighted = [
    [20, () => some().insertOne(document())],
    [6, () => some().insertMany(Array.from({length: 50}, document), {ordered: false})],
    [20, () => some().updateOne({_id: below(20000)}, {$inc: {k: 1}, $push: {list: {$each: [1], $slice: -5}}}, {upsert: random() < 0.2})],
    [4, () => some().updateMany({k: below(500)}, {$set: {s: `new ${below(100)}`}})],
    [3, () => some().replaceOne({_id: below(20000)}, {k: below(500), s: 'whole'})],
    [8, () => some().deleteOne({_id: below(20000)})],
    [2, () => some().deleteMany({k: below(500)})],
    [3, () => some().findOneAndUpdate({k: {$gte: below(500)}}, {$set: {seen: true}}, {sort: {k: 1}})],
    [8, () => some().findOne({_id: below(20000)})],
    [6, () => some().find({k: {$gte: below(500)}}).sort({k: 1}).limit(300).batchSize(40).toArray()],
    [3, () => some().find({s: /^text 1/}).batchSize(20).limit(100).toArray()],
    [3, () => some().countDocuments({k: {$lt: below(500)}})],
    [2, () => some().distinct('k', {k: {$lt: 50}})],
    [2, () => some().aggregate([{$match: {k: {$lt: 200}}}, {$group: {_id: '$k', n: {$sum: 1}}}, {$sort: {n: -1}}, {$limit: 5}]).toArray()],
    [1, () => some().aggregate([{$limit: 20}, {$lookup: {from: `c${below(4)}`, localField: 'k', foreignField: 'k', as: 'same', pipeline: [{$limit: 3}]}}]).toArray()],
    [1, () => some().aggregate([{$sample: {size: 5}}, {$out: 'written'}]).toArray()],
    [2, () => some().createIndex({[fields[below(4)]]: 1, ...(random() < 0.3 ? {_id: -1} : {})})],
    [1, () => some().createIndexes([{key: {k: 1, s: 1}}, {key: {list: 1}}])],
    [2, () => some().dropIndex(`${fields[below(4)]}_1`)],
    [0.3, () => some().dropIndexes()],
    [0.5, () => some().drop()],
    [0.5, () => db.createCollection(`c${below(4)}`)],
    [0.3, () => db.collection('moving').insertOne({n: 1}).then(() => db.renameCollection('moving', 'moved', {dropTarget: true}))],
    [1, () => db.collection('expiring').insertMany([{at: new Date(Date.now() - 1000 * below(100))}, {at: new Date(Date.now() + 1e7)}])],
    [0.5, () => db.collection('expiring').createIndex({at: 1}, {expireAfterSeconds: 1})],
    [0.3, () => db.command({collMod: 'expiring', index: {keyPattern: {at: 1}, expireAfterSeconds: 1 + below(5)}})],
    [1, () => db.listCollections().toArray()],
    [1, () => some().indexes()],
    [0.5, () => db.command({collStats: `c${below(4)}`})],
    [0.5, () => db.stats()],
    [0.5, () => client.db('admin').command({currentOp: 1})],
    [0.5, () => client.db('admin').command({serverStatus: 1})],
    [0.3, () => db.command({validate: `c${below(4)}`})],
    [0.2, () => client.db('admin').command({fsync: 1})],
  ];
  const total = weighted.reduce((sum, [weight]) => sum + weight, 0);
  return () => {
    let at = random() * total;
    for (const [weight, run] of weighted) if ((at -= weight) < 0) return run();
    return weighted[0][1]();
  };
}

function explains(error) {
  const codes = [error.code, ...(error.writeErrors ?? []).map((one) => one.code ?? one.err?.code)];
  return codes.filter((code) => code !== undefined).length > 0 &&
      codes.every((code) => code === undefined || explained.has(code));
}

async function run(uri, clients) {
  const client = await MongoClient.connect(uri, {maxPoolSize: clients});
  const end = Date.now() + seconds * 1000;
  let done = 0;
  await Promise.all(Array.from({length: clients}, async (_, number) => {
    const next = operations(client, number);
    while (Date.now() < end) {
      try {
        await next();
      } catch (error) {
        if (!explains(error)) throw error;
      }
      ++done;
    }
  }));
  await client.close();
  return done;
}

test(`a mix of everything from 1, 2, 8 and 64 clients, seed ${seed}`, async () => {
  const server = await Server.start();
  let stopped;
  try {
    for (const clients of [1, 2, 8, 64]) {
      const done = await run(server.uri, clients);
      console.log(`${clients} clients: ${Math.round(done / seconds)} operations a second`);
      assert(done > 0);
    }
    const client = await MongoClient.connect(server.uri);
    for (const {name, type} of await client.db('mix').listCollections().toArray()) {
      if (type !== 'collection') continue;
      const report = await client.db('mix').command({validate: name, full: true});
      assert(report.valid, `${name}: ${JSON.stringify(report)}`);
    }
    await client.close();
  } finally {
    stopped = await server.stop();
  }
  assert.equal(stopped, 0);
  const reports = server.log.filter((line) => /ThreadSanitizer|AddressSanitizer|runtime error/.test(line));
  assert.deepEqual(reports, []);
});
