// Stages that make documents of their own: $documents, $collStats, $indexStats, $currentOp,
// $planCacheStats, $listLocalSessions.
#include <fmt/format.h>

#include "core/plugin/command.h"
#include "core/plugin/host.h"
#include "core/plugin/session_gate.h"
#include "plugins/query-engine/current_op.h"
#include "plugins/query-engine/numeric.h"
#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

using enum BsonType;

// Makes a list of documents at the first call and gives them out.
class ListStage : public PipelineStage {
 public:
  ListStage(PipelineContext& context, std::string_view name, const ValueView& spec)
      : PipelineStage(context), name_(name) {
    DocumentBuilder given;
    given.append(name, spec);
    given_ = std::move(given).finish();
  }
  Result<std::optional<DocumentView>> next() override {
    if (!made_) {
      MULTIFORA_TRY_R(make(documents_));
      made_ = true;
    }
    if (at_ == documents_.size()) return std::nullopt;
    return documents_[at_++].view();
  }
  std::string_view name() const override { return name_; }
  void append_to(ArrayBuilder& out) const override { out.append(given_.view()); }

 protected:
  virtual Status make(std::vector<OwnedDocument>& out) = 0;
  DocumentView given() const { return given_.view(); }
  std::string ns() const { return context().db + "." + context().collection; }
  std::string host_name() const {
    const auto* control = context().host != nullptr ? context().host->service<ServerControl>() : nullptr;
    return control != nullptr ? control->advertised_address() : std::string("localhost");
  }

 private:
  std::string_view name_;
  OwnedDocument given_;
  bool made_ = false;
  std::vector<OwnedDocument> documents_;
  std::size_t at_ = 0;
};

// ---------------------------------------------------------------- $documents

class DocumentsStage final : public ListStage {
 public:
  DocumentsStage(PipelineContext& context, const ValueView& spec, ExpressionPtr expression)
      : ListStage(context, "$documents", spec), expression_(std::move(expression)) {}

 protected:
  Status make(std::vector<OwnedDocument>& out) override {
    context().eval.root = DocumentView();
    MULTIFORA_ASSIGN(const Value v, expression_->evaluate(context().eval));
    if (v.type() != kArray)
      return {location_code(5858203), fmt::format("an array is expected, got {}", type_text(v.view()))};
    for (const Element& e : v.view().as_document()) {
      if (e.type() != kObject)
        return {location_code(40228), fmt::format("'newRoot' expression  must evaluate to an object, but resulting value "
                                                  "was: {}", value_text(e.value()))};
      out.emplace_back(e->as_document());
    }
    return {};
  }

 private:
  ExpressionPtr expression_;
};

Status parse_documents(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  MULTIFORA_ASSIGN(ExpressionPtr expression, parse_expression(spec, context.scope));
  if (const Value* v = expression->constant(); v != nullptr && v->type() != kArray)
    return {location_code(5858203), fmt::format("an array is expected, got {}", type_text(v->view()))};
  out.push_back(std::make_unique<DocumentsStage>(context, spec, std::move(expression)));
  return {};
}

// ---------------------------------------------------------------- $collStats, $indexStats

class CollStatsStage final : public ListStage {
 public:
  using ListStage::ListStage;

 protected:
  Status make(std::vector<OwnedDocument>& out) override {
    const DocumentView spec = given()["$collStats"].as_document();
    MULTIFORA_ASSIGN(const Store::CollectionStats stats, context().store->collection_stats(ns()));
    DocumentBuilder d;
    d.append("ns", ns());
    d.append("host", host_name());
    d.append_date_ms("localTime", context().store->clock().wall_ms());
    if (!spec["latencyStats"].missing()) append_latency(d, stats);
    if (!spec["storageStats"].missing()) append_storage(d, spec["storageStats"], stats);
    if (!spec["count"].missing()) d.append("count", int_or_long(static_cast<std::int64_t>(stats.count)).view());
    out.push_back(std::move(d).finish());
    return {};
  }

