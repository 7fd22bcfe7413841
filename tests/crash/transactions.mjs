// Transactions of many clients, kill -9 in between, and a checker of what they saw.
//
//   node transactions.mjs [--runs 1] [--rounds 3] [--clients 16] [--seed N] [--max-ms 1200] [--dir DIR]
//
// A run is a database of its own with `rounds` kills; its seed is the first one's plus its number. Checkpoints
// are made every second or so. Every client does both workloads in turn:
// - bank: every transaction moves money between accounts of two collections, none below zero; the sum
//   of all accounts is the same in every snapshot, during the run and after each kill.
// - lists: a transaction reads some lists and appends unique numbers to others (the list-append model); some
//   appends are single findAndModify commands outside transactions. The final list of a key is the order of all its
//   versions. See lib/list_history.mjs for what is checked.
import {mkdirSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {parseArgs} from 'node:util';

import {makeRandom} from '../e2e/support/random.mjs';
import {Server} from '../e2e/support/server.mjs';
import {ListHistory} from './lib/list_history.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const {MongoClient} = createRequire(path.join(here, '../e2e/'))('mongodb');

const {values: options} = parseArgs({options: {
  runs: {type: 'string', default: '1'},
  rounds: {type: 'string', default: '3'}, clients: {type: 'string', default: '16'},
  seed: {type: 'string', default: String(Date.now() % 1e9)}, 'max-ms': {type: 'string', default: '1200'},
  dir: {type: 'string'}}});
const rounds = Number(options.rounds), clients = Number(options.clients), runs = Number(options.runs);
const kAccounts = 10, kEach = 1000, kKeys = 12;
const kConfig = {storage: {checkpoint_secs: 1, checkpoint_log_mb: 1}};

let problems = 0;
const problem = (text) => { if (++problems <= 20) console.log(`PROBLEM: ${text.slice(0, 2000)}`); };

let nextNumber = 1;
const counts = {committed: 0, aborted: 0, doubt: 0, audits: 0, lists: 0};

// One attempt of a transaction; the driver's own retries would hide what happened.
async function attempt(client, body) {
  const session = client.startSession();
  let outcome = 'aborted';
  let ended = Infinity;
  try {
    session.startTransaction({readConcern: {level: 'snapshot'}, writeConcern: {w: 'majority'}});
    await body(session);
    outcome = 'doubt';
    await session.commitTransaction();
    outcome = 'committed';
    ended = performance.now();
  } catch (error) {
    if (error instanceof GivenUp) outcome = 'aborted';
    else if (error.hasErrorLabel?.('TransientTransactionError') && error.code !== undefined) outcome = 'aborted';
    else if (error.code !== undefined && outcome === 'aborted') problem(`unexpected failure: ${error.code} ${error.message}`);
    await session.abortTransaction().catch(() => {});
  } finally {
    await session.endSession().catch(() => {});
  }
  ++counts[outcome];
  return {outcome, ended};
}

class GivenUp extends Error {}

const sumOf = (documents) => documents.reduce((sum, d) => sum + d.balance, 0);

async function bankStep(client, r) {
  const db = client.db('bank');
  const from = Math.floor(r() * kAccounts), to = Math.floor(r() * kAccounts), amount = 1 + Math.floor(r() * 20);
  if (r() < 0.2) {
    let total;
    const {outcome} = await attempt(client, async (session) => {
      total = sumOf(await db.collection('x').find({}, {session}).toArray()) +
              sumOf(await db.collection('y').find({}, {session}).toArray());
    });
    ++counts.audits;
    if (outcome === 'committed' && total !== 2 * kAccounts * kEach) problem(`a snapshot has ${total} in all accounts`);
    return;
  }
  await attempt(client, async (session) => {
    const {balance} = await db.collection('x').findOne({_id: from}, {session});
    if (balance < amount) throw new GivenUp();
    await db.collection('x').updateOne({_id: from}, {$inc: {balance: -amount}}, {session});
    await db.collection('y').updateOne({_id: to}, {$inc: {balance: amount}}, {session});
  });
}

// One command that appends and tells what was there before; no transaction of the client's.
async function singleStep(history, client, worker, r) {
  const lists = client.db('lists').collection('lists');
  const key = Math.floor(r() * kKeys), number = nextNumber++;
  const entry = history.begin(worker);
  Object.assign(entry, {single: true, outcome: 'doubt', appends: [[key, number]]});
  try {
    const before = await lists.findOneAndUpdate({_id: key}, {$push: {list: number}}, {upsert: true, returnDocument: 'before'});
    entry.reads.push([key, before?.list ?? [], 0]);
    entry.outcome = 'committed';
    entry.ended = performance.now();
  } catch (error) {
    if (error.code === undefined) throw error;
    problem(`unexpected failure: ${error.code} ${error.message}`);
  } finally {
    ++counts[entry.outcome];
  }
}

async function listStep(history, client, worker, r) {
  const lists = client.db('lists').collection('lists');
  const keys = [...new Set(Array.from({length: 1 + Math.floor(r() * 4)}, () => Math.floor(r() * kKeys)))];
  const repeats = r() < 0.3;
  const entry = history.begin(worker);
  const read = async (key, session) => {
    const found = await lists.findOne({_id: key}, {session});
    entry.reads.push([key, found?.list ?? [], entry.appends.length]);
  };
  Object.assign(entry, await attempt(client, async (session) => {
    for (const key of keys) {
      if (r() < 0.5) {
        const number = nextNumber++;
        entry.appends.push([key, number]);
        await lists.updateOne({_id: key}, {$push: {list: number}}, {session, upsert: true});
      }
      await read(key, session);
    }
    if (repeats) for (const key of keys) await read(key, session);
  }));
}

async function work(history, client, worker, r, stopped) {
  while (!stopped.value) {
    try {
      if (r() < 0.4) await bankStep(client, r);
      else if (r() < 0.2) await singleStep(history, client, worker, r);
      else await listStep(history, client, worker, r);
    } catch {
      return;  // the server is gone
    }
  }
}

async function verify(history, server) {
  const client = await new MongoClient(server.uri).connect();
  const bank = client.db('bank');
  for (const name of ['x', 'y']) {
    const {valid} = await bank.command({validate: name, full: true});
    if (!valid) problem(`bank.${name} is damaged`);
  }
  const x = await bank.collection('x').find().toArray(), y = await bank.collection('y').find().toArray();
  if (sumOf(x) + sumOf(y) !== 2 * kAccounts * kEach) problem(`after the kill there is ${sumOf(x) + sumOf(y)} in all accounts`);
  if (x.some(({balance}) => balance < 0)) problem('an account is below zero');
  history.check(new Map((await client.db('lists').collection('lists').find().toArray()).map((d) => [d._id, d.list])));
  await client.close();
}

async function fill(server) {
  const client = await new MongoClient(server.uri).connect();
  for (const name of ['x', 'y'])
    await client.db('bank').collection(name).insertMany(
      Array.from({length: kAccounts}, (_, i) => ({_id: i, balance: kEach})));
  await client.db('lists').createCollection('lists');
  await client.close();
}

// A client that soon gives up when the server is gone; on a busy machine it may take several attempts to begin.
async function connect(server) {
  for (let attempt = 1; ; ++attempt) {
    const client = new MongoClient(server.uri, {retryWrites: false, serverSelectionTimeoutMS: 500});
    try {
      return await client.connect();
    } catch (error) {
      await client.close(true).catch(() => {});
      if (attempt === 60) throw error;
    }
  }
}

// A database with `rounds` kills; whether all was well.
async function run(seed, number) {
  const dbpath = options.dir === undefined ? mkdtempSync(path.join(tmpdir(), 'multifora-transactions-'))
                                           : path.join(options.dir, String(number));
  mkdirSync(dbpath, {recursive: true});
  const config = path.join(dbpath, 'test.json');
  writeFileSync(config, JSON.stringify(kConfig));
  const start = () => Server.start({dbpath, args: ['--config', config]});
  const before = problems, history = new ListHistory(problem), random = makeRandom(seed);
  let server = await start();
  await fill(server);
  for (let round = 0; round < rounds && problems === before; ++round) {
    const connections = await Promise.all(Array.from({length: clients}, () => connect(server)));
    const stopped = {value: false};
    const workers = connections.map((client, i) =>
      work(history, client, i, makeRandom(seed * 131 + round * clients + i), stopped));
    await new Promise((resolve) => setTimeout(resolve, 200 + random() * Number(options['max-ms'])));
    await server.kill9();
    stopped.value = true;
    await Promise.all(workers);
    await Promise.all(connections.map((client) => client.close(true).catch(() => {})));
    server = await start();
    await verify(history, server);
  }
  await server.stop();
  counts.lists += history.transactions.length;
  console.log(`run ${number + 1}, seed ${seed}: ${JSON.stringify(counts)}, problems ${problems - before}` +
              `${problems > before ? `, ${dbpath}` : ''}`);
  if (options.dir === undefined && problems === before) rmSync(dbpath, {recursive: true, force: true});
  return problems === before;
}

process.on('unhandledRejection', () => {});
const firstSeed = Number(options.seed);
console.log(`transactions: ${runs} runs of ${rounds} kills, ${clients} clients, seed ${firstSeed}`);
for (let number = 0; number < runs; ++number) if (!await run(firstSeed + number, number)) break;
if (counts.committed < runs * rounds * 10) problem(`only ${counts.committed} transactions committed`);
console.log(problems === 0 ? `good: ${counts.lists} list transactions checked` : 'BAD');
process.exit(problems === 0 ? 0 : 1);
