// Change streams over kill -9: writers, readers that resume, and a check that every acknowledged write was
// told exactly once, in commit order.
//
//   node change_streams.mjs [--rounds 3] [--writers 8] [--readers 4] [--seed N] [--max-ms 900] [--dir DIR]
//
// Each writer does one write at a time, to documents of its own in two collections: inserts, updates,
// replacements, deletes, bulks, transactions. A write is known by a number that it puts into the document (a delete
// by the document's _id). Readers watch a collection, the database or everything; they stop and resume at random
// places, and after each kill. Checkpoints are made every second, so that resuming reads log and history. At the
// end each reader must have been told what was acknowledged, once, each writer's writes in the writer's order;
// writes in doubt at a kill may have been told, in their place; all readers saw the same order.
import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';

import {makeRandom} from '../e2e/support/random.mjs';
import {Server} from '../e2e/support/server.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const {MongoClient} = createRequire(path.join(here, '../e2e/'))('mongodb');

const {values: options} = parseArgs({options: {
  rounds: {type: 'string', default: '3'}, writers: {type: 'string', default: '8'},
  readers: {type: 'string', default: '4'}, seed: {type: 'string', default: String(Date.now() % 1e9)},
  'max-ms': {type: 'string', default: '900'}, dir: {type: 'string'}}});
const rounds = Number(options.rounds), writers = Number(options.writers), readers = Number(options.readers);
const seed = Number(options.seed);
const kConfig = {storage: {checkpoint_secs: 1, checkpoint_log_mb: 1}};
const kCollections = ['x', 'y'];

let problems = 0;
const problem = (text) => { if (++problems <= 20) console.log(`PROBLEM: ${text.slice(0, 1500)}`); };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let nextNumber = 1;

// One writer's life over all rounds: what it did, in order. {key, coll, acknowledged}
class Writer {
  constructor(id) {
    this.id = id;
    this.done = [];
    this.live = [];  // {_id, coll} of documents that are there for certain
    this.random = makeRandom(seed * 977 + id);
  }
  pick() { return this.live[Math.floor(this.random() * this.live.length)]; }
  forget(document) { this.live.splice(this.live.indexOf(document), 1); }
  note(keys, coll, doubtful) {
    const entries = keys.map((key) => ({key, coll, acknowledged: false}));
    this.done.push(...entries);
    return {entries, doubtful};
  }
  async perform({entries, doubtful}, act) {
    try {
      await act();
      for (const entry of entries) entry.acknowledged = true;
      return true;
    } catch (error) {
      for (const document of doubtful) if (this.live.includes(document)) this.forget(document);
      if (error.code !== undefined) problem(`unexpected failure: ${error.code} ${error.message}`);
      throw error;
    }
  }
  async step(client) {
    const r = this.random(), db = client.db('streams');
    const coll = kCollections[Math.floor(this.random() * kCollections.length)];
    const pad = 'p'.repeat(Math.floor(this.random() * 3000));
    if (r < 0.3 || this.live.length < 3) {
      const count = this.random() < 0.3 ? 5 : 1;
      const documents = Array.from({length: count}, () => ({_id: nextNumber++, w: this.id, pad}));
      await this.perform(this.note(documents.map((d) => `i${d._id}`), coll, []),
                         () => db.collection(coll).insertMany(documents));
      this.live.push(...documents.map(({_id}) => ({_id, coll})));
      return;
    }
    const document = this.pick(), n = nextNumber++;
    const target = db.collection(document.coll);
    if (r < 0.6) {
      await this.perform(this.note([`u${n}`], document.coll, [document]),
                         () => target.updateOne({_id: document._id}, {$set: {n}}));
    } else if (r < 0.7) {
      await this.perform(this.note([`r${n}`], document.coll, [document]),
                         () => target.replaceOne({_id: document._id}, {w: this.id, n, pad}));
    } else if (r < 0.85) {
      this.forget(document);
      await this.perform(this.note([`d${document._id}`], document.coll, []),
                         () => target.deleteOne({_id: document._id}));
    } else {
      // Both collections in one transaction.
      const a = {_id: nextNumber++, w: this.id}, b = {_id: nextNumber++, w: this.id};
      const first = this.note([`i${a._id}`], 'x', []), second = this.note([`i${b._id}`], 'y', []);
      await this.perform({entries: [...first.entries, ...second.entries], doubtful: []}, async () => {
        const session = client.startSession();
        try {
          session.startTransaction();
          await db.collection('x').insertOne(a, {session});
          await db.collection('y').insertOne(b, {session});
          await session.commitTransaction();
        } finally {
          await session.endSession().catch(() => {});
        }
      });
      this.live.push({_id: a._id, coll: 'x'}, {_id: b._id, coll: 'y'});
    }
  }
  async run(uri, stopped) {
    const client = new MongoClient(uri, {retryWrites: false, serverSelectionTimeoutMS: 500});
    try {
      await client.connect();
      while (!stopped.value) await this.step(client);
    } catch { /* the server is gone */ }
    await client.close(true).catch(() => {});
  }
}

