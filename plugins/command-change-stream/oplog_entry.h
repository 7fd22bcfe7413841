// One change, or one transaction, in the shape of MongoDB's oplog entries: {lsid, txnNumber, op, ns, ui, o,
// o2, stmtId, ts, t, v, wall}; updates as {$v: 2, diff: {...}}; transactions as one applyOps.
#pragma once

#include <vector>

#include "plugins/command-change-stream/events.h"

namespace multifora::change_stream {

struct OplogEntry {
  std::uint64_t time = 0;
  OwnedDocument document;
};

// The entries of a batch, in order. An entry that would be larger than a document may be tells that it
// is: {op: "n", o: {msg: ...}}.
Result<std::vector<OplogEntry>> oplog_entries(const ChangeBatch& batch);
// {u: ..., d: ..., i: ..., s<field>: ...} of a difference.
Result<OwnedDocument> oplog_diff(Bytes patch);

}  // namespace multifora::change_stream
