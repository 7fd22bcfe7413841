// multiforadb check, inspect, backup, repair.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import {closeSync, existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync,
        writeSync} from 'node:fs';
import {createHash} from 'node:crypto';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, test} from 'node:test';

import {MongoClient} from 'mongodb';

import {binary, Server} from './support/server.mjs';

const scratch = mkdtempSync(path.join(tmpdir(), 'multifora-tools-'));
after(() => rmSync(scratch, {recursive: true, force: true}));

function run(...args) {
  return new Promise((resolve) => {
    execFile(binary, args, {maxBuffer: 1 << 26}, (error, stdout, stderr) => {
      resolve({code: error ? error.code : 0, stdout, stderr});
    });
  });
}

// Every file and its content.
function fingerprint(directory) {
  const hash = createHash('sha256');
  for (const name of readdirSync(directory, {recursive: true}).sort()) {
    const file = path.join(directory, name);
    hash.update(name);
    if (statSync(file).isFile()) hash.update(readFileSync(file));
  }
  return hash.digest('hex');
}

async function makeDatabase(dbpath, {kill = false} = {}) {
  const server = await Server.start({dbpath});
  const client = await new MongoClient(server.uri).connect();
  const c = client.db('shop').collection('orders');
  await c.createIndex({customer: 1});
  await c.insertMany(Array.from({length: 500}, (_, i) => ({_id: i, customer: i % 20, text: 'order '.repeat(i % 90)})));
  await client.db('shop').collection('gone').insertOne({_id: 1});
  await client.db('shop').collection('gone').drop();
  await client.close();
  await (kill ? server.kill9() : server.stop());
}

test('--help lists the tools, an unknown one is refused with a hint', async () => {
  const help = await run('--help');
  for (const name of ['check', 'inspect', 'backup', 'repair']) assert.match(help.stdout, new RegExp(`multiforadb ${name}`));
  const unknown = await run('chek', '/x');
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /did you mean 'check'/);
});

test('repair says what to do instead', async () => {
  const {code, stderr} = await run('repair', '/x');
  assert.equal(code, 2);
  assert.match(stderr, /not offered/);
  assert.match(stderr, /backup/);
});

test('check and inspect of a killed database: clean, and not a byte is changed', async () => {
  const dbpath = path.join(scratch, 'killed');
  await makeDatabase(dbpath, {kill: true});
  const before = fingerprint(dbpath);
  const checked = await run('check', dbpath);
  assert.equal(checked.code, 0, checked.stderr);
  // The server may have written its own collection of sessions when the kill came.
  const [, collections, records] = /is clean: (\d+) collections, (\d+) records/.exec(checked.stdout).map(Number);
  assert.match(checked.stderr, /shop\.orders: 500 records/);  // progress
  const inspected = await run('inspect', dbpath, '--json', '--blocks');
  assert.equal(inspected.code, 0, inspected.stderr);
  const seen = JSON.parse(inspected.stdout);
  assert.deepEqual(seen.meta_pages.map((one) => one.state), ['valid', 'valid']);
  assert.ok(seen.log_segments[0].block_list.length > 0);
  assert.ok(seen.log_segments[0].block_list[1].follows);
  const own = seen.collections.filter((one) => one.ns === 'config.system.sessions');
  assert.equal(seen.collections.length, 1 + own.length);
  assert.equal(collections, 1 + own.length);
  assert.equal(records, 500 + own.reduce((sum, one) => sum + one.records, 0));
  const orders = seen.collections.find((one) => one.ns === 'shop.orders');
  assert.equal(orders.records, 500);
  assert.deepEqual(orders.indexes.map((one) => one.entries), [500, 500]);
  assert.ok(seen.recovered_batches > 0);
  const space = seen.space;
  assert.equal(space.meta_bytes + space.page_bytes + space.record_bytes + space.waiting_bytes + space.free_bytes,
               space.file_bytes);
  const text = await run('inspect', dbpath);
  assert.match(text.stdout, /log_segments:/);
  assert.match(text.stdout, /checkpoint:\n {2}number: /);
  assert.equal(fingerprint(dbpath), before);
});

test('check finds damage, and names it', async () => {
  const dbpath = path.join(scratch, 'damaged');
  await makeDatabase(dbpath);
  const file = path.join(dbpath, 'data.mfdb');
  const at = readFileSync(file).indexOf('order order order');
  assert.ok(at > 0);
  const fd = openSync(file, 'r+');
  writeSync(fd, 'X', at + 3);
  closeSync(fd);
  const {code, stdout} = await run('check', dbpath);
  assert.equal(code, 1);
  assert.match(stdout, /damaged: shop\.orders: record \d+ .* wrong hash/);
  assert.match(stdout, /multiforadb repair/);
});

