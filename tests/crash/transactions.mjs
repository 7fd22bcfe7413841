// Transactions of many clients, kill -9 in between, and a checker of what they saw.
//
//   node transactions.mjs [--rounds 3] [--clients 16] [--seed N] [--max-ms 1200] [--dir DIR]
//
// Two workloads run at once:
// - bank: every transaction moves money between accounts of two collections; the sum of all accounts
//   is the same in every snapshot, during the run and after each kill.
// - lists: every transaction reads some lists and appends unique numbers to others (the list-append
//   model). The final list of a key is the order of all its versions, so that from what the committed
//   transactions read follows
//     G0/lost update  no acknowledged append is missing, none is there twice
//     dirty read      no list that was read has a number of a transaction that aborted
//     non-prefix      every list that was read is a prefix of the final one
//     fractured read  a transaction sees all appends of another one or none of them
//     own writes      and its own at the ends of what it reads
//     first committer of two transactions that append to the same key, one saw the other
//   which is what snapshot isolation forbids (write skew is allowed). A commit in doubt (the connection
//   was lost) counts as committed where one of its numbers is there, and then all must be.
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
  rounds: {type: 'string', default: '3'}, clients: {type: 'string', default: '16'},
  seed: {type: 'string', default: String(Date.now() % 1e9)}, 'max-ms': {type: 'string', default: '1200'},
  dir: {type: 'string'}}});
const rounds = Number(options.rounds), clients = Number(options.clients), seed = Number(options.seed);
const dbpath = options.dir ?? mkdtempSync(path.join(tmpdir(), 'multifora-transactions-'));
const kAccounts = 10, kEach = 1000, kKeys = 12;
console.log(`transactions: ${rounds} rounds, ${clients} clients, seed ${seed}, ${dbpath}`);

