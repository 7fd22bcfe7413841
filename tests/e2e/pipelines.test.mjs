// A pipeline gives the same documents however it is run: optimised or stage by stage, in memory or spilled to
// files, in batches of any size. Random pipelines over random documents; the seed is printed.
//
// MULTIFORA_PIPELINES: how many (default 150); MULTIFORA_SEED.
import assert from 'node:assert/strict';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, before, describe, test} from 'node:test';
import {isDeepStrictEqual} from 'node:util';
import {BSON, MongoClient} from 'mongodb';
import {makeRandom} from './support/random.mjs';
import {Server} from './support/server.mjs';

const kPipelines = Number(process.env.MULTIFORA_PIPELINES ?? 100);
const kSeed = Number(process.env.MULTIFORA_SEED ?? Math.floor(Math.random() * 1e9));
const kDocuments = 400;
const kBarrier = {$_internalInhibitOptimization: {}};

function generator(seed) {
  const next = makeRandom(seed);
  const below = (n) => Math.floor(next() * n);
  const pick = (list) => list[below(list.length)];
  return {below, pick, chance: (p) => next() < p};
}

function randomDocument(r, id) {
  const scalar = () => r.pick([() => r.below(20), () => r.below(20) / 2, () => r.pick(['x', 'y', 'zebra', '']),
                               () => null, () => new Date(1.7e12 + r.below(100) * 3.6e6), () => r.chance(0.5)])();
  const document = {_id: id, n: r.below(50), s: r.pick(['a', 'b', 'c', 'd'])};
  if (r.chance(0.8)) document.v = scalar();
  if (r.chance(0.6)) document.o = {p: r.below(5), q: scalar()};
  if (r.chance(0.6)) document.list = Array.from({length: r.below(4)}, () => r.chance(0.5) ? r.below(6) : {p: r.below(6)});
  return document;
}

const kPaths = ['n', 's', 'v', 'o', 'o.p', 'o.q', 'list', 'list.p', 'extra', '_id'];

function randomFilter(r) {
  const path = r.pick(kPaths.slice(0, -1));
  return r.pick([
    () => ({[path]: r.below(10)}),
    () => ({[path]: {[r.pick(['$gt', '$gte', '$lt', '$lte', '$ne'])]: r.below(10)}}),
    () => ({[path]: {$in: [r.below(10), 'a', null]}}),
    () => ({[path]: {$exists: r.chance(0.5)}}),
    () => ({$or: [{[path]: r.below(10)}, {n: {$lt: r.below(50)}}]}),
    () => ({$expr: {$gt: [`$${r.pick(kPaths)}`, r.below(10)]}}),
  ])();
}

function randomExpression(r) {
  const field = () => `$${r.pick(kPaths)}`;
  return r.pick([
    field,
    () => r.below(9),
    () => ({$cond: [{$gt: [field(), r.below(9)]}, field(), 'no']}),
    () => ({$type: field()}),
    () => ({$ifNull: [field(), 'none']}),
    () => ({$toString: {$ifNull: ['$n', 0]}}),
    () => ({$eq: [field(), field()]}),
  ])();
}

// Every stage keeps what follows deterministic: a sort has _id or the whole key in it.
function randomStage(r) {
  return r.pick([
    () => [{$match: randomFilter(r)}],
    () => [{$match: randomFilter(r)}],
    () => [{$addFields: {extra: randomExpression(r)}}],
    () => [{$addFields: {[r.pick(['v', 'o.p', 'extra.deep'])]: randomExpression(r)}}],
    () => [{$project: r.pick([{n: 1, s: 1, o: 1}, {list: 0}, {'o.p': 1, v: 1}, {n: 1, extra: randomExpression(r)}])}],
    () => [{$unset: r.pick(['v', 'o.q', 'list'])}],
    () => [{$unwind: r.chance(0.5) ? '$list' : {path: '$list', preserveNullAndEmptyArrays: true}}],
    () => [{$sort: {[r.pick(['n', 's', 'v', 'o.p'])]: r.pick([1, -1]), _id: 1, list: 1}}],
    () => [{$sort: {n: -1, _id: 1, list: 1}}, {$skip: r.below(5)}, {$limit: 1 + r.below(60)}],
    () => [{$sort: {_id: 1, list: 1}}, {$limit: 1 + r.below(200)}],
    () => [{$group: {_id: r.pick(['$s', '$n', '$o.p', {a: '$s', b: '$o.p'}, null, '$list']),
                     count: {$sum: 1}, most: {$max: '$n'}, least: {$min: '$v'}, set: {$addToSet: '$s'}}},
           {$addFields: {n: '$most', s: {$sortArray: {input: '$set', sortBy: 1}}}}, {$unset: 'set'}],
    () => [{$replaceWith: {$mergeObjects: ['$$ROOT', {extra: randomExpression(r)}]}}],
    () => [{$lookup: {from: 'other', localField: r.pick(['n', 's', 'o.p', 'list']), foreignField: r.pick(['k', 'w']),
                      as: 'found', pipeline: [{$sort: {_id: 1}}, {$limit: 3}]}}],
    () => [{$lookup: {from: 'other', localField: 'n', foreignField: 'k', as: 'found'}}, {$unwind: '$found'},
           {$sort: {_id: 1, 'found._id': 1, list: 1}}],
    () => [{$setWindowFields: {partitionBy: '$s', sortBy: {n: 1, _id: 1}, output: {
      run: {$sum: '$n', window: {documents: ['unbounded', 'current']}}}}}],
    () => [{$sortByCount: '$s'}],
    () => [{$bucket: {groupBy: {$ifNull: ['$n', 0]}, boundaries: [0, 10, 20, 50, 1000], default: 'rest'}}],
  ])();
}

