"""The rows: what is asked of each side, what is compared, and the goals."""
import json
import re


class Row:
    """command: for the wire, extended JSON (bench_query). load: arguments of bench_load instead. peer: row and
    arguments of bench_peer_*. value: the figure that is compared. floor: what the null server is asked in its
    place ("document"; "bytes": a reply as long; "same"). answer_offset: what the wire's answer has beyond a peer's.
    goals: (side, "<=" or ">=", ratio of MultiforaDB to that side)."""

    def __init__(self, name, title, value="p50_us", command=None, load=None, peer=None, floor=None, goals=(),
                 answer_offset=(0, 0), without=(), inserts=False, sets=None, needs_index=False):
        self.name, self.title, self.value = name, title, value
        # "@half": half of the documents, "@half65" 65 more; filled in by the side.
        self.command = re.sub(r'"(@half(65)?)"', r"\1", json.dumps(command)) if command is not None else None
        self.load, self.peer, self.floor, self.goals = load, peer, floor, goals
        self.answer_offset, self.without, self.inserts, self.sets = answer_offset, without, inserts, sets
        self.needs_index = needs_index
        self.reply_bytes = 0

    @property
    def lower_is_better(self):
        return self.value.endswith("_us")

    @property
    def unit(self):
        return {"p50_us": "us, p50", "docs_per_s": "documents/s", "mb_per_s": "MB/s", "requests_per_s": "requests/s"}[self.value]


def _count(match, hint=None):
    return {"aggregate": "c", "pipeline": [*([{"$match": match}] if match else []), {"$group": {"_id": 1, "n": {"$sum": 1}}}],
            "cursor": {}, **({"hint": hint} if hint else {})}


_BAND = {"k": {"$gte": 100, "$lt": 200}}
_COUNTED = (8, 8)  # in each of the 8 rounds whose answers are compared, one document {_id: 1, n}


def read_rows():
    find = {"find": "c"}
    one = {"limit": 1, "singleBatch": True}
    rows = [
        Row("ping", "ping", command={"ping": 1}, floor="document"),
        Row("count_scan", "countDocuments {k: range}, no index", command=_count(_BAND, {"$natural": 1}),
            peer=["count_scan"], answer_offset=_COUNTED, goals=[("ideal", "<=", 3), ("lmdb", "<=", 0.3)]),
        Row("group", "$group by k, count", command={"aggregate": "c", "pipeline": [
            {"$group": {"_id": "$k", "n": {"$sum": 1}}}], "cursor": {"batchSize": 2000}}, peer=["group"],
            goals=[("ideal", "<=", 4), ("lmdb", "<=", 0.4)]),
        Row("regex", "countDocuments {text: /lantern quarry/}", peer=["regex"], answer_offset=_COUNTED,
            command=_count({"text": {"$regex": "lantern quarry"}})),
        Row("count_all", "countDocuments {}", command=_count(None), peer=["count_all"], answer_offset=_COUNTED),
        Row("get", "findOne by _id", command={**find, "filter": {"_id": "@id"}, **one}, peer=["get"], floor="document",
            goals=[("null", "<=", 1.3)]),
        Row("get_batch", "findOne by _id, with batchSize", peer=["get"], floor="document", goals=[("null", "<=", 1.3)],
            command={**find, "filter": {"_id": "@id"}, "limit": 1, "batchSize": 101}),
        Row("range", "1,000 documents from the middle by _id", peer=["range"], floor="bytes",
            command={**find, "filter": {"_id": {"$gte": "@half"}}, "sort": {"_id": 1}, "limit": 1000}),
        Row("newest", "sort {_id: -1}, limit 20", command={**find, "sort": {"_id": -1}, "limit": 20}, peer=["newest"],
            floor="bytes", goals=[("null", "<=", 1.5)]),
        Row("project", "projection {k: 1}, limit 1,000", peer=["project"], floor="bytes", goals=[("null", "<=", 3)],
            command={**find, "projection": {"k": 1}, "limit": 1000, "batchSize": 1000}),
        Row("full", "whole documents, limit 1,000", peer=["full"], floor="bytes",
            command={**find, "limit": 1000, "batchSize": 1000}),
        Row("lookup", "$lookup of 1,000 documents by _id", command={"aggregate": "c", "pipeline": [
            {"$limit": 1000}, {"$lookup": {"from": "c", "localField": "k", "foreignField": "_id", "as": "j"}},
            {"$project": {"n": {"$size": "$j"}}}], "cursor": {"batchSize": 1000}}),
    ]
    rows += [Row(f"in{n}", f"{{_id: {{$in: [{n} ids]}}}}, projection {{_id: 1}}",
                 command={**find, "filter": {"_id": {"$in": {"@ids": n}}}, "projection": {"_id": 1}, "batchSize": 1001})
             for n in (10, 100, 1000)]
    return rows


