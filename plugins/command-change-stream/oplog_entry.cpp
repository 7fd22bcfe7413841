#include "plugins/command-change-stream/oplog_entry.h"

#include <deque>
#include <unordered_set>

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/bson/patch.h"
#include "core/plugin/names.h"

namespace multifora::change_stream {
namespace {

constexpr std::int64_t kTerm = 1;

// Levels of a difference while they are collected; each becomes {a, l, d, u, i, s...}.
class DiffBuilder final : public PatchVisitor {
 public:
  DiffBuilder() : levels_(1) {}
  void set(std::string_view name, std::size_t index, const ValueView& value) override {
    put(name, index, value, false);
  }
  void inserted(std::string_view name, std::size_t index, const ValueView& value) override {
    put(name, index, value, true);
  }
  void removed(std::string_view name) override { levels_.back().removed.push_back(name); }
  void truncated(std::size_t size) override {
    levels_.back().length = static_cast<std::int64_t>(size);
  }
  void enter(std::string_view name, std::size_t index, bool array) override {
    Level level;
    level.array = array;
    level.name = levels_.back().array ? std::to_string(index) : std::string(name);
    levels_.push_back(std::move(level));
  }
  void leave() override {
    const OwnedDocument inner = close(levels_.back());
    const std::string name = "s" + levels_.back().name;
    levels_.pop_back();
    levels_.back().nested.append(name, inner.view());
  }
  OwnedDocument finish() && { return close(levels_.back()); }

 private:
  struct Level {
    bool array = false;
    std::string name;
    std::int64_t length = -1;
    std::vector<std::string_view> removed;
    std::unordered_set<std::string_view> put;
    DocumentBuilder updates, inserts, nested;
    bool any_update = false, any_insert = false;
  };

  void put(std::string_view name, std::size_t index, const ValueView& value, bool is_new) {
    Level& level = levels_.back();
    if (level.array) {
      level.nested.append("u" + std::to_string(index), value);
      return;
    }
    level.put.insert(name);
    (is_new ? level.inserts : level.updates).append(name, value);
    (is_new ? level.any_insert : level.any_update) = true;
  }

  static OwnedDocument close(Level& level) {
    DocumentBuilder out;
    if (level.array) {
      out.append("a", true);
      if (level.length >= 0) out.append("l", static_cast<std::int32_t>(level.length));
    } else {
      DocumentBuilder gone;
      bool any = false;
      for (const std::string_view name : level.removed) {
        if (level.put.contains(name)) continue;
        gone.append(name, false);
        any = true;
      }
      const OwnedDocument removed = std::move(gone).finish();
      const OwnedDocument updates = std::move(level.updates).finish();
      const OwnedDocument inserts = std::move(level.inserts).finish();
      if (any) out.append("d", removed.view());
      if (level.any_update) out.append("u", updates.view());
      if (level.any_insert) out.append("i", inserts.view());
    }
    const OwnedDocument nested = std::move(level.nested).finish();
    out.append_all(nested.view());
    return std::move(out).finish();
  }

