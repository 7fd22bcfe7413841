// The history of transactions over lists that only grow, and what snapshot isolation says about it.
//
// Each transaction is {worker, began, ended, reads: [[key, list, appends before it]], appends: [[key, number]],
// single, outcome}; outcome 'doubt' means that the connection was lost during the commit: it counts as committed
// where one of its numbers is there, and then all must be. Given the final lists, these are found:
//
//   lost          an acknowledged append is missing, or there twice
//   dirty read    a list that was read has a number of a transaction that aborted, or that never was
//   half          only a part of a transaction is there
//   no prefix     a committed transaction read a list that is no prefix of the final one
//   not repeated  a list changed between two reads of a transaction, but for its own appends
//   own writes    which must be at the end of what it reads
//   fractured     a transaction sees some appends of another one and not all
//   stale         it does not see what was acknowledged before it began
//   lost update   of two transactions that append to a key, the later did not see the earlier's
//   cycle         the dependencies (write-write, write-read, and the order of one worker's transactions, each
//                 followed by at most one anti-dependency) have a cycle: what snapshot isolation forbids and
//                 the direct checks do not see. Write skew is two anti-dependencies in a row: no such cycle.
export class ListHistory {
  constructor(report) {
    this.report = report;
    this.transactions = [];
  }

  begin(worker) {
    const entry = {worker, began: performance.now(), ended: Infinity, reads: [], appends: [], single: false, outcome: 'aborted'};
    this.transactions.push(entry);
    return entry;
  }

  // `final`: key -> list.
  check(final) {
    const before = this.problems = [];
    this.final = final;
    this.place = new Map();  // number -> [key, index]
    this.owner = new Map();  // number -> transaction
    for (const t of this.transactions) for (const [, number] of t.appends) this.owner.set(number, t);
    for (const [key, list] of final) list.forEach((number, index) => {
      if (!this.owner.has(number)) this.problem(`${number} in list ${key} was never appended`);
      if (this.place.has(number)) this.problem(`${number} was appended twice`);
      this.place.set(number, [key, index]);
    });
    for (const t of this.transactions) this.settle(t);
    for (const t of this.transactions) this.checkReads(t);
    if (this.problems.length === 0) this.checkCycles();
    return before;
  }

  problem(text) {
    this.problems.push(text);
    this.report(text);
  }

  settle(t) {
    if (t.outcome === 'doubt') {
      const there = t.appends.filter(([, number]) => this.place.has(number)).length;
      if (there !== 0 && there !== t.appends.length) this.problem(`half a transaction is there: ${JSON.stringify(t.appends)}`);
      t.doubted = true;
      t.outcome = there > 0 || t.appends.length === 0 ? 'committed' : 'aborted';
      t.ended = Infinity;
    }
    for (const [key, number] of t.appends) {
      if (t.outcome === 'committed' && !this.place.has(number)) this.problem(`lost: ${number}, appended to ${key}`);
      if (t.outcome === 'aborted' && this.place.has(number)) this.problem(`${number} of an aborted transaction is in list ${key}`);
    }
  }

  // The snapshot's part of what was read of each key: its length. What a crash took may have been seen by
  // transactions that could not commit any more, and by no other.
  snapshotOf(t) {
    const seen = new Map();
    for (const [key, list, appendsBefore] of t.reads) {
      const mine = t.appends.slice(0, appendsBefore).filter(([k]) => k === key).map(([, number]) => number);
      const tail = list.slice(list.length - mine.length);
      if (JSON.stringify(tail) !== JSON.stringify(mine)) this.problem(`own writes ${mine} are not at the end of ${list}`);
      const snapshot = list.slice(0, list.length - mine.length);
      const whole = this.final.get(key) ?? [];
      const wrong = snapshot.findIndex((number, i) => whole[i] !== number);
      if (wrong >= 0) {
        const writer = this.owner.get(snapshot[wrong]);
        if (t.outcome === 'aborted' && writer?.doubted && writer.outcome === 'aborted') return null;
        this.problem(writer?.outcome === 'aborted' ? `dirty read: ${snapshot[wrong]} of an aborted transaction in list ${key}`
                                                   : `list ${key} read as ${snapshot}, is ${whole}`);
        return null;
      }
      if (seen.has(key) && seen.get(key) !== snapshot.length)
        this.problem(`list ${key} changed between two reads of a transaction`);
      seen.set(key, snapshot.length);
    }
    return seen;
  }