function makeRandom(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
const random = makeRandom(seed);
const problems = [];
const problem = (text) => { if (problems.push(text) <= 20) console.log(`PROBLEM: ${text}`); };

const history = [];  // {reads: [[key, list]], appends: [[key, number]], outcome: 'committed' | 'aborted' | 'doubt'}
let nextNumber = 1;
const counts = {committed: 0, aborted: 0, doubt: 0, audits: 0};

// One attempt of a transaction; the driver's own retries would hide what happened.
async function attempt(client, body) {
  const session = client.startSession();
  let outcome = 'aborted';
  try {
    session.startTransaction({readConcern: {level: 'snapshot'}, writeConcern: {w: 'majority'}});
    await body(session);
    outcome = 'doubt';
    await session.commitTransaction();
    outcome = 'committed';
  } catch (error) {
    if (error.hasErrorLabel?.('TransientTransactionError') && error.code !== undefined) outcome = 'aborted';
    else if (error.code !== undefined && outcome === 'aborted') problem(`unexpected failure: ${error.code} ${error.message}`);
    await session.abortTransaction().catch(() => {});
  } finally {
    await session.endSession().catch(() => {});
  }
  ++counts[outcome];
  return outcome;
}

const sumOf = (documents) => documents.reduce((sum, d) => sum + d.balance, 0);

async function bankStep(client, r) {
  const db = client.db('bank');
  const from = Math.floor(r() * kAccounts), to = Math.floor(r() * kAccounts), amount = 1 + Math.floor(r() * 20);
  if (r() < 0.2) {
    let total;
    const outcome = await attempt(client, async (session) => {
      total = sumOf(await db.collection('x').find({}, {session}).toArray()) +
              sumOf(await db.collection('y').find({}, {session}).toArray());
    });
    ++counts.audits;
    if (outcome === 'committed' && total !== 2 * kAccounts * kEach) problem(`a snapshot has ${total} in all accounts`);
    return;
  }
  await attempt(client, async (session) => {
    await db.collection('x').updateOne({_id: from}, {$inc: {balance: -amount}}, {session});
    await db.collection('y').updateOne({_id: to}, {$inc: {balance: amount}}, {session});
  });
}

async function listStep(client, r) {
  const lists = client.db('lists').collection('lists');
  const entry = {reads: [], appends: [], outcome: 'aborted'};
  history.push(entry);
  const keys = [...new Set(Array.from({length: 1 + Math.floor(r() * 4)}, () => Math.floor(r() * kKeys)))];
  entry.outcome = await attempt(client, async (session) => {
    for (const key of keys) {
      if (r() < 0.5) {
        const number = nextNumber++;
        entry.appends.push([key, number]);
        await lists.updateOne({_id: key}, {$push: {list: number}}, {session, upsert: true});
      }
      const found = await lists.findOne({_id: key}, {session});
      entry.reads.push([key, found?.list ?? [], entry.appends.length]);
    }
  });
}

async function work(client, number, stopped) {
  const r = makeRandom(seed * 131 + number);
  while (!stopped.value) {
    try {
      await (number % 2 === 0 ? bankStep : listStep)(client, r);
    } catch {
      return;  // the server is gone
    }
  }
}

function checkLists(final) {
  const place = new Map();  // number -> [key, index]
  for (const [key, list] of final)
    list.forEach((number, index) => {
      if (place.has(number)) problem(`${number} was appended twice`);
      place.set(number, [key, index]);
    });
  const owner = new Map();
  for (const t of history) {
    if (t.outcome === 'doubt') {
      const there = t.appends.filter(([, number]) => place.has(number)).length;
      if (there !== 0 && there !== t.appends.length) problem(`half a transaction is there: ${JSON.stringify(t.appends)}`);
      t.outcome = there > 0 || t.appends.length === 0 ? 'committed' : 'aborted';
    }
    for (const [key, number] of t.appends) {
      owner.set(number, t);
      if (t.outcome === 'committed' && !place.has(number)) problem(`lost: ${number}, appended to ${key}`);
      if (t.outcome === 'aborted' && place.has(number)) problem(`${number} of an aborted transaction is in list ${key}`);
    }
  }
  for (const t of history.filter(({outcome}) => outcome === 'committed')) {
    const own = new Map(t.appends);
    const seen = new Map();  // key -> length of the snapshot's list
    for (const [key, list, appendsBefore] of t.reads) {
      const mine = t.appends.slice(0, appendsBefore).filter(([k]) => k === key).map(([, number]) => number);
      const tail = list.slice(list.length - mine.length);
      if (JSON.stringify(tail) !== JSON.stringify(mine)) problem(`own writes ${mine} are not at the end of ${list}`);
      const snapshot = list.slice(0, list.length - mine.length);
      const whole = final.get(key) ?? [];
      if (snapshot.some((number, i) => whole[i] !== number)) problem(`list ${key} read as ${snapshot}, is ${whole}`);
      if (seen.has(key) && seen.get(key) !== snapshot.length) problem(`list ${key} changed between two reads of a transaction`);
      seen.set(key, snapshot.length);
    }
    for (const [key, length] of seen) {
      const whole = final.get(key) ?? [];
      // What is in one list's snapshot must be in the others'.
      for (const number of whole.slice(0, length))
        for (const [otherKey, otherNumber] of owner.get(number)?.appends ?? [])
          if (seen.has(otherKey) && place.get(otherNumber)[1] >= seen.get(otherKey))
            problem(`fractured read: ${number} of list ${key} was seen, ${otherNumber} of ${otherKey} was not`);
      // First committer wins: the version that an append came after is the one that was read.
      if (own.has(key) && place.get(own.get(key))[1] !== length)
        problem(`lost update: list ${key} was read with ${length} entries, the append became entry ` +
                `${place.get(own.get(key))[1]}`);
    }
  }
}

async function verify(server) {
  const client = await new MongoClient(server.uri).connect();
  for (const name of ['x', 'y']) {
    const {valid} = await client.db('bank').command({validate: name, full: true});
    if (!valid) problem(`bank.${name} is damaged`);
  }
  const bank = client.db('bank');
  const total = sumOf(await bank.collection('x').find().toArray()) + sumOf(await bank.collection('y').find().toArray());
  if (total !== 2 * kAccounts * kEach) problem(`after the kill there is ${total} in all accounts`);
  const final = new Map((await client.db('lists').collection('lists').find().toArray()).map((d) => [d._id, d.list]));
  checkLists(final);
  await client.close();
}

process.on('unhandledRejection', () => {});
let server = await Server.start({dbpath});
{
  const client = await new MongoClient(server.uri).connect();
  for (const name of ['x', 'y'])
    await client.db('bank').collection(name).insertMany(
      Array.from({length: kAccounts}, (_, i) => ({_id: i, balance: kEach})));
  await client.db('lists').createCollection('lists');
  await client.close();
}
for (let round = 0; round < rounds; ++round) {
  const connections = await Promise.all(Array.from({length: clients}, () =>
    new MongoClient(server.uri, {retryWrites: false, serverSelectionTimeoutMS: 500}).connect()));
  const stopped = {value: false};
  const workers = connections.map((client, i) => work(client, round * clients + i, stopped));
  await new Promise((resolve) => setTimeout(resolve, 200 + random() * Number(options['max-ms'])));
  await server.kill9();
  stopped.value = true;
  await Promise.all(workers);
  await Promise.all(connections.map((client) => client.close(true).catch(() => {})));
  server = await Server.start({dbpath});
  await verify(server);
  console.log(`round ${round + 1}: ${JSON.stringify(counts)}, problems ${problems.length}`);
  if (problems.length > 0) break;
}
await server.stop();
if (options.dir === undefined && problems.length === 0) rmSync(dbpath, {recursive: true, force: true});
if (counts.committed < rounds * 10) problem(`only ${counts.committed} transactions committed`);
console.log(problems.length === 0 ? `good: ${history.length} list transactions checked` : `BAD: seed ${seed}, ${dbpath}`);
process.exit(problems.length === 0 ? 0 : 1);