test('a running server keeps check and inspect out', async () => {
  const dbpath = path.join(scratch, 'running');
  const server = await Server.start({dbpath});
  const {code, stderr} = await run('check', dbpath);
  assert.equal(code, 1);
  assert.match(stderr, /another multiforadb/);
  await server.stop();
});

test('wrong paths and arguments', async () => {
  assert.match((await run('check', path.join(scratch, 'nothing'))).stderr, /does not exist/);
  assert.match((await run('inspect', tmpdir())).stderr, /no database directory/);
  assert.equal((await run('check')).code, 2);
  assert.match((await run('check', '--fast', scratch)).stderr, /unknown option --fast/);
  assert.equal((await run('backup')).code, 2);
  assert.match((await run('backup', '--out', path.join(scratch, 'b0'), '--port', '1')).stderr, /is the server running/);
});

test('backup under load: the copy is one moment of the database, and serves', async () => {
  const server = await Server.start({args: ['--checkpoint-log-mb', '1']});
  const client = await new MongoClient(server.uri).connect();
  const db = client.db('load');
  await db.collection('c').createIndex({n: 1}, {unique: true});
  await db.collection('pairs').insertOne({_id: 'total', sum: 0});
  // Enough for the copy to take a while.
  const big = 'b'.repeat(60_000);
  for (let i = 0; i < 8; ++i)
    await db.collection('big').insertMany(Array.from({length: 50}, (_, j) => ({_id: i * 50 + j, big})));
  let stop = false, acknowledged = 0;
  const writers = Array.from({length: 4}, async (_, w) => {
    for (let i = 0; !stop; ++i) {
      const n = w * 1e6 + i;
      await db.collection('c').insertOne({_id: n, n, text: 'x'.repeat(n % 3000)});
      ++acknowledged;
      if (i % 3 === 0) await db.collection('c').updateOne({_id: n}, {$set: {text: 'y'.repeat(n % 5000)}});
      if (i % 5 === 4) await db.collection('c').deleteOne({_id: n - 4});
      await db.collection('big').updateOne({_id: n % 400}, {$set: {at: n}});
    }
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  const copies = [];
  for (let round = 0; round < 2; ++round) {
    const before = acknowledged;
    const out = path.join(scratch, `copy${round}`);
    const {code, stdout, stderr} = await run('backup', '--out', out, '--port', String(server.port));
    assert.equal(code, 0, stderr);
    assert.match(stdout, /to restore, start a server with --dbpath/);
    copies.push({out, before, after: acknowledged});
    assert.ok(!existsSync(out + '.partial'));
  }
  // Refusals, with MongoDB-shaped errors.
  const admin = client.db('admin');
  const refusal = async (command) => {
    try {
      await admin.command(command);
    } catch (error) {
      return `${error.codeName}: ${error.message}`;
    }
    return 'no refusal';
  };
  assert.match(await refusal({createBackup: 1, backupDir: copies[0].out}), /BadValue: .*no empty directory/);
  assert.match(await refusal({createBackup: 1, backupDir: 'relative'}), /BadValue: .*absolute/);
  assert.match(await refusal({createBackup: 1, backupDir: path.join(server.dbpath, 'x')}), /BadValue: .*database directory/);
  assert.match(await refusal({createBackup: 1}), /backupDir/);
  assert.match(await refusal({createBackup: 1, backupDir: '/x', fast: true}), /unknown field/);
  stop = true;
  await Promise.all(writers);
  await client.close();
  await server.stop();

  for (const {out, before, after: most} of copies) {
    const checked = await run('check', out);
    assert.equal(checked.code, 0, checked.stdout + checked.stderr);
    const restored = await Server.start({dbpath: out});
    const copy = await new MongoClient(restored.uri).connect();
    const c = copy.db('load').collection('c');
    assert.equal(await copy.db('load').collection('big').countDocuments(), 400);
    // Each writer's inserts are there up to one moment; what it deleted again may be gone.
    let inserted = 0;
    for (let w = 0; w < 4; ++w) {
      const ids = new Set((await c.find({_id: {$gte: w * 1e6, $lt: (w + 1) * 1e6}}, {projection: {_id: 1}}).toArray())
        .map((d) => d._id - w * 1e6));
      const last = Math.max(-1, ...ids);
      inserted += last + 1;
      for (let i = 0; i < last - 5; ++i) assert.equal(ids.has(i), i % 5 !== 0, `writer ${w}, insert ${i}`);
    }
    assert.ok(inserted >= before - 4 && inserted <= most + 4, `${before} <= ${inserted} <= ${most}`);
    assert.ok((await copy.db('load').command({validate: 'c', full: true})).valid);
    await c.insertOne({_id: -1, n: -1});
    await assert.rejects(c.insertOne({_id: -2, n: -1}), {code: 11000});
    await copy.close();
    assert.equal(await restored.stop(), 0);
  }
});
