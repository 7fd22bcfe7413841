// A getMore that waits for data ends at once when its cursor or its operation is killed.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {setTimeout as sleep} from 'node:timers/promises';

import {MongoClient} from 'mongodb';

import {RawClient} from './support/raw_client.mjs';
import {Server} from './support/server.mjs';

let server, client, bare, db;
before(async () => {
  server = await Server.start();
  client = await new MongoClient(server.uri).connect();
  bare = await RawClient.connect(server.port);
  db = client.db('waiting');
  await db.createCollection('capped', {capped: true, size: 4096});
  await db.collection('capped').insertOne({_id: 1});
});
after(async () => {
  RawClient.endAll();
  await client?.close();
  assert.equal(await server?.stop(), 0);
});

const kCursors = {
  'a tailable cursor': {find: 'capped', tailable: true, awaitData: true},
  'a change stream': {aggregate: 'capped', pipeline: [{$changeStream: {}}], cursor: {}},
};

// The error of a getMore that would wait for 30 s, and how long it took; `kill` gets its cursor's id.
async function waiting(open, kill) {
  const id = (await bare.command('waiting', open)).cursor.id;
  const started = Date.now();
  const reply = bare.command('waiting', {getMore: id, collection: 'capped', maxTimeMS: 30000})
      .catch((error) => error);
  await sleep(300);
  await kill(id);
  const {code} = await reply;
  return {code, took: Date.now() - started};
}

for (const [name, open] of Object.entries(kCursors)) {
  test(`killCursors wakes ${name}`, async () => {
    const {code, took} = await waiting(open, async (id) => {
      const reply = await db.command({killCursors: 'capped', cursors: [id]});
      assert.equal(reply.cursorsKilled.length, 1);
    });
    assert.equal(code, 237);
    assert.ok(took < 5000, `${took} ms`);
  });

  test(`killOp wakes ${name}`, async () => {
    const {code, took} = await waiting(open, async () => {
      const running = await client.db('admin').aggregate(
          [{$currentOp: {}}, {$match: {'command.getMore': {$exists: true}, 'command.collection': 'capped'}}]).toArray();
      assert.equal(running.length, 1);
      await client.db('admin').command({killOp: 1, op: running[0].opid});
    });
    assert.equal(code, 11601);
    assert.ok(took < 5000, `${took} ms`);
  });
}