function randomPipeline(r) {
  const stages = [];
  for (let i = 1 + r.below(5); i > 0; --i) stages.push(...randomStage(r));
  return stages;
}

// What a run gave, in an order of its own: where equal keys meet, a pipeline does not promise one.
const canonical = (documents) => documents.map((one) => BSON.EJSON.stringify(one, {relaxed: false})).sort();
// A field list that depends on where documents are read from is the pipeline's own doing; an error is a result.
async function outcome(run) {
  try {
    return canonical(await run());
  } catch (error) {
    if (error.code === undefined) throw error;
    return `error ${error.code}`;
  }
}

describe(`random pipelines, seed ${kSeed}`, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'multifora-pipelines-'));
  let server, little, client, spilling;
  before(async () => {
    server = await Server.start();
    const config = path.join(folder, 'little.json');
    writeFileSync(config, JSON.stringify({'query-engine': {stage_memory_mb: 1}}));
    little = await Server.start({args: ['--config', config]});
    client = new MongoClient(server.uri);
    spilling = new MongoClient(little.uri);
    const r = generator(kSeed);
    const documents = Array.from({length: kDocuments}, (_, id) => randomDocument(r, id));
    const other = Array.from({length: 120}, (_, id) => ({_id: id, k: r.below(50), w: r.pick(['a', 'b', 1, null])}));
    const things = client.db('p').collection('things');
    await things.insertMany(documents);
    await client.db('p').collection('other').insertMany(other);
    await things.createIndexes([{key: {n: 1}}, {key: {s: 1, n: -1}}, {key: {'o.p': 1}}, {key: {list: 1}}]);
    await client.db('p').collection('other').createIndex({k: 1});
    // The same, and heavy: 400 documents of 12 KiB are more than a stage's megabyte.
    const pad = 'p'.repeat(12_000);
    await spilling.db('p').collection('things').insertMany(documents.map((one) => ({...one, pad: pad + one._id})));
    await client.db('p').collection('heavy').insertMany(documents.map((one) => ({...one, pad: pad + one._id})));
  });
  after(async () => {
    await Promise.all([client?.close(), spilling?.close()]);
    await Promise.all([server?.stop(), little?.stop()]);
    rmSync(folder, {recursive: true, force: true});
  });

  test('optimised as stage by stage, in batches of any size', async () => {
    const things = client.db('p').collection('things');
    const r = generator(kSeed + 1);
    let results = 0;
    for (let i = 0; i < kPipelines; ++i) {
      const pipeline = randomPipeline(r);
      const slow = [kBarrier, ...pipeline.flatMap((stage) => [stage, kBarrier])];
      const optimised = await outcome(() => things.aggregate(pipeline).toArray());
      const stepwise = await outcome(() => things.aggregate(slow).toArray());
      assert.deepEqual(optimised, stepwise, `pipeline ${i}: ${JSON.stringify(pipeline)}`);
      const batched = await outcome(() => things.aggregate(pipeline, {batchSize: r.pick([1, 2, 7, 50])}).toArray());
      assert.deepEqual(batched, optimised, `pipeline ${i} in small batches: ${JSON.stringify(pipeline)}`);
      if (Array.isArray(optimised) && optimised.length > 0) ++results;
    }
    assert.ok(results > kPipelines / 3, `only ${results} pipelines gave anything`);
  });

  test('spilled as in memory', async () => {
    const heavy = client.db('p').collection('heavy');
    const small = spilling.db('p').collection('things');
    const kSpilling = [
      [{$sort: {v: 1, _id: -1}}],
      [{$sort: {s: -1, pad: 1}}, {$skip: 3}],
      [{$group: {_id: '$_id', all: {$push: '$pad'}, n: {$sum: '$n'}}}],
      [{$group: {_id: '$pad', first: {$min: '$_id'}, kinds: {$addToSet: '$s'}}}],
      [{$group: {_id: {$mod: ['$_id', 40]}, pads: {$push: {$substrCP: ['$pad', 0, 4000]}}}},
       {$addFields: {pads: {$sortArray: {input: '$pads', sortBy: 1}}}}],
      [{$bucketAuto: {groupBy: '$n', buckets: 7, output: {n: {$sum: 1}, most: {$max: '$pad'}}}}],
      [{$setWindowFields: {partitionBy: '$n', sortBy: {_id: 1}, output: {
        before: {$shift: {output: '$pad', by: -1}}, rank: {$rank: {}}}}}],
      [{$unwind: '$list'}, {$sort: {list: 1, _id: 1}}],
    ];
    for (const pipeline of kSpilling) {
      const inMemory = await outcome(() => heavy.aggregate(pipeline).toArray());
      const spilled = await outcome(() => small.aggregate(pipeline).toArray());
      assert.ok(Array.isArray(inMemory) && inMemory.length > 0, JSON.stringify(pipeline));
      // Without the documents, which are long.
      assert.ok(isDeepStrictEqual(spilled, inMemory), `${JSON.stringify(pipeline)}: ${String(spilled).slice(0, 200)}`);
    }
    // The limit is there: without files a sort of 5 MB does not fit into 1 MB.
    await assert.rejects(small.aggregate([{$sort: {v: 1, pad: 1}}], {allowDiskUse: false}).toArray(), {code: 292});
    await heavy.aggregate([{$sort: {v: 1, pad: 1}}], {allowDiskUse: false}).toArray();
  });
});
