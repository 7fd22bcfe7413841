// Runs pymongo_test.py with the Python that Debian's PyMongo belongs to.
import assert from 'node:assert/strict';
import {execFile} from 'node:child_process';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {promisify} from 'node:util';

import {Server} from './support/server.mjs';

const script = path.join(path.dirname(fileURLToPath(import.meta.url)), 'pymongo_test.py');
let server;
before(async () => { server = await Server.start(); });
after(async () => assert.equal(await server?.stop(), 0));

test('PyMongo', async () => {
  const {stderr} = await promisify(execFile)('/usr/bin/python3', [script, String(server.port)], {timeout: 120000});
  assert.match(stderr, /^OK$/m);
});
