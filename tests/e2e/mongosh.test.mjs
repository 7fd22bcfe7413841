// A scripted mongosh session: what a person types in the first five minutes.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {promisify} from 'node:util';

import {Server} from './support/server.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const mongosh = path.join(here, 'node_modules/.bin/mongosh');

let server;
before(async () => { server = await Server.start(); });
after(async () => assert.equal(await server?.stop(), 0));

async function shell(script) {
  const {stdout} = await promisify(execFile)(
    mongosh, [`mongodb://127.0.0.1:${server.port}/shell`, '--quiet', '--norc', '--eval', script],
    {timeout: 120000, env: {...process.env, HOME: server.dbpath, MONGOSH_DISABLE_TELEMETRY: '1'}});
  return stdout.trim();
}

test('insert, iterate, update, aggregate, index, list, stats', async () => {
  const output = await shell(`
    db.things.insertMany(Array.from({length: 1000}, (_, i) => ({_id: i, k: i % 10})));
    let seen = 0; const cursor = db.things.find().batchSize(100); while (cursor.hasNext()) { cursor.next(); ++seen; }
    db.things.updateMany({k: 3}, {$set: {three: true}});
    const groups = db.things.aggregate([{$group: {_id: '$k', n: {$sum: 1}}}]).toArray();
    db.things.createIndex({k: 1});
    print(EJSON.stringify({
      seen, three: db.things.countDocuments({three: true}), groups: groups.length,
      indexes: db.things.getIndexes().map((i) => i.name), collections: db.getCollectionNames(),
      stats: db.things.stats().count, explain: db.things.find({k: 1}).explain().queryPlanner.winningPlan.stage,
      valid: db.things.validate().valid, databases: db.adminCommand({listDatabases: 1}).databases.map((d) => d.name),
      version: db.version(), set: rs.hello ? 1 : db.hello().setName}));`);
  const result = JSON.parse(output.split('\n').at(-1));
  assert.equal(result.seen, 1000);
  assert.equal(result.three, 100);
  assert.equal(result.groups, 10);
  assert.deepEqual(result.indexes, ['_id_', 'k_1']);
  assert.deepEqual(result.collections, ['things']);
  assert.equal(result.stats, 1000);
  assert.equal(result.valid, true);
  assert.ok(result.databases.includes('shell'));
  assert.match(result.version, /^8\.0/);
});

test('show dbs and show collections', async () => {
  assert.match(await shell('show dbs'), /shell/);
  assert.match(await shell('show collections'), /things/);
});

test('errors reach the shell with their code', async () => {
  assert.match(await shell('try { db.runCommand({nope: 1}) } catch (e) { print(e.code, e.codeName) }'),
               /59 CommandNotFound/);
});