function keyOf(event) {
  switch (event.operationType) {
    case 'insert': return `i${event.fullDocument._id}`;
    case 'update': return `u${event.updateDescription.updatedFields.n}`;
    case 'replace': return `r${event.fullDocument.n}`;
    case 'delete': return `d${event.documentKey._id}`;
    default: return undefined;
  }
}

class Reader {
  constructor(id) {
    this.id = id;
    this.scope = ['x', 'y', 'db', 'all'][id % 4];
    this.told = [];  // {key, coll, token}
    this.token = undefined;
    this.start = undefined;
    this.resumes = 0;
    this.random = makeRandom(seed * 7919 + id);
  }
  open(client) {
    const settings = {batchSize: 1 + Math.floor(this.random() * 50), maxAwaitTimeMS: 100};
    if (this.token) settings.resumeAfter = this.token;
    else settings.startAtOperationTime = this.start;
    const db = client.db('streams');
    const target = this.scope === 'all' ? client : this.scope === 'db' ? db : db.collection(this.scope);
    return target.watch([], settings);
  }
  // Until `stopped`, or the server is gone.
  async run(uri, stopped) {
    const client = new MongoClient(uri, {serverSelectionTimeoutMS: 500});
    try {
      await client.connect();
      while (!stopped.value) {
        const stream = this.open(client);
        ++this.resumes;
        for (let left = 1 + Math.floor(this.random() * 400); left > 0 && !stopped.value; --left) {
          const event = await stream.tryNext();
          if (event) this.take(event);
          this.token = stream.resumeToken ?? this.token;
        }
        await stream.close().catch(() => {});
      }
    } catch (error) {
      if (error.code !== undefined && error.code !== 'ECONNREFUSED')
        problem(`reader ${this.id}: ${error.code} ${error.message}`);
    }
    await client.close(true).catch(() => {});
  }
  take(event) {
    const key = keyOf(event);
    if (key === undefined) return;
    this.told.push({key, coll: event.ns.coll, token: event._id._data, time: event.clusterTime.toBigInt?.() ?? event.clusterTime});
  }
  wants(coll) { return this.scope === 'db' || this.scope === 'all' || this.scope === coll; }
  check(all) {
    const place = new Map();
    for (const [i, {key}] of this.told.entries()) {
      if (place.has(key)) problem(`reader ${this.id} was told ${key} twice`);
      place.set(key, i);
    }
    for (let i = 1; i < this.told.length; ++i)
      if (this.told[i - 1].token >= this.told[i].token)
        problem(`reader ${this.id}: the tokens of ${this.told[i - 1].key} and ${this.told[i].key} are out of order`);
    const known = new Set();
    for (const writer of all) {
      let last = -1, before = '';
      for (const {key, coll, acknowledged} of writer.done) {
        if (!this.wants(coll)) continue;
        known.add(key);
        const at = place.get(key);
        if (at === undefined) {
          if (acknowledged) problem(`reader ${this.id} (${this.scope}) was not told ${key} of writer ${writer.id}`);
          continue;
        }
        if (at < last) problem(`reader ${this.id} was told ${key} of writer ${writer.id} before ${before}`);
        last = at;
        before = key;
      }
    }
    for (const {key} of this.told) if (!known.has(key)) problem(`reader ${this.id} was told ${key}, which nobody wrote`);
  }
}

