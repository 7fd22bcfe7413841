// agenda, a job queue: schedules, repeats, locks, failures and retries of jobs, over two processors at once.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {setTimeout as sleep} from 'node:timers/promises';

import {MongoBackend} from '@agendajs/mongo-backend';
import {Agenda} from 'agenda';
import {MongoClient} from 'mongodb';

import {Server} from './support/server.mjs';

let server, client, jobs;
before(async () => {
  server = await Server.start();
  client = await new MongoClient(server.uri).connect();
  jobs = client.db('queue').collection('jobs');
});
after(async () => {
  await client?.close();
  assert.equal(await server?.stop(), 0);
});

const queue = () => new Agenda({backend: new MongoBackend({mongo: client.db('queue'), collection: 'jobs'}),
                                processEvery: 50, defaultConcurrency: 10, maxConcurrency: 20});
const until = async (condition, what) => {
  for (const deadline = Date.now() + 15000; !await condition(); await sleep(20))
    assert.ok(Date.now() < deadline, `waited in vain for ${what}`);
};

test('jobs run once each, with two processors that share the queue', async () => {
  const ran = new Map();
  const queues = [queue(), queue()];
  for (const one of queues) {
    one.define('count', async (job) => {
      const {n} = job.attrs.data;
      await sleep(5);
      ran.set(n, (ran.get(n) ?? 0) + 1);
    });
    await one.start();
  }
  for (let n = 0; n < 40; ++n) await queues[n % 2].now('count', {n});
  await until(async () => await jobs.countDocuments({name: 'count', lastFinishedAt: {$type: 'date'}}) === 40, '40 jobs');
  assert.deepEqual([...ran.values()], Array(40).fill(1));
  assert.equal(ran.size, 40);
  for (const one of queues) await one.stop();
  // What it made its index of, and that the index is used.
  const plan = await jobs.find({name: 'count', disabled: {$ne: true}, lockedAt: null}).explain();
  assert.match(JSON.stringify(plan.queryPlanner.winningPlan), /IXSCAN/);
});

test('schedules, repeats, uniqueness, failures and cancelling', async () => {
  const one = queue();
  let repeats = 0, failures = 0;
  one.define('tick', async () => { ++repeats; });
  one.define('broken', async () => { throw new Error('no luck'); });
  one.define('later', async () => assert.fail('this is for tomorrow'));
  one.on('fail:broken', () => { ++failures; });
  await one.start();
  await one.every(100, 'tick');
  await one.every(100, 'tick');  // the same job, not another one
  await one.schedule('tomorrow at noon', 'later', {for: 'someone'});
  await one.now('broken');
  const unique = (n) => one.create('later', {n}).unique({'data.kind': 'only one'}, {insertOnly: true})
    .schedule(new Date(Date.now() + 1e6)).save();
  await unique(1);
  await until(() => repeats >= 3 && failures === 1, 'three ticks and a failure');
  assert.equal(await jobs.countDocuments({name: 'tick'}), 1);
  const broken = await jobs.findOne({name: 'broken'});
  assert.equal(broken.failReason, 'no luck');
  assert.equal(broken.failCount, 1);
  const later = await one.queryJobs({name: 'later'});
  assert.equal(later.total, 2);
  assert.equal(await one.cancel({name: 'later'}), 2);
  await one.stop();
  assert.equal(await jobs.countDocuments({name: 'later'}), 0);
});
