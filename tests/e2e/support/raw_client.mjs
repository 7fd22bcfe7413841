// A client without a driver: what is said is sent, byte for byte, and nothing is added to it (no session, no
// cluster time, no concern, no retry). One socket, one request after the other.
import net from 'node:net';
import {setTimeout as sleep} from 'node:timers/promises';

import {BSON} from 'mongodb';

const open = new Set();

export class RawClient {
  static async connect(port) {
    const raw = new RawClient();
    raw.socket = net.connect({port, host: '127.0.0.1', noDelay: true});
    raw.received = Buffer.alloc(0);
    raw.closed = new Promise((resolve) => raw.socket.on('close', () => {
      open.delete(raw);
      raw.isClosed = true;
      resolve(true);
      raw.wake?.();
    }));
    raw.socket.on('error', () => {});
    raw.socket.on('data', (data) => { raw.received = Buffer.concat([raw.received, data]); raw.wake?.(); });
    open.add(raw);
    await new Promise((resolve, reject) => raw.socket.once('connect', resolve).once('error', reject));
    return raw;
  }

  send(bytes) { this.socket.write(bytes); }

  // The next reply's document, or null where the connection was closed.
  async reply(withinMs = 10000, options = {}) {
    const until = Date.now() + withinMs;
    for (;;) {
      const length = this.received.length >= 4 ? this.received.readInt32LE(0) : Infinity;
      if (this.received.length >= length) {
        const message = this.received.subarray(0, length);
        this.received = this.received.subarray(length);
        this.header = {id: message.readInt32LE(4), to: message.readInt32LE(8), op: message.readInt32LE(12)};
        this.flags = message.readUInt32LE(16);
        const end = this.header.op === 2013 && this.flags & 1 ? length - 4 : length;  // a checksum
        return BSON.deserialize(message.subarray(this.header.op === 1 ? 36 : 21, end), options);
      }
      if (this.isClosed) return null;
      if (Date.now() > until) throw new Error('no reply and no end');
      await Promise.race([new Promise((resolve) => { this.wake = resolve; }), sleep(Math.max(1, until - Date.now()))]);
    }
  }

  // A command and its reply. One that says ok: 0, or that has write errors, is thrown as a CommandError.
  async command(dbName, document, withinMs = 10000) {
    this.send(msg({...document, $db: dbName}));
    const reply = await this.reply(withinMs, {promoteLongs: true});
    if (reply === null) throw new Error(`the connection was closed during ${Object.keys(document)[0]}`);
    if (reply.ok !== 1) throw new CommandError(reply);
    if (reply.writeErrors) throw new CommandError({...reply.writeErrors[0], writeErrors: reply.writeErrors});
    return reply;
  }

  async isOver(withinMs = 10000) { return Promise.race([this.closed, sleep(withinMs, false, {ref: false})]); }

  end() { this.socket.destroy(); }

  // All that are still open, so that a test that failed half way does not keep its process alive.
  static endAll() { for (const raw of open) raw.end(); }
}

export class CommandError extends Error {
  constructor(reply) {
    super(reply.errmsg);
    Object.assign(this, {code: reply.code, codeName: reply.codeName, errorLabels: reply.errorLabels ?? [], reply});
  }
}

export const u32 = (value) => { const b = Buffer.alloc(4); b.writeUInt32LE(value >>> 0); return b; };
export const i32 = (value) => { const b = Buffer.alloc(4); b.writeInt32LE(value); return b; };
export const header = (length, op, id = 7) => Buffer.concat([i32(length), i32(id), i32(0), i32(op)]);
export const framed = (op, ...parts) => {
  const body = Buffer.concat(parts);
  return Buffer.concat([header(16 + body.length, op), body]);
};
export const section0 = (document) => Buffer.concat([Buffer.from([0]), BSON.serialize(document)]);
export const section1 = (name, documents, size) => {
  const content = Buffer.concat([Buffer.from(`${name}\0`), ...documents.map((d) => BSON.serialize(d))]);
  return Buffer.concat([Buffer.from([1]), i32(size ?? content.length + 4), content]);
};
// An OP_MSG. `more` are further sections, already encoded.
export const msg = (document, {flags = 0, more = []} = {}) => framed(2013, u32(flags), section0(document), ...more);
