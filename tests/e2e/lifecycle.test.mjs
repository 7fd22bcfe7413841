// Starting, stopping and starting again: what survives, what a clean stop leaves, what is refused.
import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, test} from 'node:test';

import {MongoClient} from 'mongodb';

import {Server} from './support/server.mjs';

const dbpath = mkdtempSync(path.join(tmpdir(), 'multifora-life-'));
after(() => rmSync(dbpath, {recursive: true, force: true}));

const withClient = async (server, work) => {
  const client = await new MongoClient(server.uri).connect();
  try {
    return await work(client);
  } finally {
    await client.close();
  }
};

test('two graceful restarts keep everything; the log is empty after a clean stop', async () => {
  let server = await Server.start({dbpath});
  await withClient(server, async (client) => {
    await client.db('life').collection('c').insertMany(Array.from({length: 500}, (_, i) => ({_id: i, k: i % 3})));
    await client.db('life').collection('c').createIndex({k: 1});
  });
  assert.equal(await server.stop(), 0);
  for (let restart = 1; restart <= 2; ++restart) {
    server = await Server.start({dbpath});
    assert.equal(server.ready.recovered_batches, 0);
    await withClient(server, async (client) => {
      const c = client.db('life').collection('c');
      assert.equal(await c.countDocuments({}), 499 + restart);
      assert.equal(await c.countDocuments({k: 1}), 167);
      assert.deepEqual((await c.indexes()).map((i) => i.name), ['_id_', 'k_1']);
      await c.insertOne({_id: 500 + restart, k: 9});
      assert.equal((await client.db('life').command({validate: 'c', full: true})).valid, true);
    });
    assert.equal(await server.stop(), 0);
  }
  const log = readdirSync(path.join(dbpath, 'wal'));
  const bytes = log.reduce((sum, name) => sum + statSync(path.join(dbpath, 'wal', name)).size, 0);
  assert.ok(bytes <= 4 * 1024 * 1024, `${log.length} segments, ${bytes} bytes`);
});

test('a second server on the same directory is refused and says why', async () => {
  const server = await Server.start({dbpath});
  await assert.rejects(Server.start({dbpath}), /another multiforadb|in use|lock/i);
  assert.equal(await server.stop(), 0);
});

test('logRotate and SIGUSR1 each begin a new log file', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'multifora-log-'));
  const log = path.join(folder, 'server.log');
  const config = path.join(folder, 'config.json');
  writeFileSync(config, JSON.stringify({log: {path: log}}));
  const files = () => readdirSync(folder).filter((name) => name.startsWith('server.log'));
  const count = async (n) => {
    for (let i = 0; i < 200 && files().length < n; ++i) await new Promise((next) => setTimeout(next, 10));
    assert.equal(files().length, n);
  };
  const server = await Server.start({args: ['--config', config], logFile: log});
  await withClient(server, (client) => client.db('admin').command({logRotate: 1}));
  await count(2);
  server.process.kill('SIGUSR1');
  await count(3);
  assert.equal(await server.stop(), 0);
  assert.match(readFileSync(log, 'utf8'), /stopped/);
  rmSync(folder, {recursive: true});
});

test('what kill -9 leaves is opened again', async () => {
  let server = await Server.start({dbpath});
  await withClient(server, (client) => client.db('life').collection('k').insertOne({_id: 1}));
  await server.kill9();
  server = await Server.start({dbpath});
  assert.ok(server.ready.recovered_batches >= 1);
  await withClient(server, async (client) =>
    assert.equal(await client.db('life').collection('k').countDocuments({}), 1));
  assert.equal(await server.stop(), 0);
});
