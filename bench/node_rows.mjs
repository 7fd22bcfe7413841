// Rows through the Node driver, as an application sees them: bench/node_rows.mjs PORT DOCUMENTS SIZE SECONDS
// against the collection bench.c that bench/run has loaded. Prints one JSON line: microseconds (p50) or
// documents a second. The driver itself costs some 100 us a call, so claims about the engine use bench_query.
import {createRequire} from 'node:module';
import {performance} from 'node:perf_hooks';

const require = createRequire(new URL('../tests/e2e/package.json', import.meta.url));
const {MongoClient, Long} = require('mongodb');

const [port, documents, size, seconds] = process.argv.slice(2).map(Number);
const client = new MongoClient(`mongodb://127.0.0.1:${port}/?directConnection=true`,
                               {writeConcern: {w: 1, journal: true}, maxPoolSize: 64});
await client.connect();
const c = client.db('bench').collection('c');
const inserted = client.db('bench').collection('node');
const text = 'the harbour engine recorded a winter morning '.repeat(400).slice(0, Math.max(0, size - 60));

function median(values) {
  values.sort((a, b) => a - b);
  return values[values.length >> 1];
}

// p50 in microseconds of calls one after the other.
async function calls(call) {
  await call(0);
  const times = [];
  const end = performance.now() + seconds * 1000;
  for (let i = 1; times.length < 3 || performance.now() < end; ++i) {
    const start = performance.now();
    await call(i);
    times.push((performance.now() - start) * 1000);
  }
  return median(times);
}

let next = 1e9;
async function inserts(clients) {
  let done = 0;
  const start = performance.now();
  const end = start + seconds * 1000;
  await Promise.all(Array.from({length: clients}, async () => {
    while (performance.now() < end) {
      await inserted.insertOne({_id: next++, k: done % 1000, text});
      ++done;
    }
  }));
  return done / ((performance.now() - start) / 1000);
}

const id = i => Long.fromNumber((i * 7919) % documents);
const band = {k: {$gte: 100, $lt: 200}};
const rows = {
  ping: await calls(() => client.db('admin').command({ping: 1})),
  insert1: await inserts(1), insert8: await inserts(8), insert32: await inserts(32),
  get: await calls(i => c.findOne({_id: id(i)})),
  count_all: await calls(() => c.countDocuments({})),
  count_index: await calls(() => c.countDocuments(band)),
  count_scan: await calls(() => c.countDocuments(band, {hint: {$natural: 1}})),
  group: await calls(() => c.aggregate([{$group: {_id: '$k', n: {$sum: 1}}}]).toArray()),
  lookup: await calls(() => c.aggregate([{$limit: 1000}, {$lookup: {from: 'c', localField: 'k', foreignField: '_id', as: 'j'}},
                                         {$project: {n: {$size: '$j'}}}]).toArray()),
  regex: await calls(() => c.countDocuments({text: /lantern quarry/})),
};
console.log(JSON.stringify(rows));
await client.close();
