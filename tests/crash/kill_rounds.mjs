// kill -9 at random moments under mixed writes; after each, every acknowledged write must be there.
//
//   node kill_rounds.mjs [--rounds 50] [--clients 8] [--seed N] [--max-ms 1500] [--dir DIR]
//
// Each client owns a range of keys and does one write at a time, so that after a kill at most one write
// a client is in doubt: it may have happened or not, but not half. Between rounds the state carries over.
import {mkdtempSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';

import {Server} from '../e2e/support/server.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const {MongoClient} = createRequire(path.join(here, '../e2e/'))('mongodb');

const {values: options} = parseArgs({options: {
  rounds: {type: 'string', default: '50'}, clients: {type: 'string', default: '8'},
  seed: {type: 'string', default: String(Date.now() % 1e9)}, 'max-ms': {type: 'string', default: '1500'},
  dir: {type: 'string'}}});
const rounds = Number(options.rounds), clients = Number(options.clients), seed = Number(options.seed);
const dbpath = options.dir ?? mkdtempSync(path.join(tmpdir(), 'multifora-crash-'));
console.log(`kill rounds: ${rounds} rounds, ${clients} clients, seed ${seed}, ${dbpath}`);

// mulberry32: small, seeded, good enough to choose operations.
function makeRandom(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
const random = makeRandom(seed);
const below = (n, r = random) => Math.floor(r() * n);

class Worker {
  constructor(number) {
    this.number = number;
    this.random = makeRandom(seed * 31 + number);
    this.documents = new Map();  // _id -> document as acknowledged
    this.doubt = [];             // [_id, document or null] that the write in flight would make
    this.next = 0;
    this.writes = 0;
  }
  get name() { return `c${this.number % 3}`; }
  key(n) { return this.number * 1e6 + n; }
  make(id, version) {
    const size = below(10, this.random) === 0 ? below(60000, this.random) : below(400, this.random);
    return {_id: id, u: `${id}-${version}`, version, pad: 'x'.repeat(size)};
  }
  pick() {
    const keys = [...this.documents.keys()];
    return keys.length === 0 ? undefined : keys[below(keys.length, this.random)];
  }

  async attempt(changes, write) {
    this.doubt = changes;
    await write();
    for (const [id, document] of changes)
      if (document === null) this.documents.delete(id);
      else this.documents.set(id, document);
    this.doubt = [];
    ++this.writes;
  }

  async step(db) {
    const c = db.collection(this.name);
    const dice = below(10, this.random);
    const victim = this.pick();
    if (dice < 4 || victim === undefined) {
      const document = this.make(this.key(this.next++), 0);
      return this.attempt([[document._id, document]], () => c.insertOne(document));
    }
    if (dice < 5) {
      const many = Array.from({length: 1 + below(20, this.random)}, () => this.make(this.key(this.next++), 0));
      return this.attempt(many.map((d) => [d._id, d]), () => c.insertMany(many));
    }
    const before = this.documents.get(victim);
    const version = before.version + 1;
    if (dice < 7) {
      const after = {...before, version, u: `${victim}-${version}`};
      return this.attempt([[victim, after]],
        () => c.updateOne({_id: victim}, {$inc: {version: 1}, $set: {u: after.u}}));
    }
    if (dice < 8) {
      const after = this.make(victim, version);
      return this.attempt([[victim, after]], () => c.replaceOne({_id: victim}, after));
    }
    if (dice < 9)
      return this.attempt([[victim, null]], () => c.deleteOne({_id: victim}));
    const after = {...before, version};
    return this.attempt([[victim, after]],
      () => c.findOneAndUpdate({_id: victim}, {$set: {version}}, {returnDocument: 'after'}));
  }
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// A multi-document write may have happened up to any point; each document is whole or as before.
async function verify(db, worker) {
  const problems = [];
  const found = new Map();
  const range = {$gte: worker.key(0), $lt: worker.key(1e6)};
  for (const d of await db.collection(worker.name).find({_id: range}).toArray()) found.set(d._id, d);
  const doubt = new Map(worker.doubt);
  for (const [id, expected] of worker.documents) {
    const actual = found.get(id) ?? null;
    found.delete(id);
    if (actual !== null && same(actual, expected)) continue;
    if (doubt.has(id) && same(actual, doubt.get(id))) {
      if (actual === null) worker.documents.delete(id);
      else worker.documents.set(id, actual);
      continue;
    }
    problems.push(`client ${worker.number}: _id ${id} should be version ${expected.version}, is ` +
                  (actual === null ? 'gone' : `version ${actual.version}`));
  }
  for (const [id, actual] of found) {
    if (doubt.has(id) && same(actual, doubt.get(id))) worker.documents.set(id, actual);
    else problems.push(`client ${worker.number}: _id ${id} was never written like this`);
  }
  worker.doubt = [];
  return problems;
}

const workers = Array.from({length: clients}, (_, i) => new Worker(i));
let failures = 0;
for (let round = 1; round <= rounds; ++round) {
  const server = await Server.start({dbpath, args: below(2) ? ['--checkpoint-log-mb', '1'] : []});
  const client = await new MongoClient(server.uri, {retryWrites: false, maxPoolSize: clients,
                                                    serverSelectionTimeoutMS: 3000}).connect();
  const db = client.db('crash');
  if (round === 1)
    for (const name of ['c0', 'c1', 'c2']) {
      await db.createIndex(name, {u: 1}, {unique: true});
      await db.createIndex(name, {version: 1});
    }
  for (const worker of workers)
    for (const problem of await verify(db, worker)) {
      ++failures;
      console.log(`round ${round}: ${problem}`);
    }
  for (const name of ['c0', 'c1', 'c2']) {
    const report = await db.command({validate: name, full: true});
    if (!report.valid) {
      ++failures;
      console.log(`round ${round}: ${name}: ${JSON.stringify(report.errors)}`);
    }
  }
  let stop = false;
  const running = workers.map(async (worker) => {
    try {
      while (!stop) await worker.step(db);
    } catch (error) {
      if (!stop) {
        ++failures;
        console.log(`round ${round}: client ${worker.number}: ${error.message}`);
      }
    }
  });
  await new Promise((resolve) => setTimeout(resolve, 50 + below(Number(options['max-ms']))));
  stop = true;
  await server.kill9();
  await client.close(true);
  await Promise.all(running);
}
const server = await Server.start({dbpath});
const client = await new MongoClient(server.uri).connect();
for (const worker of workers)
  for (const problem of await verify(client.db('crash'), worker)) {
    ++failures;
    console.log(`end: ${problem}`);
  }
await client.close();
const code = await server.stop();
if (code !== 0) ++failures;
if (!options.dir) rmSync(dbpath, {recursive: true, force: true});
const writes = workers.reduce((sum, worker) => sum + worker.writes, 0);
console.log(`${writes} acknowledged writes over ${rounds} kills, seed ${seed}: ${failures} failures`);
process.exit(failures === 0 ? 0 : 1);
