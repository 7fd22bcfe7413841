// Clients that break the protocol, over raw sockets: each gets an error or a closed connection, and
// the server goes on serving others. Random damage prints its seed (set HOSTILE_SEED to repeat it).
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {setTimeout as sleep} from 'node:timers/promises';

import {BSON} from 'mongodb';

import {framed, header, i32, msg, RawClient, section0, section1, u32} from './support/raw_client.mjs';
import {Server} from './support/server.mjs';

let server;
before(async () => { server = await Server.start({args: ['--set', 'net.stall_secs=1',
                                                         '--set', 'net.connections_max=300']}); });
after(async () => { assert.equal(await server.stop(), 0); });

// ---- a client that sends what it is told to

const connect = () => RawClient.connect(server.port);
const hello = msg({hello: 1, $db: 'admin'});

const healthy = async () => {
  const raw = await connect();
  raw.send(hello);
  const reply = await raw.reply();
  assert.equal(reply?.ok, 1);
  raw.end();
};

// Sends bytes on a fresh connection; gives the error code, 'ok', or 'closed'.
const fate = async (bytes) => {
  const raw = await connect();
  raw.send(bytes);
  const reply = await raw.reply();
  raw.end();
  if (reply === null) return 'closed';
  return reply.ok === 1 ? 'ok' : reply.code;
};

// ---- one mistake each

