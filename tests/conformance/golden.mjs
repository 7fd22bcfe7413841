// Recorded requests and replies ("golden" cases), replayed by their own runner against a server of ours.
//
//   node golden.mjs [--json FILE] [--raise-floor] [-- RUNNER-OPTIONS]
//
// Ends with 0 where no group has fewer passes than floor.json says, 1 otherwise, 2 when the server has crashed,
// 77 where the cases are absent. With options for the runner (say, --group update) floors are not compared.
// Cases that believed_wrong.json names (with the reason) count as passed where they fail, and are counted apart.
import {spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {parseArgs} from 'node:util';

import {Server} from '../e2e/support/server.mjs';
import {aboveFloor, raiseFloor} from './lib/report.mjs';
import {sharedFolder} from './lib/shared.mjs';

const {values: options, positionals: extra} = parseArgs({allowPositionals: true, options: {
  json: {type: 'string'}, 'raise-floor': {type: 'boolean', default: false}}});

function replay(folder, server, json) {
  const args = [path.join(folder, 'run.mjs'), '--uri', `mongodb://127.0.0.1:${server.port}`, '--json', json, ...extra];
  const runner = spawn(process.execPath, args, {stdio: 'inherit'});
  return new Promise((resolve) => runner.on('exit', resolve));
}

function believedWrong() {
  const file = new URL('./believed_wrong.json', import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')).flatMap((reason) => reason.cases);
}

const folder = sharedFolder('golden');
const scratch = mkdtempSync(path.join(tmpdir(), 'multifora-golden-'));
const json = options.json ?? path.join(scratch, 'results.json');
const server = await Server.start();
const outcome = await Promise.race([replay(folder, server, json), server.exited]);
if (typeof outcome === 'object' && outcome !== null) {
  console.log(`SERVER CRASHED: exit code ${outcome.code}, signal ${outcome.signal}\n${server.log.slice(-30).join('\n')}`);
  process.exit(2);
}
const code = await server.stop();
const {groups, results} = JSON.parse(readFileSync(json, 'utf8'));
rmSync(scratch, {recursive: true, force: true});

const wrong = new Set(believedWrong());
const excused = results.filter((result) => !result.passed && wrong.has(result.id));
for (const {id} of excused) {
  const group = groups[id.split('/')[0]];
  group.passed += 1;
  group.failed -= 1;
}
const lost = results.filter((result) => result.lost);
for (const {id, why} of lost) console.log(`CONNECTION LOST in ${id}: ${why}`);
if (options['raise-floor'] && extra.length === 0) raiseFloor('golden', groups);
const good = extra.length > 0 ? true : aboveFloor('golden', groups);
const total = (key) => Object.values(groups).reduce((sum, group) => sum + group[key], 0);
console.log(`\n${excused.length} believed wrong (believed_wrong.json), counted as passed`);
console.log(`\n${total('passed')} passed, ${total('failed')} failed, 0 skipped`);
process.exit(lost.length > 0 || code !== 0 ? 2 : good ? 0 : 1);