  checkReads(t) {
    t.seen = this.snapshotOf(t) ?? new Map();
    for (const [key, length] of t.seen) {
      const whole = this.final.get(key) ?? [];
      // Appends are acknowledged in no particular order, so all that follow are looked at, from the end.
      for (let i = whole.length - 1; i >= length; --i)
        if (this.owner.get(whole[i]).ended < t.began) {
          this.problem(`stale: list ${key} was read with ${length} entries, ${whole[i]}, its entry ${i}, was acknowledged before`);
          break;
        }
      // What is in one list's snapshot must be in the others'. What is older than the newest of each writer
      // was checked with that writer's neighbours.
      for (let i = 0; i < length; ++i)
        for (const [otherKey, otherNumber] of this.owner.get(whole[i]).appends)
          if (t.seen.has(otherKey) && this.place.get(otherNumber)[1] >= t.seen.get(otherKey))
            this.problem(`fractured read: ${whole[i]} of list ${key} was seen, ${otherNumber} of ${otherKey} was not`);
    }
    if (t.outcome !== 'committed') return;
    const first = new Map();
    for (const [key, number] of t.appends) if (!first.has(key)) first.set(key, number);
    for (const [key, number] of first)
      if (t.seen.has(key) && this.place.get(number)[1] !== t.seen.get(key))
        this.problem(`lost update: list ${key} was read with ${t.seen.get(key)} entries, the append became entry ` +
                     `${this.place.get(number)[1]}`);
  }

  checkCycles() {
    const committed = this.transactions.filter((t) => t.outcome === 'committed');
    const depends = new Map(committed.map((t) => [t, new Set()]));  // ww, wr, order of a worker
    const anti = new Map(committed.map((t) => [t, new Set()]));
    const add = (edges, from, to) => { if (from !== undefined && from !== to) edges.get(from).add(to); };
    for (const list of this.final.values())
      for (let i = 1; i < list.length; ++i) add(depends, this.owner.get(list[i - 1]), this.owner.get(list[i]));
    const last = new Map();
    for (const t of committed) {
      add(depends, last.get(t.worker), t);
      last.set(t.worker, t);
      for (const [key, length] of t.seen) {
        const whole = this.final.get(key) ?? [];
        if (length > 0) add(depends, this.owner.get(whole[length - 1]), t);
        // The next version that is not its own.
        const next = whole.slice(length).find((number) => this.owner.get(number) !== t);
        if (next !== undefined) add(anti, t, this.owner.get(next));
      }
    }
    const edges = new Map();
    for (const [t, others] of depends) {
      const all = new Set(others);
      for (const other of others) for (const after of anti.get(other)) all.add(after);
      edges.set(t, all);
    }
    const cycle = findCycle(edges);
    if (cycle !== null)
      this.problem(`cycle of ${cycle.length} transactions: ${cycle.map((t) => JSON.stringify([t.reads, t.appends])).join(' -> ')}`);
  }
}

// A cycle's nodes, or null. Takes away what nothing leads to; what is left has one.
export function findCycle(edges) {
  const incoming = new Map([...edges.keys()].map((node) => [node, 0]));
  for (const others of edges.values()) for (const other of others) incoming.set(other, incoming.get(other) + 1);
  const free = [...incoming].filter(([, n]) => n === 0).map(([node]) => node);
  let left = incoming.size;
  while (free.length > 0) {
    const node = free.pop();
    --left;
    incoming.set(node, -1);
    for (const other of edges.get(node)) {
      incoming.set(other, incoming.get(other) - 1);
      if (incoming.get(other) === 0) free.push(other);
    }
  }
  if (left === 0) return null;
  // Every remaining node has a predecessor that remains: backwards until one comes again.
  const before = new Map();
  for (const [node, others] of edges)
    if (incoming.get(node) > 0) for (const other of others) if (incoming.get(other) > 0) before.set(other, node);
  const path = [];
  let node = before.keys().next().value;
  while (!path.includes(node)) {
    path.push(node);
    node = before.get(node);
  }
  return path.slice(path.indexOf(node)).reverse();
}