 private:
  static void append_latency(DocumentBuilder& d, const Store::CollectionStats& stats) {
    DocumentBuilder latency = d.object("latencyStats");
    const auto append = [&](std::string_view kind, const Store::CommandLatency& use) {
      DocumentBuilder one = latency.object(kind);
      one.append("latency", static_cast<std::int64_t>(use.latency_us));
      one.append("ops", static_cast<std::int64_t>(use.ops));
    };
    append("reads", stats.reads);
    append("writes", stats.writes);
    append("commands", stats.commands);
    append("transactions", {});
  }
  void append_storage(DocumentBuilder& d, const ValueView& options, const Store::CollectionStats& stats) const {
    std::int64_t scale = 1;
    if (options.type() == kObject) {
      const ValueView given_scale = options.as_document()["scale"];
      if (given_scale.is_number()) scale = std::max<std::int64_t>(1, given_scale.number_as_int64());
    }
    const auto size = [&](std::uint64_t bytes) { return int_or_long(static_cast<std::int64_t>(bytes) / scale); };
    const auto info = context().store->info(ns());
    DocumentBuilder s = d.object("storageStats");
    s.append("size", size(stats.data_bytes).view());
    s.append("count", int_or_long(static_cast<std::int64_t>(stats.count)).view());
    if (stats.count > 0) s.append("avgObjSize", int_or_long(static_cast<std::int64_t>(stats.data_bytes / stats.count)).view());
    s.append("numOrphanDocs", std::int32_t{0});
    s.append("storageSize", size(stats.storage_bytes).view());
    s.append("freeStorageSize", size(stats.free_bytes).view());
    s.append("capped", info && info->capped);
    s.append("nindexes", static_cast<std::int32_t>(stats.indexes.size()));
    std::uint64_t total = 0;
    for (const auto& i : stats.indexes) total += i.size_bytes;
    s.append("totalIndexSize", size(total).view());
    s.append("totalSize", size(total + stats.storage_bytes).view());
    {
      DocumentBuilder sizes = s.object("indexSizes");
      for (const auto& i : stats.indexes) sizes.append(i.name, size(i.size_bytes).view());
    }
    s.append("scaleFactor", static_cast<std::int32_t>(scale));
  }
};

Status parse_coll_stats(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != kObject)
    return {ErrorCode::kTypeMismatch, fmt::format("$collStats must take a nested object but found: {}", value_text(spec))};
  for (const Element& e : spec.as_document()) {
    if (e.name() == "queryExecStats")
      return {ErrorCode::kCommandNotSupported, "$collStats' queryExecStats is not supported"};
    if (e.name() != "count" && e.name() != "latencyStats" && e.name() != "storageStats")
      return {ErrorCode::kUnknownField, fmt::format("BSON field '$collStats.{}' is an unknown field.", e.name())};
    if (e.type() != kObject)
      return {ErrorCode::kTypeMismatch, fmt::format("BSON field '$collStats.{}' is the wrong type '{}', expected type "
                                                    "'object'", e.name(), type_text(e.value()))};
  }
  out.push_back(std::make_unique<CollStatsStage>(context, "$collStats", spec));
  return {};
}

class IndexStatsStage final : public ListStage {
 public:
  using ListStage::ListStage;

 private:
  // What is known of an index; nothing for one that came or went meanwhile.
  static Store::CollectionStats::IndexSize use_of(const Store::CollectionStats& stats, std::string_view name) {
    for (const auto& index : stats.indexes)
      if (index.name == name) return index;
    return {};
  }

 protected:
  Status make(std::vector<OwnedDocument>& out) override {
    if (context().store->info(ns()) == nullptr) return {};
    MULTIFORA_ASSIGN(const std::vector<OwnedDocument> specs, context().store->index_specs(ns()));
    MULTIFORA_ASSIGN(const Store::CollectionStats stats, context().store->collection_stats(ns()));
    for (const OwnedDocument& spec : specs) {
      DocumentBuilder d;
      d.append("name", spec.view()["name"]);
      d.append("key", spec.view()["key"]);
      d.append("host", host_name());
      {
        DocumentBuilder accesses = d.object("accesses");
        const Store::CollectionStats::IndexSize use = use_of(stats, spec.view()["name"].as_string());
        accesses.append("ops", static_cast<std::int64_t>(use.ops));
        accesses.append_date_ms("since", use.since_ms);
      }
      d.append("spec", spec.view());
      out.push_back(std::move(d).finish());
    }
    return {};
  }
};

Status parse_index_stats(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != kObject || !spec.as_document().empty())
    return {location_code(28803), "The $indexStats stage specification must be an empty object"};
  out.push_back(std::make_unique<IndexStatsStage>(context, "$indexStats", spec));
  return {};
}

// No plans are cached here.
class PlanCacheStatsStage final : public ListStage {
 public:
  using ListStage::ListStage;

 protected:
  Status make(std::vector<OwnedDocument>&) override { return {}; }
};

Status parse_plan_cache_stats(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != kObject || !spec.as_document().empty())
    return {ErrorCode::kFailedToParse, "$planCacheStats parameters object must be empty"};
  out.push_back(std::make_unique<PlanCacheStatsStage>(context, "$planCacheStats", spec));
  return {};
}

// ---------------------------------------------------------------- $currentOp

class CurrentOpStage final : public ListStage {
 public:
  using ListStage::ListStage;

