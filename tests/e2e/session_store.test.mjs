// connect-mongo, express-session's store: what a web server keeps of its visitors, with their expiry.
import assert from 'node:assert/strict';
import {createServer} from 'node:http';
import {after, before, test} from 'node:test';
import {promisify} from 'node:util';

import MongoStore from 'connect-mongo';
import session from 'express-session';
import {MongoClient} from 'mongodb';

import {Server} from './support/server.mjs';

let server, client, store, web, address;
before(async () => {
  server = await Server.start();
  client = await new MongoClient(server.uri).connect();
  store = MongoStore.create({client, dbName: 'web', collectionName: 'sessions', ttl: 600, touchAfter: 1});
  const visits = session({secret: 'only for this test', resave: false, saveUninitialized: false, store});
  web = createServer((request, response) => visits(request, response, () => {
    if (request.url === '/leave')
      return request.session.destroy((error) => response.end(String(error ?? 'bye')));
    request.session.visits = (request.session.visits ?? 0) + 1;
    response.end(String(request.session.visits));
  }));
  await promisify(web.listen).call(web, 0, '127.0.0.1');
  address = `http://127.0.0.1:${web.address().port}`;
});
after(async () => {
  web?.closeAllConnections();
  web?.close();
  await store?.close();
  await client?.close();
  assert.equal(await server?.stop(), 0);
});

class Visitor {
  async get(path = '/') {
    const response = await fetch(address + path, {headers: this.cookie ? {cookie: this.cookie} : {}});
    this.cookie = response.headers.get('set-cookie')?.split(';')[0] ?? this.cookie;
    return response.text();
  }
}

test('visitors are told apart, counted and forgotten', async () => {
  const visitors = Array.from({length: 8}, () => new Visitor());
  for (let round = 1; round <= 3; ++round)
    assert.deepEqual(await Promise.all(visitors.map((v) => v.get())), visitors.map(() => String(round)));
  assert.equal(await promisify(store.length).call(store), 8);
  assert.equal(await visitors[0].get('/leave'), 'bye');
  assert.equal(await visitors[0].get(), '1');
  const all = await promisify(store.all).call(store);
  assert.deepEqual(all.map((s) => s.visits).sort(), [1, 3, 3, 3, 3, 3, 3, 3]);
  await promisify(store.clear).call(store);
  assert.equal(await visitors[1].get(), '1');
});

test('the index that lets sessions expire is there, and they are found only before', async () => {
  const sessions = client.db('web').collection('sessions');
  const indexes = await sessions.indexes();
  assert.ok(indexes.some((i) => i.key.expires === 1 && i.expireAfterSeconds === 0));
  const visitor = new Visitor();
  await visitor.get();
  await sessions.updateMany({}, {$set: {expires: new Date(Date.now() - 1000)}});
  assert.equal(await visitor.get(), '1');
});
