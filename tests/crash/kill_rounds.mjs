// kill -9 at random moments; after each, every acknowledged write must be there.
//
//   node kill_rounds.mjs [--rounds 50] [--clients 8] [--seed N] [--max-ms 1500] [--dir DIR]
//                        [--cgroup DIR] [--address-space-mb N]
//
// What runs meanwhile: clients with mixed writes; index builds and drops; collections that are made,
// renamed, emptied and dropped; checkpoints; TTL sweeps; `compact` where the server has it. A third of
// the kills are followed by more kills while the server recovers. Each client owns a range of keys and
// does one write at a time, so that after a kill at most one write a client is in doubt: it may have
// happened or not, but not half; of many documents in one command the first ones may be there. Between
// rounds the state carries over.
//
// --cgroup puts the server into a cgroup that was made for it, with its memory limit set (the one who
// runs this makes it); --address-space-mb puts it under ulimit -v.
import {mkdtempSync, rmSync} from 'node:fs';
import {spawn} from 'node:child_process';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';

import {makeRandom} from '../e2e/support/random.mjs';
import {binary, Server} from '../e2e/support/server.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const {MongoClient} = createRequire(path.join(here, '../e2e/'))('mongodb');

const {values: options} = parseArgs({options: {
  rounds: {type: 'string', default: '50'}, clients: {type: 'string', default: '8'},
  seed: {type: 'string', default: String(Date.now() % 1e9)}, 'max-ms': {type: 'string', default: '1500'},
  dir: {type: 'string'}, cgroup: {type: 'string'}, 'address-space-mb': {type: 'string'}}});
