// storage.read_only: an existing database is served, writes are refused, and no file changes; what a
// killed server left in its log is replayed in memory.
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {mkdtempSync, readFileSync, readdirSync, rmSync, statSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, test} from 'node:test';

import {MongoClient} from 'mongodb';

import {Server} from './support/server.mjs';

const folder = mkdtempSync(path.join(tmpdir(), 'multifora-ro-'));
after(() => rmSync(folder, {recursive: true, force: true}));
const dbpath = path.join(folder, 'db');
const readOnly = {dbpath, args: ['--set', 'storage.read_only=true', '--ttl-sweep-secs', '1']};

const withClient = async (server, work) => {
  const client = await new MongoClient(server.uri).connect();
  try {
    return await work(client);
  } finally {
    await client.close();
  }
};

// Every file's name, time and content.
const fingerprint = (directory) => readdirSync(directory, {recursive: true}).sort().map((name) => {
  const file = path.join(directory, name);
  const {size, mtimeMs} = statSync(file);
  const hash = statSync(file).isFile() ? createHash('sha1').update(readFileSync(file)).digest('hex') : '';
  return `${name} ${size} ${mtimeMs} ${hash}`;
});

test('no database is made', async () => {
  await assert.rejects(Server.start(readOnly), /there is no database in/);
});

test('a killed server\'s database is served as it was, writes are refused, nothing changes on the disk', async () => {
  let server = await Server.start({dbpath});
  await withClient(server, async (client) => {
    const c = client.db('ro').collection('c');
    await c.insertMany(Array.from({length: 2000}, (_, i) => ({_id: i, k: i % 7, pad: 'x'.repeat(200)})));
    await c.createIndex({k: 1});
    await c.createIndex({at: 1}, {expireAfterSeconds: 0});
    await client.db('admin').command({fsync: 1});
    await c.updateMany({k: 3}, {$set: {changed: true}});
    await c.deleteMany({k: 4});
    await c.insertOne({_id: 'due', at: new Date(0)});
  });
  await server.kill9();
  const before = fingerprint(dbpath);

  server = await Server.start(readOnly);
  assert.ok(server.ready.recovered_batches > 0);
  await withClient(server, async (client) => {
    const db = client.db('ro');
    const c = db.collection('c');
    assert.equal((await client.db('admin').command({hello: 1})).readOnly, true);
    assert.equal(await c.countDocuments({k: 3, changed: true}), 286);
    assert.equal(await c.countDocuments({k: 4}), 0);
    assert.deepEqual((await c.find({k: 5}).sort({_id: -1}).limit(1).toArray())[0]._id, 1999 - 1999 % 7 + 5 - 7);
    assert.equal((await c.aggregate([{$group: {_id: '$k', n: {$sum: 1}}}]).toArray()).length, 7);
    // The driver puts a message of its own about retried writes before IllegalOperation.
    const refused = (error) => {
      const {code, codeName, message} = error.originalError ?? error;
      assert.deepEqual({code, codeName}, {code: 20, codeName: 'IllegalOperation'});
      assert.match(message, /read-only mode/);
      return true;
    };
    await assert.rejects(c.insertOne({}), refused);
    await assert.rejects(c.updateOne({_id: 1}, {$set: {a: 1}}), refused);
    await assert.rejects(c.drop(), refused);
    await assert.rejects(c.createIndex({z: 1}), refused);
    await assert.rejects(db.createCollection('d'), refused);
    await assert.rejects(c.aggregate([{$out: 'd'}]).toArray(), refused);
    await assert.rejects(c.aggregate([{$merge: 'd'}]).toArray(), refused);
    // The sweep of expired documents is off.
    await new Promise((next) => setTimeout(next, 1500));
    assert.equal(await c.countDocuments({_id: 'due'}), 1);
    // Another reader may come, a writer may not.
    const second = await Server.start(readOnly);
    assert.equal(await second.stop(), 0);
    await assert.rejects(Server.start({dbpath}), /lock/i);
  });
  assert.equal(await server.stop(), 0);
  assert.deepEqual(fingerprint(dbpath), before);

  // Nothing was lost: a writer replays the same log.
  server = await Server.start({dbpath});
  await withClient(server, async (client) => {
    const c = client.db('ro').collection('c');
    assert.equal(await c.countDocuments({k: 3, changed: true}), 286);
    assert.equal((await c.insertOne({_id: 'new'})).acknowledged, true);
    assert.equal((await client.db('ro').command({validate: 'c', full: true})).valid, true);
  });
  assert.equal(await server.stop(), 0);
});

test('a cleanly closed database too', async () => {
  const before = fingerprint(dbpath);
  const server = await Server.start(readOnly);
  assert.equal(server.ready.recovered_batches, 0);
  await withClient(server, async (client) => {
    assert.equal(await client.db('ro').collection('c').countDocuments({_id: 'new'}), 1);
  });
  assert.equal(await server.stop(), 0);
  assert.deepEqual(fingerprint(dbpath), before);
});
