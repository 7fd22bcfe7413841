#include "bench/workload.h"

#include <algorithm>

#include "bench/payload.h"
#include "core/bson/builder.h"

namespace multifora::bench {
namespace {

// Messages of mixed sizes that a client goes through in turn.
constexpr std::size_t kMixedVariants = 16;
constexpr std::size_t kMixedSizeMin = 300;
constexpr std::size_t kIdInDocument = 4 + 1 + 4;  // size, type, "_id"
// Stands where a number will be filled in; nothing else in a message looks like it.
constexpr std::int64_t kHole = 0x6b1f5a3c97d2e481;

std::uint64_t scatter(std::uint64_t n) { return n * 0x9e3779b97f4a7c15ull >> 20; }

// Where it stands; 0: nowhere.
std::size_t hole_in(const std::string& message) {
  char hole[sizeof kHole];
  store_le(hole, kHole);
  const std::size_t at = message.find(Bytes(hole, sizeof hole));
  return at == std::string::npos ? 0 : at;
}

}  // namespace

bool parse_operation(std::string_view name, Operation* operation) {
  constexpr std::pair<std::string_view, Operation> kNames[] = {
      {"insert", Operation::kInsert},          {"bulk", Operation::kBulk},
      {"find", Operation::kFind},              {"update", Operation::kUpdate},
      {"update_many", Operation::kUpdateMany}, {"bulk_write", Operation::kBulkWrite},
      {"count", Operation::kCount},            {"ping", Operation::kPing},
      {"group", Operation::kGroup},            {"transaction", Operation::kTransaction}};
  const auto* const at = std::ranges::find(kNames, name, &std::pair<std::string_view, Operation>::first);
  if (at == std::end(kNames)) return false;
  *operation = at->second;
  return true;
}

std::string make_message(DocumentView body, const std::vector<OwnedDocument>& documents,
                         std::string_view sequence) {
  std::string out(16, '\0');
  append_le<std::uint32_t>(out, 0);  // flags
  out.push_back(0);
  out.append(body.bytes());
  if (!documents.empty()) {
    out.push_back(1);
    const std::size_t start = out.size();
    append_le<std::int32_t>(out, 0);
    out.append(sequence).push_back('\0');
    for (const OwnedDocument& document : documents) out.append(document.bytes());
    store_le<std::int32_t>(out.data() + start, static_cast<std::int32_t>(out.size() - start));
  }
  store_le<std::int32_t>(out.data(), static_cast<std::int32_t>(out.size()));
  store_le<std::int32_t>(out.data() + 12, 2013);
  return out;
}

Workload::Requests::Prepared Workload::make_insert(std::size_t client, std::size_t variant) const {
  std::vector<OwnedDocument> documents;
  std::size_t bytes = 0;
  std::uint64_t seed = client * 1'000'003 + variant * 4099;
  const std::size_t wanted = options_.operation == Operation::kBulk ? options_.batch_bytes : 1;
  while (bytes < wanted) {
    std::size_t size = options_.size;
    if (options_.mixed) size = kMixedSizeMin + scatter(++seed) % (options_.size - kMixedSizeMin + 1);
    if (!documents.empty() && bytes + size > wanted) break;
    documents.push_back(make_document(static_cast<std::int64_t>(++seed), size));
    bytes += size;
  }
  DocumentBuilder body;
  body.append("insert", options_.collection);
  if (options_.operation == Operation::kTransaction)
    append_transaction(body, client, variant == 0);
  else
    body.object("writeConcern").append("w", 1).append("j", true);
  body.append("$db", "bench");
  const OwnedDocument command = std::move(body).finish();
  Requests::Prepared out;
  out.message = make_message(command.view(), documents);
  out.bytes = bytes;
  out.txn_number = hole_in(out.message);
  std::size_t at = out.message.size() - bytes;
  for (const OwnedDocument& document : documents) {
    out.ids.push_back(at + kIdInDocument);
    at += document.bytes().size();
  }
  return out;
}

bool Workload::grouped() const {
  return options_.operation == Operation::kGroup || options_.operation == Operation::kTransaction;
}

// Each client has a session of its own, each load others: ids go on from load to load.
void Workload::append_transaction(DocumentBuilder& body, std::size_t client, bool starts) const {
  std::string id;
  append_le<std::uint64_t>(id, client);
  append_le<std::uint64_t>(id, scatter(static_cast<std::uint64_t>(options_.first_id) + 1));
  body.object("lsid").append_binary("id", id, 4);
  body.append("txnNumber", kHole).append("autocommit", false);
  if (starts) body.append("startTransaction", true);
}

Workload::Requests::Prepared Workload::make_commit(std::size_t client) const {
  DocumentBuilder body;
  body.append("commitTransaction", 1);
  append_transaction(body, client, false);
  body.object("writeConcern").append("w", 1).append("j", true);
  body.append("$db", "admin");
  const OwnedDocument command = std::move(body).finish();
  Requests::Prepared out;
  out.message = make_message(command.view(), {});
  out.txn_number = hole_in(out.message);
  return out;
}

Workload::Requests::Prepared Workload::make_plain() const {
  DocumentBuilder body;
  std::vector<OwnedDocument> statements;
  std::string_view sequence;
  const auto increment = [](DocumentBuilder& update) {
    update.object("$inc").append("k", std::int32_t{1});
  };
  switch (options_.operation) {
    case Operation::kFind:
      body.append("find", options_.collection);
      body.object("filter").append("_id", kHole);
      body.append("limit", 1).append("singleBatch", true);
      break;
    case Operation::kCount:
      body.append("count", options_.collection);
      break;
    case Operation::kUpdate:
    case Operation::kUpdateMany: {
      body.append("update", options_.collection);
      const bool many = options_.operation == Operation::kUpdateMany;
      DocumentBuilder statement;
      if (many) {
        DocumentBuilder query = statement.object("q");
        DocumentBuilder range = query.object("_id");
        range.append("$gte", std::int64_t{0});
        range.append("$lt", static_cast<std::int64_t>(options_.batch_count));
      } else {
        statement.object("q").append("_id", kHole);
      }
      {
        DocumentBuilder update = statement.object("u");
        increment(update);
      }
      if (many) statement.append("multi", true);
      statements.push_back(std::move(statement).finish());
      sequence = "updates";
      break;
    }
    case Operation::kBulkWrite: {
      body.append("bulkWrite", 1);
      {
        ArrayBuilder namespaces = body.array("nsInfo");
        namespaces.object().append("ns", "bench." + options_.collection);
      }
      body.append("errorsOnly", true);
      sequence = "ops";
      for (std::size_t i = 0; i < options_.batch_count; ++i) {
        DocumentBuilder statement;
        statement.append("update", 0);
        statement.object("filter").append("_id", kHole);
        {
          DocumentBuilder update = statement.object("updateMods");
          increment(update);
        }
        statements.push_back(std::move(statement).finish());
      }
      break;
    }
    default:
      body.append("ping", 1);
  }
  const bool writes = !statements.empty();
  if (writes) body.object("writeConcern").append("w", 1).append("j", true);
  const bool admin =
      options_.operation == Operation::kBulkWrite || options_.operation == Operation::kPing;
  body.append("$db", admin ? "admin" : "bench");
  const OwnedDocument command = std::move(body).finish();
  Requests::Prepared out;
  out.message = make_message(command.view(), statements, sequence);
  char hole[sizeof kHole];
  store_le(hole, kHole);
  for (std::size_t at = 0; (at = out.message.find(Bytes(hole, sizeof hole), at)) != std::string::npos;
       at += sizeof hole)
    out.ids.push_back(at);
  return out;
}

Workload::Requests Workload::make_requests(std::size_t client) const {
  Requests out;
  if (grouped()) {
    for (std::size_t i = 0; i < options_.batch_count; ++i)
      out.prepared_.push_back(make_insert(client, i));
    if (options_.operation == Operation::kTransaction) out.prepared_.push_back(make_commit(client));
    return out;
  }
  const bool inserts =
      options_.operation == Operation::kInsert || options_.operation == Operation::kBulk;
  if (!inserts) {
    out.prepared_.push_back(make_plain());
    return out;
  }
  const bool many = options_.mixed && options_.operation == Operation::kInsert;
  for (std::size_t variant = 0; variant < (many ? kMixedVariants : 1); ++variant)
    out.prepared_.push_back(make_insert(client, variant));
  return out;
}

std::int64_t Workload::documents_of(const Requests::Prepared& prepared) const {
  switch (options_.operation) {
    case Operation::kUpdateMany:
    case Operation::kBulkWrite:
      return static_cast<std::int64_t>(options_.batch_count);
    case Operation::kInsert:
    case Operation::kBulk:
    case Operation::kGroup:
    case Operation::kTransaction:
      return static_cast<std::int64_t>(prepared.ids.size());
    default:
      return 1;
  }
}

Workload::Requests::Request Workload::next(Requests& requests) {
  const std::size_t turn = requests.turn_++ % requests.prepared_.size();
  Requests::Prepared& prepared = requests.prepared_[turn];
  if (grouped() && turn == 0) ++requests.transactions_;
  if (prepared.txn_number != 0)
    store_le(prepared.message.data() + prepared.txn_number, requests.transactions_);
  const bool inserts = prepared.bytes > 0;
  for (const std::size_t at : prepared.ids) {
    const std::int64_t id =
        inserts ? next_id_++
                : static_cast<std::int64_t>(scatter(static_cast<std::uint64_t>(++count_))) % options_.ids;
    store_le(prepared.message.data() + at, id);
  }
  return {prepared.message, documents_of(prepared), prepared.bytes,
          grouped() && turn + 1 < requests.prepared_.size()};
}

std::string Workload::check(const Requests::Request& request, DocumentView reply) const {
  if (!reply["ok"].truthy()) return "a command failed: " + std::string(reply["errmsg"].as_string());
  switch (options_.operation) {
    case Operation::kFind:
      if (reply["cursor"].as_document()["firstBatch"].as_document().count() != 1)
        return "find by _id did not give one document";
      return {};
    case Operation::kBulkWrite:
      if (reply["nModified"].number_as_int64() != request.documents &&
          reply["n"].number_as_int64() != request.documents)
        return "a bulkWrite did not change all";
      return {};
    case Operation::kCount:
    case Operation::kPing:
      return {};
    default:
      if (request.documents == 0) return {};  // a commit
      return reply["n"].number_as_int64() == request.documents ? "" : "a write did not reach all";
  }
}

}  // namespace multifora::bench
