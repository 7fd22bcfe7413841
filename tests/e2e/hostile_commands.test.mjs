// Commands that ask for too much: each is refused or ends with maxTimeMS, also inside one document, and
// the server goes on serving others.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {MongoClient} from 'mongodb';

import {Server} from './support/server.mjs';

let server, client, db;
before(async () => {
  server = await Server.start();
  client = await MongoClient.connect(server.uri, {retryWrites: false, retryReads: false});
  db = client.db('hostile');
  await db.collection('one').insertOne({_id: 1, a: Array.from({length: 100_000}, (_, i) => i), s: 'a'.repeat(1_000_000)});
});
after(async () => {
  await client.close();
  assert.equal(await server.stop(), 0);
});

// The command's error code (0: none); it takes at most some seconds, however busy the machine.
const fate = async (command, ms = 200) => {
  const start = Date.now();
  const code = await db.command({...command, maxTimeMS: ms})
                   .then((reply) => reply.writeErrors?.[0].code ?? 0, (error) => error.code ?? String(error));
  assert.ok(Date.now() - start < 15_000, `${Date.now() - start} ms`);
  assert.equal((await db.command({ping: 1})).ok, 1);
  return code;
};
const compute = (e) => fate({aggregate: 'one', pipeline: [{$project: {x: {$type: e}}}], cursor: {}});
const patient = 10_000;
const range = (n) => ({$range: [0, n]});

test('expressions end in time inside one document', async () => {
  for (const e of [{$setUnion: ['$a', range(1_000_000)]}, {$sortArray: {input: {$reverseArray: range(1_000_000)}, sortBy: 1}},
                   {$indexOfArray: ['$a', -1]}, {$maxN: {n: 100_000, input: '$a'}}, {$regexMatch: {input: '$s', regex: 'a.*?a$'}}])
    assert.equal(await compute({$map: {input: range(100_000), in: {$type: e}}}), 50, JSON.stringify(e));
});

test('constants are not computed without bound while a command is read', async () => {
  assert.equal(await compute({$and: Array.from({length: 2000}, () => ({$size: range(4_000_000)}))}), 50);
});

test('filters end in time inside one document', async () => {
  const all = Array.from({length: 100_000}, (_, i) => i);
  assert.equal(await fate({find: 'one', filter: {a: {$all: all}}}), 50);
  const or = Array.from({length: 20_000}, (_, i) => ({a: {$elemMatch: {$lt: -i}}}));
  assert.equal(await fate({find: 'one', filter: {$or: or}}), 50);
});

test('what an expression holds is bounded', async () => {
  const code = await compute({$setEquals: Array.from({length: 40}, () => range(1_500_000))});
  assert.ok(code === 146 || code === 50, `code ${code}`);
});

test('paths without end are refused', async () => {
  const path = Array(500_000).fill('a').join('.');
  for (const op of ['$set', '$unset', '$inc', '$push', '$pull'])
    assert.equal(await fate({update: 'one', updates: [{q: {}, u: {[op]: {[path]: 1}}}]}, patient), 15, op);
  assert.equal(await fate({update: 'one', updates: [{q: {[path]: 1}, u: {$inc: {z: 1}}, upsert: true}]}, patient), 15);
  assert.equal(await fate({find: 'one', filter: {[path]: 1}}, patient), 15);
});

test('skip and limit at their greatest', async () => {
  const most = 9223372036854775807n;
  assert.equal(await fate({find: 'one', filter: {}, sort: {k: 1}, skip: most, limit: most}, patient), 0);
});

test('an error that quotes what it got is one that clients take', async () => {
  const e = {$reduce: {input: {$concat: Array(40).fill('$s')}, initialValue: 0, in: 0}};
  assert.equal(await fate({aggregate: 'one', pipeline: [{$project: {x: e}}], cursor: {}}, patient), 40080);
});
