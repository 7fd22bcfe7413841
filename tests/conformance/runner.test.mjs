// The runner itself: what must match, what must not. No server.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {bson, mongodb} from './lib/driver.mjs';
import {checkError} from './lib/errors.mjs';
import {checkEvents, Events} from './lib/events.mjs';
import {Matcher, Mismatch} from './lib/match.mjs';
import {unmet, usesFailPoint} from './lib/requirements.mjs';

const entities = {get: (id) => ({saved: {a: 1}})[id], lsid: () => ({id: 7})};
const matcher = new Matcher(entities);
const yes = (actual, expected, how) => assert.doesNotThrow(() => matcher.match(actual, expected, how));
const no = (actual, expected, how) => assert.throws(() => matcher.match(actual, expected, how), Mismatch);

test('numbers by value, everything else by type and value', () => {
  yes(bson.Long.fromNumber(5), 5);
  yes(new bson.Double(5), bson.Long.fromNumber(5));
  no(5, 6);
  no('5', 5);
  no(null, 0);
  no(undefined, null);
  yes(new Date(3), new Date(3));
  no(new Date(3), new Date(4));
  yes(new bson.ObjectId('000000000000000000000001'), new bson.ObjectId('000000000000000000000001'));
  no(true, 1);
});

test('more fields are allowed at the root only', () => {
  yes({a: 1, b: 2}, {a: 1});
  no({a: {b: 1, c: 2}}, {a: {b: 1}});
  yes([{a: 1, b: 2}], [{a: 1}]);
  no([{a: 1, b: 2}], [{a: 1}], {root: false});
  no([1, 2], [1]);
  no({}, {a: null});
});

test('special operators', () => {
  yes({a: 0}, {a: {$$exists: true}});
  no({a: null}, {a: {$$exists: false}});
  no({}, {a: {$$exists: true}});
  yes({}, {a: {$$unsetOrMatches: 1}});
  no({a: 2}, {a: {$$unsetOrMatches: 1}});
  yes({a: 'x'}, {a: {$$type: ['int', 'string']}});
  no({a: 'x'}, {a: {$$type: 'int'}});
  no({}, {a: {$$type: 'int'}});
  yes({a: {a: 1}}, {a: {$$matchesEntity: 'saved'}});
  no({a: {a: 2}}, {a: {$$matchesEntity: 'saved'}});
  yes({lsid: {id: 7}}, {lsid: {$$sessionLsid: 's'}});
  no({lsid: {id: 8}}, {lsid: {$$sessionLsid: 's'}});
  yes(Buffer.from('11ff', 'hex'), {$$matchesHexBytes: '11FF'});
  no(Buffer.from('11', 'hex'), {$$matchesHexBytes: '12'});
  yes({a: 3}, {a: {$$lte: 3}});
  no({a: 4}, {a: {$$lte: 3}});
  yes({a: '{"b": 1, "c": 2}'}, {a: {$$matchAsDocument: {$$matchAsRoot: {b: 1}}}});
  no({a: '{"b": 1, "c": 2}'}, {a: {$$matchAsDocument: {b: 1}}});
  assert.throws(() => matcher.match(1, {$$unheardOf: 1}), mongodb.MongoAPIError);
});

test('errors', () => {
  const error = new mongodb.MongoServerError({message: 'E11000 Duplicate', code: 11000, codeName: 'DuplicateKey',
                                              errorLabels: ['Again']});
  const good = (expected) => assert.doesNotThrow(() => checkError(error, expected, matcher));
  const bad = (expected) => assert.throws(() => checkError(error, expected, matcher), Mismatch);
  good({isError: true, isClientError: false, errorCode: 11000, errorCodeName: 'DuplicateKey', errorContains: 'duplicate',
        errorLabelsContain: ['Again'], errorLabelsOmit: ['Never']});
  bad({isClientError: true});
  bad({errorCode: 1});
  bad({errorCodeName: 'X'});
  bad({errorContains: 'other'});
  bad({errorLabelsContain: ['Never']});
  bad({errorLabelsOmit: ['Again']});
});

test('events: order, number and content', () => {
  const events = new Events({ignoreCommandMonitoringEvents: ['killCursors']});
  for (const commandName of ['find', 'killCursors', 'getMore', 'saslStart'])
    events.command('commandStartedEvent', {commandName, databaseName: 'd', command: {[commandName]: 'c', gone: undefined}});
  const known = {events: () => events, observes: () => true};
  const check = (names, extra) => checkEvents([{client: 'c', ...extra,
    events: names.map((commandName) => ({commandStartedEvent: {commandName, command: {gone: {$$exists: false}}}}))}],
    known, matcher);
  check(['find', 'getMore']);
  check(['find'], {ignoreExtraEvents: true});
  assert.throws(() => check(['find']), Mismatch);
  assert.throws(() => check(['getMore', 'find']), Mismatch);
  assert.throws(() => check(['find', 'getMore', 'find']), Mismatch);
});

test('requirements', () => {
  const server = {version: '8.0.0', topology: 'replicaset', parameters: {x: true}};
  const met = (...needs) => assert.equal(unmet(needs, server), null);
  const missing = (...needs) => assert.match(unmet(needs, server), /^needs /);
  met();
  met({minServerVersion: '3.6', maxServerVersion: '8.0'}, {topologies: ['sharded']});
  met({auth: false, serverless: 'forbid', serverParameters: {x: true}});
  missing({minServerVersion: '8.0.1'});
  missing({maxServerVersion: '7.99'});
  missing({topologies: ['single', 'sharded']});
  missing({auth: true});
  missing({serverParameters: {x: false}});
  assert.ok(usesFailPoint([{name: 'withTransaction', arguments: {callback: [{name: 'targetedFailPoint'}]}}]));
  assert.ok(!usesFailPoint([{name: 'find', arguments: {}}]));
});
