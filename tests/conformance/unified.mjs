// Driver specification tests (unified test format) against a real server.
//
//   node unified.mjs [--folder crud] [--file REGEX] [--test REGEX] [--json FILE] [--quiet] [--raise-floor]
//
// Ends with 0 where no folder has fewer passes than floor.json says (with a filter: where nothing failed),
// 1 otherwise, 2 at once when the server has crashed or stopped answering, 77 where the tests are absent.
import {readdirSync, readFileSync, statSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {parseArgs} from 'node:util';

import {Server} from '../e2e/support/server.mjs';
import {runCase} from './lib/case.mjs';
import {causeOf} from './lib/causes.mjs';
import {EJSON, mongodb} from './lib/driver.mjs';
import {aboveFloor, raiseFloor, table} from './lib/report.mjs';
import {describeServer} from './lib/requirements.mjs';
import {sharedFolder} from './lib/shared.mjs';

const {values: options} = parseArgs({options: {
  folder: {type: 'string', multiple: true}, file: {type: 'string'}, test: {type: 'string'}, json: {type: 'string'},
  quiet: {type: 'boolean', default: false}, 'raise-floor': {type: 'boolean', default: false}}});
const filtered = options.folder !== undefined || options.file !== undefined || options.test !== undefined;
const kPingMs = 10000;

function jsonFiles(folder) {
  return readdirSync(folder).sort().flatMap((name) => {
    const full = path.join(folder, name);
    if (statSync(full).isDirectory()) return jsonFiles(full);
    return name.endsWith('.json') ? [full] : [];
  });
}

function load(root) {
  const files = [];
  for (const folder of readdirSync(root).sort()) {
    if (options.folder && !options.folder.includes(folder)) continue;
    for (const full of jsonFiles(path.join(root, folder))) {
      const name = path.relative(root, full);
      if (options.file && !new RegExp(options.file).test(name)) continue;
      const content = EJSON.parse(readFileSync(full, 'utf8'), {relaxed: true});
      // Files of other formats (BSON corpus, server discovery) have tests of their own elsewhere.
      if (content.schemaVersion) files.push({folder, name, content});
    }
  }
  return files;
}

function giveUp(server, why) {
  console.log(`${why}\nits data stays in ${server.dbpath}\n--- the server's last words\n${server.log.slice(-30).join('\n')}`);
  server.process.kill('SIGKILL');
  process.exit(2);
}

async function ping(server, admin, after) {
  const late = new Promise((resolve) => setTimeout(resolve, kPingMs, 'late').unref());
  const answer = await Promise.race([admin.db('admin').command({ping: 1}).catch((error) => error), late]);
  if (answer?.ok !== 1)
    giveUp(server, `SERVER LOST after ${after}: ${answer === 'late' ? 'no answer to ping' : answer.message}`);
}

function countIn(counts, folder, why) {
  const folders = counts[why] ??= {};
  folders[folder] = (folders[folder] ?? 0) + 1;
}

function printReasons(title, counts) {
  const sum = (folders) => Object.values(folders).reduce((a, b) => a + b, 0);
  console.log(`\n${title}`);
  for (const [why, folders] of Object.entries(counts).sort((a, b) => sum(b[1]) - sum(a[1])))
    console.log(`${String(sum(folders)).padStart(6)}  ${why}: ${Object.entries(folders).map(([f, n]) => `${f} ${n}`).join(', ')}`);
}

const root = sharedFolder('spec-tests');
const files = load(root);
// What a test leaves behind (a timed out operation, a closed client) must not end the run.
process.on('unhandledRejection', () => {});

const server = await Server.start({args: ['--test-commands']});
let stopping = false;
void server.exited.then(({code, signal}) => {
  if (!stopping) giveUp(server, `SERVER CRASHED: exit code ${code}, signal ${signal}`);
});
const admin = await new mongodb.MongoClient(server.uri).connect();
const description = {...await describeServer(admin), port: server.port};
console.log(`server ${description.version}, ${description.topology}, failCommand ${description.failCommand ? 'yes' : 'no'}`);

const results = [], groups = {}, skips = {}, failures = {};
for (const file of files) {
  for (const test of file.content.tests) {
    if (options.test && !new RegExp(options.test).test(test.description)) continue;
    const started = Date.now();
    const result = await runCase(test, file, description, admin);
    const group = groups[file.folder] ??= {passed: 0, failed: 0, skipped: 0};
    ++group[result.outcome];
    if (result.outcome === 'skipped') countIn(skips, file.folder, result.why);
    if (result.outcome === 'failed') countIn(failures, file.folder, causeOf(result.why, test.operations));
    results.push({file: file.name, test: test.description, ms: Date.now() - started, ...result});
    if (result.outcome === 'failed' && !options.quiet) console.log(`FAIL ${file.name} | ${test.description}\n     ${result.why}`);
    if (result.timedOut) await ping(server, admin, `${file.name} | ${test.description}`);
  }
  await ping(server, admin, file.name);
}
await admin.close();
stopping = true;
const code = await server.stop();
if (code !== 0) giveUp(server, `the server ended with ${code}`);

printReasons('skipped, by reason', skips);
printReasons('failed, by cause', failures);
console.log(`\n${table(groups)}\n`);
if (options.json) writeFileSync(options.json, `${JSON.stringify({groups, results}, null, 1)}\n`);

const total = (key) => Object.values(groups).reduce((sum, group) => sum + group[key], 0);
if (options['raise-floor'] && !filtered) raiseFloor('unified', groups);
const good = filtered ? total('failed') === 0 : aboveFloor('unified', groups);
console.log(`\n${total('passed')} passed, ${total('failed')} failed, ${total('skipped')} skipped`);
process.exit(good ? 0 : 1);
