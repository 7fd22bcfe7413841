// What the world does to a server: full disks, files that others change, directories that cannot be
// used. Each refusal says what to do.
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {chmodSync, closeSync, cpSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync,
        rmSync, truncateSync, writeFileSync, writeSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {after, test} from 'node:test';

import {MongoClient} from 'mongodb';

import {binary, Server} from './support/server.mjs';

const scratch = mkdtempSync(path.join(tmpdir(), 'multifora-faults-'));
after(() => rmSync(scratch, {recursive: true, force: true}));
const isRoot = process.getuid() === 0;
const kNobody = 65534;

const connect = (server) => new MongoClient(server.uri, {retryWrites: false, serverSelectionTimeoutMS: 3000}).connect();

// Runs a server that is expected to refuse; its exit code and what it said.
function refusal(dbpath, {args = [], ...spawnOptions} = {}) {
  return new Promise((resolve) => {
    const process_ = spawn(binary, ['--port', '0', '--dbpath', dbpath, ...args],
                           {stdio: ['ignore', 'pipe', 'pipe'], ...spawnOptions});
    let stderr = '', stdout = '';
    process_.stderr.on('data', (text) => stderr += text);
    process_.stdout.on('data', (text) => {
      stdout += text;
      if (/"ready"/.test(stdout)) process_.kill('SIGKILL');
    });
    process_.on('exit', (code, signal) => resolve({code, signal, stderr, stdout}));
  });
}

async function makeDatabase(name) {
  const dbpath = path.join(scratch, name);
  const server = await Server.start({dbpath});
  const client = await connect(server);
  await client.db('d').collection('c').insertMany(Array.from({length: 200}, (_, i) => ({_id: i, pad: 'p'.repeat(2000)})));
  await client.close();
  await server.stop();
  return dbpath;
}

function poke(file, offset, bytes) {
  const fd = openSync(file, 'r+');
  writeSync(fd, bytes, 0, bytes.length, offset);
  closeSync(fd);
}

// --- a full disk ------------------------------------------------------------------------------------

function mounted(kind, size) {
  const at = path.join(scratch, `mount-${kind}`);
  mkdirSync(at, {recursive: true});
  try {
    if (kind === 'tmpfs') {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}m`, 'tmpfs', at], {stdio: 'pipe'});
    } else {
      const image = path.join(scratch, 'ext4.img');
      execFileSync('truncate', ['-s', `${size}M`, image]);
      execFileSync('mkfs.ext4', ['-q', '-m', '0', image], {stdio: 'pipe'});
      execFileSync('mount', ['-o', 'loop', image, at], {stdio: 'pipe'});
    }
    return at;
  } catch (error) {
    return {reason: String(error.stderr ?? error.message).trim()};
  }
}

for (const kind of ['tmpfs', 'ext4'])
  test(`a full disk (${kind}): writes are refused with 14031, reads go on, space makes writes work again`, async (t) => {
    const at = mounted(kind, 24);
    if (at.reason) return t.skip(`${kind} cannot be mounted here: ${at.reason}`);
    let server, client;
    try {
      const ballast = path.join(at, 'ballast');
      writeFileSync(ballast, Buffer.alloc(6 << 20, 1));
      server = await Server.start({dbpath: path.join(at, 'db'), args: ['--checkpoint-log-mb', '2']});
      client = await connect(server);
      const c = client.db('d').collection('c');
      await c.createIndex({k: 1});
      await client.db('d').collection('keep').insertOne({_id: 'kept'});
      let count = 0;
      // Until it is full; returns the error.
      const fill = async () => {
        for (;; ++count) {
          try {
            await c.insertOne({_id: count, k: count % 7, pad: 'x'.repeat(32_000)});
          } catch (error) {
            return error;
          }
          assert.ok(count < 10_000);
        }
      };
      const readable = async () => {
        assert.equal(await c.countDocuments({k: {$gte: 0}}), await c.estimatedDocumentCount());
        assert.equal((await c.findOne({_id: Math.floor(count / 2)})) !== null, true);
        assert.equal((await client.db('d').collection('keep').findOne())._id, 'kept');
      };
      const refused = (error) => {
        assert.equal(error.code, 14031, `${error.message}`);
        assert.equal(error.codeName ?? error.errorResponse?.codeName ?? 'OutOfDiskSpace', 'OutOfDiskSpace');
        assert.match(error.message, /free space/);
      };
      refused(await fill());
      assert.ok(count > 100, `${count} documents`);
      await readable();
      for (let i = 0; i < 5; ++i) refused(await fill());
      // A checkpoint on the full disk works or is refused, but ends nothing.
      await client.db('admin').command({fsync: 1}).catch(refused);
      await readable();
      // Space freed by others: without a restart.
      rmSync(ballast);
      const before = count;
      refused(await fill());
      assert.ok(count > before + 50, `${count - before} more documents fitted`);
      // Space freed by deleting: usable after checkpoints, which the refusals ask for.
      const atFull = count;
      const {deletedCount} = await c.deleteMany({_id: {$lt: Math.floor(count / 2)}});
      assert.ok(deletedCount > 0);
      await readable();
      for (let i = 0; i < 100 && count < atFull + 20; ++i) {
        await fill();
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      assert.ok(count >= atFull + 20, 'deleted space came back');
      // A drop works, and gives back everything.
      await c.drop();
      await client.db('admin').command({fsync: 1}).catch(refused);
      await client.db('admin').command({fsync: 1}).catch(refused);
      count = 0;
      for (let i = 0; i < 100 && count < 80; ++i) {
        await fill();
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      assert.ok(count >= 80, `${count} documents after the drop`);
      // It starts on the full disk, after a kill too.
      await fill();
      const expected = await c.countDocuments();
      await client.close();
      await server.kill9();
      server = await Server.start({dbpath: path.join(at, 'db')});
      client = await connect(server);
      assert.equal(await client.db('d').collection('c').countDocuments(), expected);
      assert.ok((await client.db('d').command({validate: 'c', full: true})).valid);
      await client.close();
      await server.stop();
      server = undefined;
      execFileSync(binary, ['check', path.join(at, 'db')], {stdio: 'pipe'});
    } finally {
      await client?.close(true).catch(() => {});
      await server?.kill9();
      execFileSync('umount', ['-l', at]);
    }
  });

// --- files that others change -----------------------------------------------------------------------

test('the data file is cut short under a running server: an error or an end with a message, no loss', async () => {
  const dbpath = await makeDatabase('cut');
  const whole = path.join(scratch, 'cut-copy');
  cpSync(dbpath, whole, {recursive: true});
  const server = await Server.start({dbpath});
  const client = await connect(server);
  const file = path.join(dbpath, 'data.mfdb');
  truncateSync(file, 1 << 20);
  let error;
  try {
    for (let i = 0; i < 200; ++i) await client.db('d').collection('c').findOne({_id: i});
    await client.db('d').collection('c').insertMany(Array.from({length: 500}, (_, i) => ({_id: 1000 + i, pad: 'q'.repeat(5000)})));
    await client.db('admin').command({fsync: 1});
  } catch (thrown) {
    error = thrown;
  }
  assert.ok(error, 'nothing was noticed');
  await client.close(true).catch(() => {});
  // Either it still runs, and the error said what is wrong, or it has ended on its own.
  const gone = await Promise.race([server.exited, new Promise((resolve) => setTimeout(resolve, 1000, null))]);
  if (gone) {
    assert.equal(gone.signal, null, 'killed by a signal');
    assert.equal(gone.code, 74);
    assert.match(server.log.join('\n'), /cut short/);
  } else {
    assert.match(error.message, /cut short|cannot be read/);
    await server.kill9();
  }
  const again = await refusal(dbpath);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /cut short/);
});

test('directories that cannot be used', async (t) => {
  const file = path.join(scratch, 'a-file');
  writeFileSync(file, 'x');
  const asFile = await refusal(file);
  assert.equal(asFile.code, 1);
  assert.match(asFile.stderr, /a-file.*Not a directory/);
  const below = await refusal(path.join(file, 'db'));
  assert.match(below.stderr, /Not a directory/);

  // Another user's, and one without write permission. Root may do everything, so it becomes nobody.
  const dbpath = await makeDatabase('owned');
  chmodSync(scratch, 0o755);
  const as = isRoot ? {uid: kNobody, gid: kNobody} : {};
  if (isRoot) {
    const other = await refusal(dbpath, as);
    assert.equal(other.code, 1);
    assert.match(other.stderr, /Permission denied/);
    assert.match(other.stderr, /owner/);
  } else {
    t.diagnostic('not root: no directory of another user was tried');
  }
  if (isRoot) execFileSync('chown', ['-R', String(kNobody), dbpath]);
  chmodSync(dbpath, 0o500);
  if (existsSync(path.join(dbpath, 'lock'))) rmSync(path.join(dbpath, 'lock'));
  const readOnly = await refusal(dbpath, as);
  chmodSync(dbpath, 0o700);
  assert.equal(readOnly.code, 1, readOnly.stdout);
  assert.match(readOnly.stderr, /Permission denied/);
  assert.match(readOnly.stderr, /write/);
  // check needs no write permission.
  chmodSync(dbpath, 0o500);
  execFileSync(binary, ['check', dbpath], {stdio: 'pipe', ...as});
  chmodSync(dbpath, 0o700);
});

test('a newer data file, a newer log, files of other programs', async () => {
  const dbpath = await makeDatabase('versions');
  const variant = (name) => {
    const copy = path.join(scratch, name);
    cpSync(dbpath, copy, {recursive: true});
    return copy;
  };
  const refuses = async (copy, pattern) => {
    const before = readFileSync(path.join(copy, 'data.mfdb'));
    for (const {code, stderr} of [await refusal(copy)]) {
      assert.equal(code, 1);
      assert.match(stderr, pattern);
    }
    assert.ok(before.equals(readFileSync(path.join(copy, 'data.mfdb'))), 'the file was changed');
    const checked = spawn(binary, ['check', copy], {stdio: ['ignore', 'pipe', 'pipe']});
    let text = '';
    checked.stderr.on('data', (piece) => text += piece);
    assert.equal(await new Promise((resolve) => checked.on('exit', resolve)), 1);
    assert.match(text, pattern);
  };
  const newer = variant('newer-data');
  for (const slot of [0, 4096]) {
    const version = Buffer.alloc(8);
    version.writeUInt32LE(2, 0);
    version.writeUInt32LE(~2 >>> 0, 4);
    poke(path.join(newer, 'data.mfdb'), slot + 16, version);
  }
  await refuses(newer, /data format version 2.*version 1/);

  const newerLog = variant('newer-log');
  const segment = path.join(newerLog, 'wal', readdirSync(path.join(newerLog, 'wal')).find((n) => n.endsWith('.wal')));
  poke(segment, 4, Buffer.from([2]));
  await refuses(newerLog, /log format version 2.*version 1/);

  const foreign = variant('foreign-data');
  writeFileSync(path.join(foreign, 'data.mfdb'), Buffer.alloc(2 << 20, 'SQLite format 3 '));
  await refuses(foreign, /not a MultiforaDB data file/);

  const foreignLog = variant('foreign-log');
  const other = path.join(foreignLog, 'wal', readdirSync(path.join(foreignLog, 'wal')).find((n) => n.endsWith('.wal')));
  poke(other, 0, Buffer.from('XXXX'));
  await refuses(foreignLog, /not a MultiforaDB log segment/);

  const empty = variant('empty-data');
  truncateSync(path.join(empty, 'data.mfdb'), 0);
  await refuses(empty, /data\.mfdb/);
});