 protected:
  Status make(std::vector<OwnedDocument>& out) override {
    const auto* control = context().host != nullptr ? context().host->service<ServerControl>() : nullptr;
    ArrayBuilder operations;
    if (control != nullptr)
      control->append_operations(operations, given()["$currentOp"].as_document()["idleConnections"].truthy());
    append_index_builds(*context().store, operations);
    const OwnedDocument all = std::move(operations).finish();
    for (const Element& e : all.view())
      if (e.type() == kObject) out.emplace_back(e->as_document());
    return {};
  }
};

Status parse_current_op(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != kObject)
    return {ErrorCode::kFailedToParse, fmt::format("$currentOp options must be specified in an object, but found: {}",
                                                   type_text(spec))};
  for (const Element& e : spec.as_document()) {
    static constexpr std::string_view kKnown[] = {"allUsers", "idleConnections", "idleCursors", "idleSessions", "localOps",
                                                  "backtrace", "targetAllNodes", "truncateOps"};
    bool known = false;
    for (const std::string_view k : kKnown) known = known || k == e.name();
    if (!known)
      return {ErrorCode::kFailedToParse, fmt::format("Unrecognized option '{}' in $currentOp stage.", e.name())};
    if (e.type() != kBool)
      return {ErrorCode::kFailedToParse, fmt::format("The '{}' parameter of the $currentOp stage must be a boolean value, but "
                                                     "found: {}", e.name(), type_text(e.value()))};
  }
  if (context.db != "admin" || !context.collection.empty())
    return {ErrorCode::kInvalidNamespace, "$currentOp must be run against the 'admin' database with {aggregate: 1}"};
  out.push_back(std::make_unique<CurrentOpStage>(context, "$currentOp", spec));
  return {};
}

// ---------------------------------------------------------------- $listLocalSessions, $listSessions

// SHA-256 of nothing: the user of sessions where there are no users.
constexpr unsigned char kNobody[] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
                                     0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
                                     0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55};

class SessionsStage final : public ListStage {
 public:
  using ListStage::ListStage;

 protected:
  Status make(std::vector<OwnedDocument>& out) override {
    const auto* sessions = context().host != nullptr ? context().host->service<SessionGate>() : nullptr;
    if (sessions == nullptr) return {};
    sessions->list([&](std::string_view lsid, std::int64_t last_use_ms) {
      DocumentBuilder d;
      {
        DocumentBuilder id = d.object("_id");
        id.append_binary("id", lsid, 4);
        id.append_binary("uid", Bytes(reinterpret_cast<const char*>(kNobody), sizeof kNobody), 0);
      }
      d.append_date_ms("lastUse", last_use_ms);
      out.push_back(std::move(d).finish());
    });
    return {};
  }
};

Status parse_list_sessions(const StageRow& row, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != kObject)
    return {ErrorCode::kTypeMismatch, fmt::format("{} options must be specified in an object, but found: {}", row.name,
                                                  type_text(spec))};
  for (const Element& e : spec.as_document()) {
    const bool all = e.name() == "allUsers", users = e.name() == "users";
    if (!all && !users)
      return {ErrorCode::kUnknownField, fmt::format("BSON field '{}.{}' is an unknown field.", row.name, e.name())};
    if (e.type() != (all ? kBool : kArray))
      return {ErrorCode::kTypeMismatch, fmt::format("BSON field '{}.{}' is the wrong type '{}', expected type '{}'", row.name,
                                                    e.name(), type_text(e.value()), all ? "bool" : "array")};
  }
  if (spec.as_document()["allUsers"].truthy() && !spec.as_document()["users"].missing())
    return {ErrorCode::kUnsupportedFormat,
            fmt::format("{} may not specify {{allUsers:true}} and {{users:[...]}} at the same time", row.name)};
  if (row.name == "$listLocalSessions" && !context.collection.empty())
    return {ErrorCode::kInvalidNamespace,
            "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection"};
  if (row.name == "$listSessions" && (context.db != "config" || context.collection != "system.sessions"))
    return {ErrorCode::kInvalidNamespace, "$listSessions may only be run against config.system.sessions"};
  out.push_back(std::make_unique<SessionsStage>(context, row.name, spec));
  return {};
}

constexpr std::uint32_t kSource = kMustBeFirst | kMakesDocuments | kNotInFacet;
constexpr StageRow kRows[] = {
    {"$collStats", parse_coll_stats, kSource},
    {"$currentOp", parse_current_op, kSource | kNoCollection | kNotInStrictApi},
    {"$documents", parse_documents, kSource | kNoCollection},
    {"$indexStats", parse_index_stats, kSource | kNotInStrictApi},
    {"$listLocalSessions", parse_list_sessions, kSource | kNoCollection | kNotInStrictApi},
    {"$listSessions", parse_list_sessions, kSource | kNotInStrictApi},
    {"$planCacheStats", parse_plan_cache_stats, kSource | kNotInStrictApi},
};

}  // namespace

std::span<const StageRow> source_stages() { return kRows; }

}  // namespace multifora
