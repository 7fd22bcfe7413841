// Starts, stops and kills a server for a test. The binary is $MULTIFORADB, or the release build's.
import {spawn} from 'node:child_process';
import {existsSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {createInterface} from 'node:readline';
import {fileURLToPath} from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
export const binary = process.env.MULTIFORADB ?? path.join(root, 'build/release/bin/multiforadb');
const readyWithinMs = Number(process.env.MULTIFORADB_READY_MS ?? 60000);

const kStopMs = readyWithinMs;
const running = new Set();
// Whatever ends this process, no server stays behind.
process.on('exit', () => { for (const server of running) server.process.kill('SIGKILL'); });
for (const [signal, code] of [['SIGINT', 130], ['SIGTERM', 143], ['SIGHUP', 129]])
  process.once(signal, () => process.exit(code));

export class Server {
  // dbpath: kept by the caller; without one a temporary directory that stop() removes.
  // logFile: where the configuration in `args` sends the log, standard output otherwise.
  // wrap: a program and its first arguments that start the server, e.g. a shell that sets limits.
  static async start({dbpath, args = [], port = 0, logFile, wrap = []} = {}) {
    if (!existsSync(binary)) throw new Error(`${binary} does not exist; run scripts/build first`);
    const server = new Server();
    server.ownsPath = dbpath === undefined;
    server.dbpath = dbpath ?? mkdtempSync(path.join(tmpdir(), 'multifora-e2e-'));
    server.log = [];
    const [program, ...first] = [...wrap, binary];
    server.process = spawn(program, [...first, '--port', String(port), '--dbpath', server.dbpath, ...args],
                           {stdio: ['ignore', 'pipe', 'pipe']});
    server.exited = new Promise((resolve) => {
      server.process.on('exit', (code, signal) => { running.delete(server); resolve({code, signal}); });
    });
    running.add(server);
    server.process.stderr.setEncoding('utf8').on('data', (text) => server.log.push(text));
    const ready = logFile ? readyInFile(logFile) : new Promise((resolve) => {
      createInterface({input: server.process.stdout}).on('line', (line) => {
        server.log.push(line);
        const event = parse(line);
        if (event?.port !== undefined && /ready/i.test(line)) resolve(event);
      });
    });
    const timer = new Promise((resolve) => setTimeout(resolve, readyWithinMs, 'late').unref());
    const event = await Promise.race([ready, server.exited, timer]);
    if (event === 'late' || event.port === undefined)
      throw new Error(`the server did not start: ${JSON.stringify(event)}\n${server.log.join('\n')}`);
    server.ready = event;
    server.port = event.port;
    server.uri = `mongodb://127.0.0.1:${server.port}/?directConnection=true`;
    return server;
  }

  // Graceful; returns the exit code. One that does not end in time is killed, and that is an error.
  async stop() {
    this.process.kill('SIGTERM');
    const late = setTimeout(() => {
      this.log.push(`not ended ${kStopMs} ms after SIGTERM`);
      this.process.kill('SIGKILL');
    }, kStopMs);
    const {code, signal} = await this.exited;
    clearTimeout(late);
    if (this.ownsPath) rmSync(this.dbpath, {recursive: true, force: true});
    if (signal) throw new Error(`the server died of ${signal}\n${this.log.slice(-20).join('\n')}`);
    return code;
  }

  async kill9() {
    this.process.kill('SIGKILL');
    return this.exited;
  }
}

async function readyInFile(file) {
  for (const deadline = Date.now() + readyWithinMs; Date.now() < deadline;) {
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
    const ready = lines.filter((line) => /ready/i.test(line)).map(parse).find((event) => event?.port !== undefined);
    if (ready) return ready;
    await new Promise((next) => setTimeout(next, 20));
  }
  return 'late';
}

function parse(line) {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}