const rounds = Number(options.rounds), clients = Number(options.clients), seed = Number(options.seed);
const dbpath = options.dir ?? mkdtempSync(path.join(tmpdir(), 'multifora-crash-'));
console.log(`kill rounds: ${rounds} rounds, ${clients} clients, seed ${seed}, ${dbpath}`);

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
  make(id, version, size = below(10, this.random) === 0 ? below(60000, this.random) : below(400, this.random)) {
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
      // Some are large enough to be written once, with references in the log.
      const size = below(10, this.random) === 0 ? 30000 + below(30000, this.random) : undefined;
      const many = Array.from({length: 1 + below(20, this.random) + (size ? 15 : 0)},
        () => this.make(this.key(this.next++), 0, size));
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

// An actor does something on its own collections, again and again; verify() compares with its model.
// `attempt` is what a Worker's is: the model changes when the write is acknowledged.
class Actor {
  constructor(name) {
    this.random = makeRandom(seed * 131 + name.length * 7 + name.charCodeAt(0));
    this.writes = 0;
    this.doubt = null;
  }
  async attempt(change, write) {
    this.doubt = change;
    await write();
    change();
    this.doubt = null;
    ++this.writes;
  }
  // The state as it was acknowledged, or with the change in doubt.
  settle(matches, what) {
    if (matches()) {
      this.doubt = null;
      return [];
    }
    const before = this.save();
    this.doubt?.();
    this.doubt = null;
    if (matches()) return [];
    return [`${what}: neither ${before} nor ${this.save()}`];
  }
}

// Indexes of the clients' collections.
class IndexActor extends Actor {
  constructor() {
    super('index');
    this.has = {c0: true, c1: true, c2: true};  // {version: 1}
  }
  save() { return JSON.stringify(this.has); }
  async step(db) {
    const name = `c${below(3, this.random)}`;
    if (this.has[name]) return this.attempt(() => this.has[name] = false, () => db.collection(name).dropIndex('version_1'));
    return this.attempt(() => this.has[name] = true, () => db.createIndex(name, {version: 1}));
  }
  async verify(db) {
    const found = {};
    for (const name of Object.keys(this.has))
      found[name] = (await db.collection(name).listIndexes().toArray()).some((index) => index.name === 'version_1');
    return this.settle(() => same(found, this.has), `indexes ${JSON.stringify(found)}`);
  }
}

// Collections made, filled, renamed (also over another), emptied, dropped.
class CatalogActor extends Actor {
  constructor() {
    super('catalog');
    this.next = 0;
    this.sizes = {};  // name -> documents
  }
  save() { return JSON.stringify(this.sizes); }
  async step(db) {
    const names = Object.keys(this.sizes);
    const dice = below(10, this.random);
    if (names.length < 3 || (dice < 3 && names.length < 8)) {
      const name = `d${this.next++}`;
      await this.attempt(() => this.sizes[name] = 0, () => db.createCollection(name));
      const documents = Array.from({length: 20}, (_, i) => ({_id: i, name, pad: 'd'.repeat(below(900, this.random))}));
      // One document a command: how many are there is known to one.
      if (dice < 2)
        for (const document of documents)
          await this.attempt(() => ++this.sizes[name], () => db.collection(name).insertOne(document));
      return;
    }
    const name = names[below(names.length, this.random)];
    if (dice < 5) {
      const to = dice < 4 ? `d${this.next++}` : names[below(names.length, this.random)];
      if (to === name) return;
      return this.attempt(() => {
        this.sizes[to] = this.sizes[name];
        delete this.sizes[name];
      }, () => db.renameCollection(name, to, {dropTarget: true}));
    }
    if (dice < 6) {
      this.emptying = name;  // in batches: any number of documents may be left by a kill
      await this.attempt(() => this.sizes[name] = 0, () => db.collection(name).deleteMany({}));
      this.emptying = undefined;
      return;
    }
    if (dice < 8) {
      const _id = `x${this.next++}`;
      return this.attempt(() => ++this.sizes[name], () => db.collection(name).insertOne({_id, pad: 'd'.repeat(5000)}));
    }
    return this.attempt(() => delete this.sizes[name], () => db.collection(name).drop());
  }
  async verify(db) {
    const found = {};
    for (const {name} of await db.listCollections({}, {nameOnly: true}).toArray())
      if (name.startsWith('d')) found[name] = await db.collection(name).countDocuments();
    if (found[this.emptying] < this.sizes[this.emptying]) this.sizes[this.emptying] = found[this.emptying];
    this.emptying = undefined;
    const sorted = (sizes) => JSON.stringify(Object.entries(sizes).sort());
    return this.settle(() => sorted(found) === sorted(this.sizes), `collections ${JSON.stringify(found)}`);
  }
}

// Documents that expire at once, beside some that never do.
class TtlActor extends Actor {
  constructor() {
    super('ttl');
    this.kept = 0;
  }
  save() { return String(this.kept); }
  async step(db) {
    const c = db.collection('ttl');
    await c.insertMany(Array.from({length: 50}, () => ({at: new Date(Date.now() - 1000), pad: 't'.repeat(300)})), {ordered: true});
    const _id = this.kept;
    return this.attempt(() => ++this.kept, () => c.insertOne({_id, at: new Date(Date.now() + 1e10)}));
  }
  async verify(db) {
    const count = await db.collection('ttl').countDocuments({at: {$gt: new Date(Date.now() + 1e9)}});
    return this.settle(() => count === this.kept, `${count} documents that do not expire`);
  }
}

// Checkpoints, and the compaction of a collection where there is such a command.
class CheckpointActor extends Actor {
  constructor() {
    super('checkpoint');
    this.compacts = true;
  }
  async step(db) {
    await new Promise((resolve) => setTimeout(resolve, below(60, this.random)));
    if (this.compacts && below(3, this.random) === 0) {
      await db.command({compact: `c${below(3, this.random)}`, force: true}).catch((error) => {
        if (error.code !== 59) throw error;
        this.compacts = false;
      });
    } else {
      await db.admin().command({fsync: 1});
    }
    ++this.writes;
  }
  async verify() { return []; }
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
  // An ordered command is applied from its beginning.
  let gap = false;
  for (const [id, document] of worker.doubt) {
    if (document === null || document.version > 0) continue;
    if (!found.has(id)) gap = true;
    else if (gap) problems.push(`client ${worker.number}: _id ${id} is there, but not those before it`);
  }
  worker.doubt = [];
  return problems;
}

// --- limits of memory ---

// The server's start, through a shell that sets the limits first.
function wrapped() {
  const limits = [];
  if (options.cgroup) limits.push(`echo $$ > ${options.cgroup}/cgroup.procs`);
  if (options['address-space-mb']) limits.push(`ulimit -v ${Number(options['address-space-mb']) * 1024}`);
  return limits.length > 0 ? ['bash', '-c', `${limits.join(' && ')} && exec "$0" "$@"`] : [];
}
const start = (args) => Server.start({dbpath, args: ['--ttl-sweep-secs', '1', ...args], wrap: wrapped()});

// A server that is killed before it is ready, or soon after.
async function killInRecovery(ms) {
  const [program, ...first] = [...wrapped(), binary];
  const child = spawn(program, [...first, '--port', '0', '--dbpath', dbpath], {stdio: 'ignore'});
  const exited = new Promise((resolve) => child.on('exit', resolve));
  await new Promise((resolve) => setTimeout(resolve, ms));
  child.kill('SIGKILL');
  await exited;
}

const workers = Array.from({length: clients}, (_, i) => new Worker(i));
const actors = [new IndexActor(), new CatalogActor(), new TtlActor(), new CheckpointActor()];
let failures = 0, recoveryKills = 0;
const report = (round, problem) => {
  ++failures;
  console.log(`round ${round}: ${problem}`);
};

async function verifyAll(round, db) {
  for (const worker of workers)
    for (const problem of await verify(db, worker)) report(round, problem);
  for (const actor of actors)
    for (const problem of await actor.verify(db)) report(round, problem);
  for (const {name, type} of await db.listCollections({}, {nameOnly: false}).toArray()) {
    if (type === 'view' || name.startsWith('system.')) continue;
    const result = await db.command({validate: name, full: true});
    if (!result.valid) report(round, `${name}: ${JSON.stringify(result.errors)}`);
  }
}

for (let round = 1; round <= rounds; ++round) {
  if (round > 1 && below(3) === 0)
    for (let n = 1 + below(3); n > 0; --n, ++recoveryKills) await killInRecovery(below(80));
  const server = await start(below(2) ? ['--checkpoint-log-mb', '1'] : []);
  const client = await new MongoClient(server.uri, {retryWrites: false, maxPoolSize: clients + 8,
                                                    serverSelectionTimeoutMS: 3000}).connect();
  const db = client.db('crash');
  if (round === 1) {
    for (const name of ['c0', 'c1', 'c2']) {
      await db.createIndex(name, {u: 1}, {unique: true});
      await db.createIndex(name, {version: 1});
    }
    await db.createIndex('ttl', {at: 1}, {expireAfterSeconds: 0});
  }
  await verifyAll(round, db);
  let stop = false;
  const running = [...workers, ...actors].map(async (one) => {
    try {
      while (!stop) await one.step(db);
    } catch (error) {
      if (!stop) report(round, `${one.constructor.name} ${one.number ?? ''}: ${error.message}`);
    }
  });
  await new Promise((resolve) => setTimeout(resolve, 50 + below(Number(options['max-ms']))));
  stop = true;
  await server.kill9();
  await client.close(true);
  await Promise.all(running);
}
const server = await start([]);
const client = await new MongoClient(server.uri).connect();
await verifyAll('end', client.db('crash'));
await client.close();
const code = await server.stop();
if (code !== 0) report('end', `the server ended with ${code}`);
if (!options.dir) rmSync(dbpath, {recursive: true, force: true});
const writes = workers.reduce((sum, worker) => sum + worker.writes, 0);
const others = actors.map((actor) => `${actor.writes} by ${actor.constructor.name}`).join(', ');
console.log(`${writes} acknowledged writes, ${others}; ${rounds} kills, ${recoveryKills} more during recovery, ` +
            `seed ${seed}: ${failures} failures`);
process.exit(failures === 0 ? 0 : 1);
