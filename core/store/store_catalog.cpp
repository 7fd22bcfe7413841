// Changes of the catalog. Each has one apply_ function, which commands and recovery share; a command
// checks, logs and applies under ddl_mutex, the collection's exclusive lock and the gate.
#include <sys/random.h>

#include <algorithm>

#include "core/base/assert.h"
#include "core/bson/builder.h"
#include "core/bson/compare.h"
#include "core/store/change_feed.h"
#include "core/store/index_spec.h"
#include "core/store/store_impl.h"
#include "core/store/transaction_impl.h"
#include "core/store/virtual_collection.h"

namespace multifora {
namespace {

std::array<char, 16> random_uuid() {
  std::array<char, 16> uuid{};
  const auto got = getrandom(uuid.data(), uuid.size(), 0);
  MULTIFORA_ASSERT(got == static_cast<ssize_t>(uuid.size()));
  uuid[6] = static_cast<char>((uuid[6] & 0x0f) | 0x40);  // version 4
  uuid[8] = static_cast<char>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

Status namespace_not_found(std::string_view ns) {
  return {ErrorCode::kNamespaceNotFound, "ns not found: " + std::string(ns)};
}

// A temporary collection that gets its final name is here to stay.
OwnedDocument without_temp(DocumentView options) {
  DocumentBuilder out;
  for (const Element& field : options)
    if (field.name() != "temp") out.append(field);
  return std::move(out).finish();
}

// Exclusive locks of several collections (null ones are skipped), in id order, given up at the end of
// the scope.
class ExclusiveLocks {
 public:
  explicit ExclusiveLocks(std::vector<CollectionPtr> collections) : held_(std::move(collections)) {
    std::erase(held_, nullptr);
    std::sort(held_.begin(), held_.end(),
              [](const CollectionPtr& a, const CollectionPtr& b) { return a->id < b->id; });
    for (const CollectionPtr& collection : held_) collection->lock.lock();
  }
  ExclusiveLocks(const ExclusiveLocks&) = delete;
  ~ExclusiveLocks() {
    for (const CollectionPtr& collection : held_) collection->lock.unlock();
  }

 private:
  std::vector<CollectionPtr> held_;
};

// One catalog record as a batch.
Buffer one_record(LogOperation operation, CollectionId id, DocumentView body) {
  LogBatch batch;
  batch.catalog(operation, id, body);
  return Buffer(batch.bytes());
}

}  // namespace

Result<std::shared_ptr<const CollectionInfo>> Store::Impl::make_info(CollectionId id,
                                                                     std::string_view ns,
                                                                     Bytes uuid,
                                                                     DocumentView options) const {
  auto info = std::make_shared<CollectionInfo>();
  const Namespace parts = Namespace::split(ns);
  info->id = id;
  info->db = parts.db;
  info->name = parts.collection;
  info->ns = ns;
  MULTIFORA_ASSERT(uuid.size() == 16);
  std::copy(uuid.begin(), uuid.end(), info->uuid.begin());
  info->options = OwnedDocument(options);
  info->is_view = options["viewOn"].type() == BsonType::kString;
  info->capped = options["capped"].truthy();
  info->capped_size_bytes = options["size"].number_as_int64();
  info->capped_count_max = options["max"].number_as_int64();
  info->clustered = !options["clusteredIndex"].missing();
  if (const ValueView images = options["changeStreamPreAndPostImages"];
      images.type() == BsonType::kObject)
    info->pre_images = images.as_document()["enabled"].truthy();
  if (const ValueView collation = options["collation"]; collation.type() == BsonType::kObject) {
    const CollatorFactory* factory = host.collator_factory();
    if (factory == nullptr)
      return fail(ErrorCode::kUnsupportedFormat,
                  "collection " + info->ns +
                      " has a collation, but no collation plugin is loaded; load collation-icu");
    MULTIFORA_ASSIGN_R(info->collator, factory->make(collation.as_document()));
  }
  if (const ValueView validator = options["validator"]; validator.type() == BsonType::kObject &&
                                                        !validator.as_document().empty()) {
    const FilterCompiler* compiler = host.filter_compiler();
    if (compiler == nullptr)
      return fail(ErrorCode::kUnsupportedFormat,
                  "collection " + info->ns +
                      " has a validator, but the plugin query-engine is not loaded; load it");
    MULTIFORA_ASSIGN_R(info->validator,
                       compiler->compile(validator.as_document(), info->collator.get()));
    const ValueView level = options["validationLevel"];
    if (level.type() == BsonType::kString && level.as_string() == "off") info->validator = nullptr;
  }
  return info;
}

Result<std::unique_ptr<OpenIndex>> Store::Impl::open_index(const Collection& collection,
                                                           std::uint32_t number,
                                                           std::string_view kind_name,
                                                           DocumentView spec,
                                                           const IndexState& state) const {
  auto open = std::make_unique<OpenIndex>();
  open->number = number;
  open->use.since_ms = host.clock().wall_ms();
  open->kind = host.index_kind(kind_name);
  if (open->kind == nullptr)
    return fail(ErrorCode::kUnsupportedFormat,
                "an index of " + collection.info->ns + " is of kind '" + std::string(kind_name) +
                    "', which no loaded plugin offers; load plugin index-" +
                    std::string(kind_name));
  MULTIFORA_ASSIGN_R(IndexSpec index_spec, make_index_spec(host, *collection.info, spec));
  MULTIFORA_ASSIGN_R(open->index, open->kind->open(host, *pager, std::move(index_spec), state));
  return open;
}

OwnedDocument Store::Impl::describe(const Collection& collection) const {
  DocumentBuilder out;
  out.append("ns", collection.info->ns);
  out.append_binary("uuid", Bytes(collection.info->uuid.data(), 16), 4);
  out.append("dropped", collection.dropped);
  out.append("options", collection.info->options.view());
  out.append("nextIndex", static_cast<std::int64_t>(collection.next_index_number));
  auto indexes = out.array("indexes");
  for (const auto& open : collection.indexes) {
    if (open->building) continue;
    auto row = indexes.object();
    row.append("number", static_cast<std::int64_t>(open->number));
    row.append("kind", open->kind->name);
    row.append("spec", open->index->spec().spec.view());
  }
  indexes.close();
  return std::move(out).finish();
}

// What a command checks before, and damage may have made otherwise.
Status Store::Impl::check_new_collection(CollectionId id, std::string_view ns) const {
  const std::shared_lock hold(names_mutex);
  if (id != 0 && id < kForkIdsFrom && !by_id.contains(id) && !by_name.contains(ns)) return {};
  return {ErrorCode::kDataCorruptionDetected,
          "collection " + std::to_string(id) + " cannot be: its number or its name is impossible or taken"};
}

Status Store::Impl::check_rename(const Collection& collection, std::string_view to) const {
  const std::shared_lock hold(names_mutex);
  if (!to.empty() && !by_name.contains(to)) return {};
  return {ErrorCode::kDataCorruptionDetected,
          "collection " + collection.info->ns + " cannot be renamed: the name is taken"};
}

// --- apply ----------------------------------------------------------------------------------------

Status Store::Impl::apply_create(CollectionId id, DocumentView body, bool locked) {
  MULTIFORA_TRY(check_new_collection(id, body["ns"].as_string()));
  auto collection = std::make_shared<Collection>(id);
  MULTIFORA_ASSIGN(collection->info, make_info(id, body["ns"].as_string(),
                                               body["uuid"].binary_bytes(),
                                               body["options"].as_document()));
  for (const Element& row : body["indexes"].as_document()) {
    const DocumentView fields = row->as_document();
    const auto number = static_cast<std::uint32_t>(fields["number"].number_as_int64());
    MULTIFORA_ASSIGN(auto open, open_index(*collection, number, fields["kind"].as_string(),
                                           fields["spec"].as_document(), IndexState{}));
    collection->next_index_number = std::max(collection->next_index_number, number + 1);
    collection->indexes.push_back(std::move(open));
  }
  collection->allocator = pager->records().make_allocator(id, 0);
  next_collection_id = std::max(next_collection_id, id + 1);
  collection->snapshots = &snapshots;
  collection->changed_in = pager->current_generation();
  if (locked) collection->lock.lock();
  mark_dirty(collection, true);
  const std::unique_lock hold(names_mutex);
  by_name.emplace(collection->info->ns, collection);
  by_id.emplace(id, collection);
  return {};
}

// For transactions that still see the name in their snapshot. With names_mutex held.
void Store::Impl::lose_name(std::string_view ns) {
  if (!snapshots.none())
    lost_names.insert_or_assign(std::string(ns), pager->current_generation());
}

void Store::Impl::apply_drop(const CollectionPtr& collection) {
  feed->names().will_lose(collection->id, {collection->info->ns, collection->info->uuid});
  collection->preserve(pager->current_generation());
  collection->dropped = true;
  mark_dirty(collection, true);
  {
    const std::unique_lock hold(names_mutex);
    by_name.erase(collection->info->ns);
    by_id.erase(collection->id);
    lose_name(collection->info->ns);
  }
  const std::lock_guard hold(dirty_mutex);
  graveyard.push_back(collection);
}

Status Store::Impl::reopen_indexes(Collection& collection) {
  for (auto& open : collection.indexes) {
    const OwnedDocument spec = open->index->spec().spec;
    MULTIFORA_ASSIGN(auto again, open_index(collection, open->number, open->kind->name, spec.view(),
                                            open->index->state()));
    again->building = open->building;
    open = std::move(again);
  }
  return {};
}

Status Store::Impl::apply_rename(const CollectionPtr& collection, std::string_view to) {
  MULTIFORA_TRY(check_rename(*collection, to));
  collection->preserve(pager->current_generation());
  const CollectionInfo& old = *collection->info;
  const OwnedDocument options = without_temp(old.options.view());
  MULTIFORA_ASSIGN(auto info, make_info(old.id, to, Bytes(old.uuid.data(), 16), options.view()));
  const std::string from = old.ns;
  feed->names().will_lose(old.id, {old.ns, old.uuid});
  {
    const std::unique_lock hold(names_mutex);
    collection->info = std::move(info);
  }
  MULTIFORA_TRY(reopen_indexes(*collection));
  mark_dirty(collection, true);
  const std::unique_lock hold(names_mutex);
  by_name.erase(from);
  lose_name(from);
  by_name.emplace(std::string(to), collection);
  return {};
}

Status Store::Impl::apply_set_options(const CollectionPtr& collection, DocumentView options) {
  collection->preserve(pager->current_generation());
  const CollectionInfo& old = *collection->info;
  MULTIFORA_ASSIGN(auto info, make_info(old.id, old.ns, Bytes(old.uuid.data(), 16), options));
  {
    const std::unique_lock hold(names_mutex);
    collection->info = std::move(info);
  }
  mark_dirty(collection, true);
  return {};
}

Status Store::Impl::apply_drop_index(const CollectionPtr& collection, std::uint32_t number) {
  collection->preserve(pager->current_generation());
  auto& indexes = collection->indexes;
  const auto at = std::find_if(indexes.begin(), indexes.end(),
                               [&](const auto& open) { return open->number == number; });
  if (at == indexes.end())
    return {ErrorCode::kDataCorruptionDetected, "the log drops an index that is not there"};
  MULTIFORA_TRY((*at)->index->clear());
  indexes.erase(at);
  mark_dirty(collection, true);
  return {};
}

Status Store::Impl::apply_set_index_spec(const CollectionPtr& collection, std::uint32_t number,
                                         std::string_view kind, DocumentView spec) {
  collection->preserve(pager->current_generation());
  for (auto& open : collection->indexes) {
    if (open->number != number) continue;
    MULTIFORA_ASSIGN(open, open_index(*collection, number, kind, spec, open->index->state()));
    mark_dirty(collection, true);
    return {};
  }
  return {ErrorCode::kDataCorruptionDetected, "the log changes an index that is not there"};
}

Status Store::Impl::apply_catalog(const LogRecord& record) {
  const DocumentView body = record.document;
  if (record.operation == LogOperation::kCreate) return apply_create(record.collection, body);
  if (record.operation == LogOperation::kDropDatabase) return {};
  const CollectionPtr collection = find(record.collection);
  if (!collection)
    return {ErrorCode::kDataCorruptionDetected,
            "the log changes collection " + std::to_string(record.collection) +
                ", which does not exist"};
  const auto number = static_cast<std::uint32_t>(body["number"].number_as_int64());
  switch (record.operation) {
    case LogOperation::kDrop:
      apply_drop(collection);
      return {};
    case LogOperation::kRename:
      return apply_rename(collection, body["to"].as_string());
    case LogOperation::kSetOptions:
      return apply_set_options(collection, body["options"].as_document());
    case LogOperation::kDropIndex:
      return apply_drop_index(collection, number);
    case LogOperation::kSetIndexSpec:
      return apply_set_index_spec(collection, number, body["kind"].as_string(),
                                  body["spec"].as_document());
    default:
      return {ErrorCode::kDataCorruptionDetected, "unknown catalog operation in the log"};
  }
}

// --- commands -------------------------------------------------------------------------------------

Result<LogPosition> Store::create_collection(std::string_view ns, DocumentView options) {
  Impl& impl = *impl_;
  if (auto* const transaction = impl.transaction()) {
    MULTIFORA_TRY_R(transaction->create_collection(ns, options));
    return LogPosition{0};
  }
  MULTIFORA_TRY_R(check_new_namespace(ns));
  MULTIFORA_TRY_R(impl.writable());
  const std::lock_guard ddl(impl.ddl_mutex);
  if (const CollectionPtr existing = impl.find(ns)) {
    if (compare_documents(existing->info->options.view(), options) == 0) return LogPosition{0};
    return fail(ErrorCode::kNamespaceExists,
                std::string(existing->info->is_view ? "View" : "Collection") +
                    " already exists. NS: " + std::string(ns));
  }
  if (const auto* virtuals = impl.host.service<VirtualCollections>();
      virtuals != nullptr && virtuals->find(ns) != nullptr)
    return fail(ErrorCode::kNamespaceExists, "Collection already exists. NS: " + std::string(ns));
  const CollectionId id = impl.next_collection_id;
  const std::array<char, 16> uuid = random_uuid();
  MULTIFORA_ASSIGN_R(const auto info, impl.make_info(id, ns, Bytes(uuid.data(), 16), options));
  DocumentBuilder body;
  body.append("ns", ns);
  body.append_binary("uuid", Bytes(uuid.data(), 16), 4);
  body.append("options", options);
  auto indexes = body.array("indexes");
  if (!info->is_view) {
    const OwnedDocument wanted = id_index_spec(*info);
    MULTIFORA_ASSIGN_R(const NormalizedIndexSpec spec,
                       normalize_index_spec(impl.host, *info, wanted.view()));
    auto row = indexes.object();
    row.append("number", 0);
    row.append("kind", spec.kind->name);
    row.append("spec", spec.spec.view());
  }
  indexes.close();
  const OwnedDocument record = std::move(body).finish();
  const Buffer batch = one_record(LogOperation::kCreate, id, record.view());
  MULTIFORA_ASSIGN_R(Wal::Reservation reservation, impl.reserve_log(batch.size()));
  const GateEntry gate(impl.gate);
  MULTIFORA_TRY_R(impl.apply_create(id, record.view()));
  return impl.append(batch, &reservation);
}

Status Store::Impl::may_drop(const Collection& collection) const {
  for (const auto& open : collection.indexes)
    if (open->building)
      return {ErrorCode::kBackgroundOperationInProgressForNamespace,
              "cannot perform operation: an index build is currently running for collection '" +
                  collection.info->ns + "'"};
  return {};
}

// Drops `doomed`, whose exclusive locks are held, as one batch that ends with `last` (may be empty).
Result<LogPosition> Store::Impl::drop_locked(const std::vector<CollectionPtr>& doomed,
                                             LogOperation last_operation, CollectionId last_id,
                                             DocumentView last,
                                             const std::function<Status()>& apply_last) {
  MULTIFORA_TRY_R(check_no_forks(doomed));
  LogBatch batch;
  for (const CollectionPtr& collection : doomed) {
    MULTIFORA_TRY_R(may_drop(*collection));
    DocumentBuilder body;
    body.append("ns", collection->info->ns);
    body.append_binary("uuid", Bytes(collection->info->uuid.data(), 16), 4);
    if (collection->info->is_view) body.append("view", true);
    if (last_operation == LogOperation::kRename) body.append("replaced", true);
    const OwnedDocument record = std::move(body).finish();
    batch.catalog(LogOperation::kDrop, collection->id, record.view());
  }
  if (!last.empty()) batch.catalog(last_operation, last_id, last);
  MULTIFORA_ASSIGN_R(Wal::Reservation reservation, reserve_log(batch.bytes().size()));
  const GateEntry entered(gate);
  for (const CollectionPtr& collection : doomed) apply_drop(collection);
  if (apply_last) MULTIFORA_TRY_R(apply_last());
  MULTIFORA_ASSIGN_R(const LogPosition position, append(batch, &reservation));
  feed->names().settle(position);
  return position;
}

Result<LogPosition> Store::drop_collection(std::string_view ns) {
  Impl& impl = *impl_;
  MULTIFORA_TRY_R(impl.writable());
  const auto position = impl.without_transactions([&]() -> Result<LogPosition> {
    while (true) {
      abort_index_builds(ns, {}, "collection dropped");
      const std::lock_guard ddl(impl.ddl_mutex);
      const CollectionPtr collection = impl.find(ns);
      if (!collection) return fail(namespace_not_found(ns));
      const ExclusiveLocks locks({collection});
      if (!impl.may_drop(*collection).ok()) continue;  // another build has begun meanwhile
      return impl.drop_locked({collection}, {}, 0, {}, nullptr);
    }
  });
  if (position) MULTIFORA_TRY_R(impl.reclaim_at_once());
  impl.note_progress();
  return position;
}

// A temporary collection ends with the process that made it.
Status Store::Impl::drop_temporary(Store& store) {
  std::vector<std::string> names;
  for (const auto& [ns, collection] : by_name)
    if (collection->info->options.view()["temp"].truthy()) names.push_back(ns);
  for (const std::string& ns : names) MULTIFORA_TRY(status_of(store.drop_collection(ns)));
  return {};
}

Result<LogPosition> Store::drop_database(std::string_view db) {
  Impl& impl = *impl_;
  MULTIFORA_TRY_R(impl.writable());
  const auto position = impl.without_transactions([&]() -> Result<LogPosition> {
    while (true) {
      for (const BuildProgress& build : index_builds())
        if (Namespace::split(build.ns).db == db)
          abort_index_builds(build.ns, {}, "database dropped");
      const std::lock_guard ddl(impl.ddl_mutex);
      std::vector<CollectionPtr> doomed;
      {
        const std::string prefix = std::string(db) + ".";
        const std::shared_lock hold(impl.names_mutex);
        for (auto at = impl.by_name.lower_bound(prefix);
             at != impl.by_name.end() && at->first.starts_with(prefix); ++at)
          doomed.push_back(at->second);
      }
      if (doomed.empty()) return LogPosition{0};
      const ExclusiveLocks locks(doomed);
      const auto may_drop = [&](const CollectionPtr& collection) {
        return impl.may_drop(*collection).ok();
      };
      if (!std::all_of(doomed.begin(), doomed.end(), may_drop)) continue;
      DocumentBuilder body;
      body.append("db", db);
      const OwnedDocument record = std::move(body).finish();
      return impl.drop_locked(doomed, LogOperation::kDropDatabase, 0, record.view(), nullptr);
    }
  });
  if (position) MULTIFORA_TRY_R(impl.reclaim_at_once());
  impl.note_progress();
  return position;
}

Result<LogPosition> Store::rename_collection(std::string_view from, std::string_view to,
                                             bool drop_target) {
  Impl& impl = *impl_;
  MULTIFORA_TRY_R(check_new_namespace(to));
  MULTIFORA_TRY_R(impl.writable());
  return impl.without_transactions([&]() -> Result<LogPosition> {
    const std::lock_guard ddl(impl.ddl_mutex);
    const CollectionPtr source = impl.find(from);
    if (!source)
      return fail(ErrorCode::kNamespaceNotFound,
                  "Source collection " + std::string(from) + " does not exist");
    if (source->info->is_view)
      return fail(ErrorCode::kCommandNotSupportedOnView,
                  "cannot rename view: " + std::string(from));
    const CollectionPtr target = impl.find(to);
    if (target == source)
      return fail(ErrorCode::kIllegalOperation, "Can't rename a collection to itself");
    if (target && !drop_target)
      return fail(ErrorCode::kNamespaceExists, "target namespace exists");
    const ExclusiveLocks locks({source, target});
    MULTIFORA_TRY_R(Impl::check_no_forks({source}));
    MULTIFORA_TRY_R(impl.may_drop(*source));
    DocumentBuilder body;
    body.append("from", from);
    body.append("to", to);
    body.append_binary("uuid", Bytes(source->info->uuid.data(), 16), 4);
    if (target) body.append_binary("dropped", Bytes(target->info->uuid.data(), 16), 4);
    const OwnedDocument record = std::move(body).finish();
    return impl.drop_locked(target ? std::vector{target} : std::vector<CollectionPtr>{},
                            LogOperation::kRename, source->id, record.view(),
                            [&] { return impl.apply_rename(source, to); });
  });
}

Result<LogPosition> Store::set_collection_options(std::string_view ns, DocumentView options) {
  Impl& impl = *impl_;
  MULTIFORA_TRY_R(impl.writable());
  return impl.without_transactions([&]() -> Result<LogPosition> {
    const std::lock_guard ddl(impl.ddl_mutex);
    const CollectionPtr collection = impl.find(ns);
    if (!collection) return fail(namespace_not_found(ns));
    const ExclusiveLocks locks({collection});
    MULTIFORA_TRY_R(Impl::check_no_forks({collection}));
    DocumentBuilder body;
    body.append("options", options);
    body.append("before", collection->info->options.view());
    const OwnedDocument record = std::move(body).finish();
    const Buffer batch = one_record(LogOperation::kSetOptions, collection->id, record.view());
    MULTIFORA_ASSIGN_R(Wal::Reservation reservation, impl.reserve_log(batch.size()));
    const GateEntry gate(impl.gate);
    MULTIFORA_TRY_R(impl.apply_set_options(collection, options));
    return impl.append(batch, &reservation);
  });
}

Result<LogPosition> Store::drop_index(std::string_view ns, std::string_view name) {
  Impl& impl = *impl_;
  MULTIFORA_TRY_R(impl.writable());
  return impl.without_transactions([&]() -> Result<LogPosition> {
    const std::lock_guard ddl(impl.ddl_mutex);
    const CollectionPtr collection = impl.find(ns);
    if (!collection) return fail(namespace_not_found(ns));
    const ExclusiveLocks locks({collection});
    MULTIFORA_TRY_R(Impl::check_no_forks({collection}));
    const OpenIndex* open = collection->find_index(name);
    if (open == nullptr || open->building)
      return fail(ErrorCode::kIndexNotFound, "index not found with name [" + std::string(name) + "]");
    DocumentBuilder body;
    body.append("number", static_cast<std::int64_t>(open->number));
    body.append("name", name);
    body.append("spec", open->index->spec().spec.view());
    const OwnedDocument record = std::move(body).finish();
    const Buffer batch = one_record(LogOperation::kDropIndex, collection->id, record.view());
    MULTIFORA_ASSIGN_R(Wal::Reservation reservation, impl.reserve_log(batch.size()));
    const GateEntry gate(impl.gate);
    MULTIFORA_TRY_R(impl.apply_drop_index(collection, open->number));
    return impl.append(batch, &reservation);
  });
}

Result<LogPosition> Store::set_index_spec(std::string_view ns, std::string_view name,
                                          DocumentView spec) {
  Impl& impl = *impl_;
  MULTIFORA_TRY_R(impl.writable());
  return impl.without_transactions([&]() -> Result<LogPosition> {
    const std::lock_guard ddl(impl.ddl_mutex);
    const CollectionPtr collection = impl.find(ns);
    if (!collection) return fail(namespace_not_found(ns));
    const ExclusiveLocks locks({collection});
    MULTIFORA_TRY_R(Impl::check_no_forks({collection}));
    const OpenIndex* open = collection->find_index(name);
    if (open == nullptr || open->building)
      return fail(ErrorCode::kIndexNotFound,
                  "cannot find index " + std::string(name) + " for ns " + std::string(ns));
    MULTIFORA_ASSIGN_R(const NormalizedIndexSpec normalized,
                       normalize_index_spec(impl.host, *collection->info, spec));
    DocumentBuilder body;
    body.append("number", static_cast<std::int64_t>(open->number));
    body.append("kind", normalized.kind->name);
    body.append("spec", normalized.spec.view());
    body.append("before", open->index->spec().spec.view());
    const OwnedDocument record = std::move(body).finish();
    const Buffer batch = one_record(LogOperation::kSetIndexSpec, collection->id, record.view());
    MULTIFORA_ASSIGN_R(Wal::Reservation reservation, impl.reserve_log(batch.size()));
    const GateEntry gate(impl.gate);
    MULTIFORA_TRY_R(impl.apply_set_index_spec(collection, open->number, normalized.kind->name,
                                              normalized.spec.view()));
    return impl.append(batch, &reservation);
  });
}

}  // namespace multifora