const dbpath = options.dir ?? mkdtempSync(path.join(tmpdir(), 'multifora-change-streams-'));
mkdirSync(dbpath, {recursive: true});
const config = path.join(dbpath, 'test.json');
writeFileSync(config, JSON.stringify(kConfig));
const start = () => Server.start({dbpath, args: ['--config', config]});

process.on('unhandledRejection', () => {});
console.log(`change streams: ${rounds} kills, ${writers} writers, ${readers} readers, seed ${seed}`);
const random = makeRandom(seed);
const allWriters = Array.from({length: writers}, (_, i) => new Writer(i));
const allReaders = Array.from({length: readers}, (_, i) => new Reader(i));
let server = await start();
{
  const client = await new MongoClient(server.uri).connect();
  for (const name of kCollections) await client.db('streams').createCollection(name);
  const {operationTime} = await client.db('admin').command({ping: 1});
  for (const reader of allReaders) reader.start = operationTime;
  await client.close();
}
for (let round = 0; round < rounds && problems === 0; ++round) {
  const stopped = {value: false};
  const work = [...allWriters, ...allReaders].map((one) => one.run(server.uri, stopped));
  await sleep(200 + random() * Number(options['max-ms']));
  // A graceful stop now and then.
  if (random() < 0.25) await server.stop().catch((error) => problem(String(error)));
  else await server.kill9();
  stopped.value = true;
  await Promise.all(work);
  server = await start();
}
// The last writes, which everybody waits for.
const client = await new MongoClient(server.uri).connect();
const ends = kCollections.map((coll) => ({_id: nextNumber++, coll}));
for (const {_id, coll} of ends) await client.db('streams').collection(coll).insertOne({_id, end: true});
const stopped = {value: false};
const reading = allReaders.map((reader) => reader.run(server.uri, stopped));
const drained = (reader) => ends.every(({_id, coll}) => !reader.wants(coll) ||
                                       reader.told.some(({key}) => key === `i${_id}`));
for (const deadline = Date.now() + 30000; Date.now() < deadline && !allReaders.every(drained);) await sleep(20);
stopped.value = true;
await Promise.all(reading);
for (const reader of allReaders) if (!drained(reader)) problem(`reader ${reader.id} did not reach the end`);
await client.close();
await server.stop();

const last = new Writer(-1);
for (const {_id, coll} of ends) last.done.push({key: `i${_id}`, coll, acknowledged: true});
for (const reader of allReaders) reader.check([...allWriters, last]);
// Everybody saw one order.
for (const wide of allReaders.filter(({scope}) => scope === 'db' || scope === 'all'))
  for (const reader of allReaders) {
    const seen = wide.told.filter(({coll}) => reader.wants(coll)).map(({key}) => key).join();
    if (seen !== reader.told.map(({key}) => key).join()) problem(`readers ${wide.id} and ${reader.id} saw another order`);
  }
const count = allWriters.reduce((sum, {done}) => sum + done.filter((e) => e.acknowledged).length, 0);
if (count < rounds * 10) problem(`only ${count} writes were acknowledged`);
const resumes = allReaders.reduce((sum, reader) => sum + reader.resumes, 0);
console.log(`seed ${seed}: ${count} acknowledged changes, ${allReaders.map((r) => r.told.length).join(' ')} told, ` +
            `${resumes} resumes, problems ${problems}${problems > 0 ? `, ${dbpath}` : ''}`);
if (options.dir === undefined && problems === 0) rmSync(dbpath, {recursive: true, force: true});
console.log(problems === 0 ? 'good' : 'BAD');
process.exit(problems === 0 ? 0 : 1);