test('impossible frames close the connection', async () => {
  for (const length of [0, 1, 15, -1, 48_000_001, 0x7fffffff, -0x80000000])
    assert.equal(await fate(Buffer.concat([header(length, 2013), Buffer.alloc(100)])), 'closed');
  for (const op of [0, 1, 1000, 2001, 2002, 2003, 2005, 2006, 2007, 2010, 2011, 2014, -1])
    assert.equal(await fate(Buffer.concat([header(40, op), Buffer.alloc(24)])), 'closed', `opcode ${op}`);
  assert.equal(await fate('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), 'closed');
  assert.equal(await fate(Buffer.from('16030100a5010000a10303', 'hex')), 'closed');  // TLS
  await healthy();
});

test('malformed OP_MSG gets an error reply', async () => {
  assert.equal(await fate(framed(2013, u32(0))), 40587);  // no body
  assert.equal(await fate(msg({hello: 1, $db: 'admin'}, {more: [section0({a: 1})]})), 40430);
  assert.equal(await fate(msg({hello: 1, $db: 'admin'}, {more: [Buffer.from([9])]})), 40432);
  assert.equal(await fate(msg({hello: 1, $db: 'admin'}, {flags: 4})), 188);
  assert.equal(await fate(msg({hello: 1})), 40571);
  assert.equal(await fate(msg({$db: 'admin'})), 59);
  assert.equal(await fate(msg({})), 59);
  assert.equal(await fate(msg({hello: 1, $db: 5})), 14);
  assert.equal(await fate(msg({hello: 1, $db: 'a b'})), 73);
  for (const size of [-1, 0, 3, 4, 1000, 0x7fffffff]) {
    const code = await fate(msg({hello: 1, $db: 'admin'}, {more: [section1('documents', [{a: 1}], size)]}));
    assert.equal(code, 17, `section size ${size}`);
  }
  const checksummed = msg({hello: 1, $db: 'admin'}, {flags: 1, more: [u32(12345)]});
  assert.equal(await fate(checksummed), 272);
  await healthy();
});

test('damaged BSON is InvalidBSON, also deep inside', async () => {
  const damaged = Buffer.from(hello);
  damaged.writeInt32LE(damaged.readInt32LE(21) + 1, 21);
  assert.equal(await fate(damaged), 22);
  const type = Buffer.from(hello);
  type[25] = 0x60;
  assert.equal(await fate(type), 22);
  const text = msg({hello: 'aaaa', $db: 'admin'});
  text[text.indexOf('aaaa')] = 0xff;
  assert.equal(await fate(text), 22);
});

test('nesting without end is refused', async () => {
  for (const levels of [150, 300, 5000, 100_000]) {
    // Each level: its length, the type and name of its one field, and (behind all others) its end.
    const bytes = Buffer.alloc(levels * 8 + 5);
    for (let i = 0; i <= levels; ++i) bytes.writeInt32LE(bytes.length - i * 8, i * 7);
    for (let i = 0; i < levels; ++i) bytes.write('\x03a\0', i * 7 + 4);
    const code = await fate(framed(2013, u32(0), Buffer.from([0]), bytes));
    assert.ok(code !== 'ok' && code !== 'closed', `levels ${levels}: ${code}`);
  }
  await healthy();
});

test('compressed bombs and damaged envelopes end the connection', async () => {
  const envelope = (op, size, id, bytes) => framed(2012, i32(op), i32(size), Buffer.from([id]), bytes);
  const noise = Buffer.from('0123456789abcdef');
  for (const id of [0, 1, 2, 3, 4, 255])
    for (const size of [-1, 0, 5, 47_999_984, 0x7fffffff])
      assert.equal(await fate(envelope(2013, size, id, noise)), 'closed', `compressor ${id}, size ${size}`);
  assert.equal(await fate(envelope(2012, 16, 0, noise)), 'closed');
  assert.equal(await fate(header(16, 2012)), 'closed');
  // "noop" is a compressor, too.
  const body = hello.subarray(16);
  assert.equal(await fate(envelope(2013, body.length, 0, body)), 'ok');
});

test('OP_QUERY: hello is answered, the rest refused with 352', async () => {
  const query = (ns, document) => framed(2004, i32(0), Buffer.from(`${ns}\0`), i32(0), i32(-1), BSON.serialize(document));
  const raw = await connect();
  raw.send(query('admin.$cmd', {isMaster: 1}));
  const reply = await raw.reply();
  assert.equal(raw.header.op, 1);
  assert.equal(reply.ismaster, true);
  assert.equal(reply.maxWireVersion, 25);
  raw.send(query('admin.$cmd', {find: 'c'}));
  assert.equal((await raw.reply()).code, 352);
  raw.send(query('test.c', {a: 1}));
  assert.equal((await raw.reply()).code, 352);
  raw.end();
  assert.equal(await fate(framed(2004, i32(0), Buffer.from('no terminator'))), 17);
});

// ---- slow, half-open and vanishing clients

test('a message in single bytes is a message', async () => {
  const raw = await connect();
  for (const byte of hello) raw.send(Buffer.from([byte]));
  assert.equal((await raw.reply()).ok, 1);
  raw.end();
});

test('messages sent at once are answered in order', async () => {
  const raw = await connect();
  const many = Array.from({length: 200}, (_, i) => {
    const message = Buffer.from(hello);
    message.writeInt32LE(1000 + i, 4);
    return message;
  });
  raw.send(Buffer.concat(many));
  for (let i = 0; i < 200; ++i) {
    await raw.reply();
    assert.equal(raw.header.to, 1000 + i);
  }
  raw.end();
});

test('a client that stops inside a message is closed; an idle one is not', async () => {
  const stopped = await connect(), idle = await connect(), announced = await connect();
  stopped.send(hello.subarray(0, 10));
  announced.send(header(48_000_000, 2013));  // and nothing of it
  assert.equal(await stopped.isOver(), true);
  assert.equal(await announced.isOver(), true);
  idle.send(hello);
  assert.equal((await idle.reply()).ok, 1);
  idle.end();
});

test('a client that does not read its replies is closed and holds nobody up', async () => {
  const deaf = await connect();
  deaf.socket.pause();
  const batch = Buffer.concat(Array.from({length: 1000}, () => hello));
  for (let i = 0; i < 60 && !deaf.isClosed; ++i) deaf.send(batch);
  await healthy();
  const lines = server.log.length;
  for (let i = 0; i < 300 && !server.log.slice(lines).some((line) => line.includes('stalled')); ++i)
    await sleep(100);
  deaf.socket.resume();
  assert.equal(await deaf.isOver(), true);
  await healthy();
});

test('clients that vanish in the middle of anything leave nothing behind', async () => {
  const waiting = msg({hello: 1, topologyVersion: {processId: new BSON.ObjectId(), counter: BSON.Long.fromNumber(0)},
                       maxAwaitTimeMS: 60000, $db: 'admin'}, {flags: 1 << 16});
  for (let i = 0; i < 40; ++i) {
    const raw = await connect();
    raw.send(i % 2 ? hello.subarray(0, 5 + i) : waiting);
    if (i % 4 === 0) await raw.reply();
    raw.socket.resetAndDestroy();
  }
  await sleep(2500);
  await healthy();
});

test('over the connection limit new ones are closed, the others served', async () => {
  const open = [];
  for (let i = 0; i < 320; ++i) open.push(await connect());
  await sleep(300);
  const refused = open.filter((raw) => raw.isClosed).length;
  assert.ok(refused >= 15 && refused <= 60, `${refused} refused`);
  const kept = open.find((raw) => !raw.isClosed);
  kept.send(hello);
  assert.equal((await kept.reply()).ok, 1);
  for (const raw of open) raw.end();
  await sleep(200);
  await healthy();
});

// ---- streams

test('hello streams to a client that asks for it', async () => {
  const raw = await connect();
  raw.send(hello);
  const {topologyVersion} = await raw.reply();
  raw.send(msg({hello: 1, topologyVersion: {...topologyVersion, counter: BSON.Long.fromNumber(Number(topologyVersion.counter))},
                maxAwaitTimeMS: 100, $db: 'admin'}, {flags: 1 << 16}));
  let previous = 7;
  for (let i = 0; i < 5; ++i) {
    const begun = Date.now();
    assert.equal((await raw.reply()).ok, 1);
    assert.equal(raw.flags & 2, 2);
    assert.equal(raw.header.to, previous);
    previous = raw.header.id;
    assert.ok(Date.now() - begun < 2000);
  }
  raw.end();
});

// ---- anything at all

test('random damage to good messages never hurts the server', async () => {
  let seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));
  console.log(`seed ${seed}`);
  const random = (n) => { seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff; return (seed >>> 8) % n; };
  const good = [hello, msg({insert: 'c', $db: 'hostile'}, {more: [section1('documents', [{a: 1}, {b: {c: [1, 2]}}])]}),
                msg({find: 'c', filter: {a: {$gt: 1}}, $db: 'hostile'}),
                msg({aggregate: 'c', pipeline: [{$match: {a: 1}}], cursor: {}, $db: 'hostile'}),
                msg({endSessions: [{id: new BSON.UUID()}], $db: 'admin'})];
  for (let round = 0; round < 400; ++round) {
    const bytes = Buffer.from(good[random(good.length)]);
    for (let i = 0; i <= random(4); ++i) bytes[16 + random(bytes.length - 16)] = random(256);
    const raw = await connect();
    raw.send(bytes);
    raw.send(hello);
    const first = await raw.reply();  // whatever it is, there is an answer or an end
    assert.ok(first === null || typeof first.ok === 'number');
    raw.end();
  }
  await healthy();
});