  std::deque<Level> levels_;
};

void append_key(DocumentBuilder& out, std::string_view name, DocumentView document) {
  DocumentBuilder key = out.object(name);
  key.append("_id", document["_id"]);
}

// The command of a change of the catalog. False: it has no entry.
bool append_command(const LogRecord& record, const CollectionName& name, DocumentBuilder& o) {
  const DocumentView body = record.document;
  const std::string_view collection = Namespace::split(name.ns).collection;
  switch (record.operation) {
    case LogOperation::kCreate: {
      o.append("create", collection);
      o.append_all(body["options"].as_document());
      for (const Element& row : body["indexes"].as_document())
        if (row.type() == BsonType::kObject) o.append("idIndex", row->as_document()["spec"]);
      return true;
    }
    case LogOperation::kDrop:
      if (body["replaced"].truthy()) return false;
      o.append("drop", collection);
      return true;
    case LogOperation::kRename: {
      o.append("renameCollection", body["from"]);
      o.append("to", body["to"]);
      o.append("stayTemp", false);
      const ValueView dropped = body["dropped"];
      if (dropped.missing())
        o.append("dropTarget", false);
      else
        o.append("dropTarget", dropped);
      return true;
    }
    case LogOperation::kDropDatabase:
      o.append("dropDatabase", 1);
      return true;
    case LogOperation::kCreateIndex:
      o.append("createIndexes", collection);
      o.append_all(body["spec"].as_document());
      return true;
    case LogOperation::kDropIndex:
      o.append("dropIndexes", collection);
      o.append("index", body["name"]);
      return true;
    case LogOperation::kSetOptions:
      o.append("collMod", collection);
      o.append_all(body["options"].as_document());
      return true;
    case LogOperation::kSetIndexSpec:
      o.append("collMod", collection);
      o.append("index", body["spec"]);
      return true;
    default:
      return false;
  }
}

// op, ns, ui, o, o2 of a change. False: it has no entry.
Result<bool> append_operation(const LogRecord& record, const CollectionName& name, DocumentBuilder& out) {
  const auto begin = [&](std::string_view op, std::string_view ns) {
    out.append("op", op);
    out.append("ns", ns);
    if (!name.ns.empty()) out.append_binary("ui", Bytes(name.uuid.data(), name.uuid.size()), 4);
  };
  switch (record.operation) {
    case LogOperation::kInsert:
      begin("i", name.ns);
      out.append("o", record.document);
      append_key(out, "o2", record.document);
      return true;
    case LogOperation::kUpdate:
    case LogOperation::kUpdateImage: {
      begin("u", name.ns);
      MULTIFORA_ASSIGN_R(const Bytes replacement, patch_replacement(record.patch));
      if (!replacement.empty()) {
        out.append("o", DocumentView::assume_valid(replacement));
      } else {
        MULTIFORA_ASSIGN_R(const OwnedDocument diff, oplog_diff(record.patch));
        DocumentBuilder o = out.object("o");
        o.append("$v", std::int32_t{2});
        o.append("diff", diff.view());
      }
      append_key(out, "o2", record.document);
      return true;
    }
    case LogOperation::kDelete:
    case LogOperation::kDeleteImage:
      begin("d", name.ns);
      append_key(out, "o", record.document);
      return true;
    default: {
      DocumentBuilder command;
      if (!append_command(record, name, command)) return false;
      const OwnedDocument o = std::move(command).finish();
      const std::string db(record.operation == LogOperation::kDropDatabase
                               ? record.document["db"].as_string()
                               : Namespace::split(name.ns).db);
      begin("c", db + ".$cmd");
      out.append("o", o.view());
      return true;
    }
  }
}

void append_end(DocumentBuilder& out, std::uint64_t time) {
  out.append_timestamp("ts", time);
  out.append("t", kTerm);
  out.append("v", std::int64_t{2});
  out.append_date_ms("wall", static_cast<std::int64_t>(time >> 32) * 1000);
}

OwnedDocument too_large(std::uint64_t time) {
  DocumentBuilder out;
  out.append("op", "n");
  out.append("ns", "");
  out.object("o").append("msg", "an entry that is larger than a document may be");
  append_end(out, time);
  return std::move(out).finish();
}

Result<std::vector<OplogEntry>> transaction_entry(OpenBatch& batch) {
  std::vector<OplogEntry> entries;
  DocumentBuilder out;
  append_lsid(out, batch.lsid());
  out.append("txnNumber", batch.txn_number());
  out.append("op", "c");
  out.append("ns", "admin.$cmd");
  std::size_t bytes = 0;
  {
    DocumentBuilder o = out.object("o");
    ArrayBuilder operations = o.array("applyOps");
    LogRecord record;
    ResumeToken token;
    while (bytes <= limits::kDocumentSizeMax) {
      MULTIFORA_ASSIGN_R(const bool more, batch.next(&record, &token));
      if (!more) break;
      DocumentBuilder operation;
      MULTIFORA_ASSIGN_R(const bool told, append_operation(record, batch.name(record.collection), operation));
      const OwnedDocument document = std::move(operation).finish();
      bytes += document.bytes().size();
      if (told && bytes <= limits::kDocumentSizeMax) operations.append(document.view());
    }
  }
  append_end(out, batch.position());
  OwnedDocument document = std::move(out).finish();
  if (bytes > limits::kDocumentSizeMax) document = too_large(batch.position());
  entries.push_back({batch.position(), std::move(document)});
  return entries;
}

}  // namespace

Result<OwnedDocument> oplog_diff(Bytes patch) {
  DiffBuilder builder;
  MULTIFORA_TRY_R(visit_patch(patch, builder));
  return std::move(builder).finish();
}

Result<std::vector<OplogEntry>> oplog_entries(const ChangeBatch& given) {
  OpenBatch batch;
  batch.load(given);
  if (batch.transaction()) return transaction_entry(batch);
  std::vector<OplogEntry> entries;
  LogRecord record;
  ResumeToken token;
  while (true) {
    MULTIFORA_ASSIGN_R(const bool more, batch.next(&record, &token));
    if (!more) return entries;
    DocumentBuilder out;
    MULTIFORA_ASSIGN_R(const bool told, append_operation(record, batch.name(record.collection), out));
    append_end(out, token.time);
    OwnedDocument document = std::move(out).finish();
    if (!told) continue;
    if (document.bytes().size() > limits::kDocumentSizeMax + limits::kDocumentSizeSlack)
      document = too_large(token.time);
    entries.push_back({token.time, std::move(document)});
  }
}

}  // namespace multifora::change_stream