def indexed_rows():
    find = {"find": "c"}
    return [
        Row("count_index", "countDocuments {k: range}, by index", command=_count(_BAND), peer=["count_index"],
            answer_offset=_COUNTED),
        Row("find_k", "findOne by k, by index", peer=["find_k"], floor="document", goals=[("null", "<=", 1.3)],
            command={**find, "filter": {"k": "@k"}, "limit": 1, "singleBatch": True}),
        Row("find_k_batch", "findOne by k, by index, with batchSize", peer=["find_k"], floor="document",
            command={**find, "filter": {"k": "@k"}, "limit": 1, "batchSize": 101}, goals=[("null", "<=", 1.3)]),
        Row("distinct", "distinct k", command={"distinct": "c", "key": "k"}, peer=["distinct"]),
        Row("covered", "{k: range of 10} covered by the index", floor="bytes", command={
            **find, "filter": {"k": {"$gte": 100, "$lt": 110}}, "projection": {"_id": 0, "k": 1}, "batchSize": 20000}),
        Row("index_fetch", "{k: range of 2}, whole documents by index", floor="bytes",
            command={**find, "filter": {"k": {"$gte": 100, "$lt": 102}}, "batchSize": 20000}),
    ]


def write_rows(tiny=False):
    """tiny: some of them, and small batches; those left out run the same code."""
    durable = {"writeConcern": {"w": 1, "j": True}}
    rows = [Row("update", "updateOne by _id, $inc, durable", floor="same", peer=["update", "--clients", "1"],
                command={"update": "c", "updates": [{"q": {"_id": "@id"}, "u": {"$inc": {"k": 1}}}], **durable},
                goals=[("null", "<=", 1.25)]),
            Row("update_many", "updateMany of 65 documents, durable", floor="same", peer=["update_many", "--clients", "1"],
                command={"update": "c", "updates": [{"q": {"_id": {"$gte": "@half", "$lt": "@half65"}}, "multi": True,
                                                     "u": {"$inc": {"k": 1}}}], **durable}, goals=[("null", "<=", 2)])]
    for clients in (1, 8, 64) if tiny else (1, 4, 8, 16, 32, 64):
        goals = [("null", "<=", 1.15)] if clients == 1 else []
        if clients in (4, 8, 16, 32):
            goals = [("null", ">=", 0.8), ("rocksdb", ">=", 2.5)]
        rows.append(Row(f"insert{clients}", f"insertOne durable, {clients} client{'s' if clients > 1 else ''}",
                        "p50_us" if clients == 1 else "docs_per_s", load=["--op", "insert", "--clients", clients],
                        peer=["insert", "--clients", str(clients)], goals=goals, inserts=True))
    for label, size in (("1 MiB", 1 << 20), ("48 MB", (4 if tiny else 47) << 20)):
        rows.append(Row(f"bulk{size >> 20}", f"bulk insert, batches of {label}", "mb_per_s",
                        load=["--op", "bulk", "--clients", 1, "--batch-bytes", size],
                        peer=["bulk", "--clients", "1", "--batch-bytes", str(size)], inserts=True,
                        goals=[("null", ">=", 0.7), ("lmdb", ">=", 0.8), ("rocksdb", ">=", 2.5)]))
    return rows


# Goals of small documents where they differ from those above.
SMALL_GOALS = {"insert32": [("null", ">=", 0.65)], **{f"insert{n}": [] for n in (4, 8, 16)}}
