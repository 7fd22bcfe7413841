// The checker finds what it says it finds, and accepts what snapshot isolation allows.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {findCycle, ListHistory} from './list_history.mjs';

// transactions: {reads: {key: list}, appends: {key: number}, outcome, worker, time: [began, ended]}
function check(final, ...transactions) {
  const history = new ListHistory(() => {});
  transactions.forEach((t, i) => {
    const appends = Object.entries(t.appends ?? {});
    const entry = history.begin(t.worker ?? i);
    Object.assign(entry, {
      appends, outcome: t.outcome ?? 'committed', began: t.time?.[0] ?? 0, ended: t.time?.[1] ?? 100,
      reads: (t.reads ?? []).map(([key, list, before]) => [key, list, before ?? 0])});
  });
  return history.check(new Map(Object.entries(final)));
}
const finds = (pattern, ...rest) => {
  const problems = check(...rest);
  assert.ok(problems.some((text) => pattern.test(text)), `${pattern} is not in ${JSON.stringify(problems)}`);
};

test('good histories', () => {
  assert.deepEqual(check({}), []);
  assert.deepEqual(check({a: [1, 2], b: [3]}, {appends: {a: 1}}, {reads: [['a', [1]], ['b', []]], appends: {a: 2, b: 3}},
                         {reads: [['a', [1, 2]], ['b', [3]]]}, {reads: [['a', [1]], ['b', []]]}), []);
  // Own writes at the end of what is read.
  assert.deepEqual(check({a: [1, 2]}, {appends: {a: 1}}, {appends: {a: 2}, reads: [['a', [1, 2], 1], ['a', [1, 2], 1]]}), []);
  // Write skew is allowed.
  assert.deepEqual(check({a: [1], b: [2]}, {reads: [['b', []]], appends: {a: 1}}, {reads: [['a', []]], appends: {b: 2}}), []);
  // A commit in doubt may have happened or not.
  assert.deepEqual(check({a: [1]}, {appends: {a: 1}, outcome: 'doubt'}, {appends: {a: 2}, outcome: 'doubt'}), []);
  // What a crash took may have been seen by one that could not commit any more.
  assert.deepEqual(check({}, {appends: {a: 1}, outcome: 'doubt'}, {reads: [['a', [1]]], outcome: 'aborted'}), []);
});

test('lost and doubled appends', () => {
  finds(/lost: 1/, {a: []}, {appends: {a: 1}});
  finds(/appended twice/, {a: [1, 1]}, {appends: {a: 1}});
  finds(/never appended/, {a: [7]});
  finds(/half a transaction/, {a: [1], b: []}, {appends: {a: 1, b: 2}, outcome: 'doubt'});
});

test('dirty reads', () => {
  finds(/of an aborted transaction is in list/, {a: [1]}, {appends: {a: 1}, outcome: 'aborted'});
  finds(/dirty read/, {a: []}, {appends: {a: 1}, outcome: 'aborted'}, {reads: [['a', [1]]]});
  finds(/dirty read/, {a: []}, {appends: {a: 1}, outcome: 'aborted'}, {reads: [['a', [1]]], outcome: 'aborted'});
  finds(/dirty read/, {a: []}, {appends: {a: 1}, outcome: 'doubt'}, {reads: [['a', [1]]]});
});

test('reads that do not repeat, are fractured, stale, or no prefix', () => {
  finds(/changed between/, {a: [1]}, {appends: {a: 1}}, {reads: [['a', []], ['a', [1]]]});
  finds(/fractured/, {a: [1], b: [2]}, {appends: {a: 1, b: 2}}, {reads: [['a', [1]], ['b', []]]});
  finds(/stale/, {a: [1]}, {appends: {a: 1}, time: [0, 5]}, {reads: [['a', []]], time: [6, 7]});
  finds(/stale/, {a: [1, 2]}, {appends: {a: 1}, time: [0, 5]}, {appends: {a: 2}, time: [0, 50]},
        {reads: [['a', []]], time: [6, 7], outcome: 'aborted'});
  finds(/read as 2/, {a: [1, 2]}, {appends: {a: 1}}, {appends: {a: 2}}, {reads: [['a', [2]]]});
  finds(/own writes/, {a: [1]}, {appends: {a: 1}, reads: [['a', [], 1]]});
});

test('lost updates', () => {
  finds(/lost update/, {a: [1, 2]}, {appends: {a: 1}}, {reads: [['a', []]], appends: {a: 2}});
});

test('cycles: a snapshot that is none of any moment', () => {
  // Two readers see two independent writers in opposite orders.
  finds(/cycle of/, {a: [1], b: [2]}, {appends: {a: 1}}, {appends: {b: 2}}, {reads: [['a', [1]], ['b', []]]},
        {reads: [['a', []], ['b', [2]]]});
  // A worker's second transaction does not see its first.
  finds(/cycle of/, {a: [1]}, {appends: {a: 1}, worker: 1}, {reads: [['a', []]], worker: 1});
  const edges = new Map([[1, [2]], [2, [3]], [3, [2, 4]], [4, []]].map(([n, to]) => [n, new Set(to)]));
  assert.deepEqual(findCycle(edges).sort(), [2, 3]);
  edges.get(3).delete(2);
  assert.equal(findCycle(edges), null);
});
