#include "plugins/index-ttl/ttl_sweep.h"

#include <limits>
#include <optional>
#include <vector>

#include "core/plugin/index.h"

namespace multifora {
namespace {

// Documents deleted under one hold of a collection's lock.
constexpr std::size_t kBatch = 500;

ValueView date_view(const std::int64_t& ms) {
  return {BsonType::kDate, reinterpret_cast<const char*>(&ms), sizeof ms};
}

// The keys of the dates that are due: from the oldest possible date to now - expireAfterSeconds.
struct DueBand {
  Buffer first, last;

  DueBand(const Index& index, std::int64_t now_ms) {
    const std::int64_t seconds =
        index.spec().spec.view()["expireAfterSeconds"].number_as_int64();
    const std::int64_t oldest = std::numeric_limits<std::int64_t>::min();
    const std::int64_t due = now_ms - seconds * 1000;
    KeyStringBuilder from, to;
    index.append_bound(from, 0, date_view(oldest));
    index.append_bound(to, 0, date_view(due));
    first = from.key();
    last = to.key();
    if (last < first) std::swap(first, last);  // a descending index
  }
  bool holds(Bytes key) const { return key <= Bytes(last); }
};

struct Due {
  Buffer key;
  RecordId id;
};

// The next entries of the band behind (`after`, `after_id`).
Result<std::vector<Due>> find_due(const IndexRef& ref, const DueBand& band, Bytes after,
                                  RecordId after_id) {
  std::vector<Due> due;
  const auto cursor = ref.index->cursor(ref.state);
  if (after.empty())
    MULTIFORA_TRY_R(cursor->seek(band.first));
  else
    MULTIFORA_TRY_R(cursor->seek(after, after_id + 1));
  while (cursor->valid() && due.size() < kBatch && band.holds(cursor->key())) {
    due.push_back({Buffer(cursor->key()), cursor->record_id()});
    MULTIFORA_TRY_R(cursor->next());
  }
  return due;
}

// Is the entry still there? A document may have been changed or deleted since it was found.
Result<bool> still_due(const CollectionView& view, std::string_view index_name, const Due& due) {
  const IndexRef* ref = view.index_named(index_name);
  if (ref == nullptr || ref->building) return false;
  const auto cursor = ref->index->cursor(ref->state);
  MULTIFORA_TRY_R(cursor->seek(due.key, due.id));
  return cursor->valid() && cursor->compare_key(due.key) == 0 && cursor->record_id() == due.id;
}

}  // namespace

TtlSweep::TtlSweep(Metrics& metrics, std::int64_t interval_ms)
    : interval_ms_(interval_ms),
      passes_(metrics.counter("ttl_passes_total", "Sweeps over all TTL indexes")),
      deleted_(metrics.counter("ttl_deleted_documents_total", "Documents that TTL indexes expired")) {
  metrics.gauge("ttl_monitor_sleep_seconds", "Time between sweeps over all TTL indexes")
      .set(interval_ms / 1000);
}

Status TtlSweep::begin_pass(Store& store) {
  for (const std::string& db : store.database_names())
    for (const auto& info : store.collections(db)) {
      if (info->is_view || info->capped) continue;
      MULTIFORA_ASSIGN(const auto view, store.read(info->ns));
      if (!view) continue;
      for (const IndexRef& ref : view->indexes())
        if (ref.kind == "ttl" && !ref.building)
          todo_.push_back({info->ns, ref.index->spec().name, {}, 0});
    }
  in_pass_ = true;
  return {};
}

Status TtlSweep::run(Store& store) {
  if (!store.health().ok()) {  // read-only; why was logged
    todo_.clear();
    in_pass_ = false;
    return {};
  }
  if (!in_pass_) MULTIFORA_TRY(begin_pass(store));
  std::size_t deleted = 0;
  while (!todo_.empty() && deleted == 0) {
    Work& work = todo_.front();
    const Result<bool> more = sweep_batch(store, work, &deleted);
    if (!more)
      store.log().event(LogLevel::kError, "ttl", "Expired documents could not be deleted",
                        {{"ns", std::string_view(work.ns)},
                         {"index", std::string_view(work.index)},
                         {"error", std::string_view(more.error().message())}});
    if (!more || !*more) todo_.pop_front();
  }
  if (!todo_.empty()) return {};
  in_pass_ = false;
  passes_.add();
  return {};
}

Result<bool> TtlSweep::sweep_batch(Store& store, Work& work, std::size_t* deleted) {
  std::vector<Due> due;
  {
    MULTIFORA_ASSIGN_R(const auto view, store.read(work.ns));
    const IndexRef* ref = view ? view->index_named(work.index) : nullptr;
    if (ref == nullptr || ref->building || ref->kind != "ttl") return false;
    const DueBand band(*ref->index, store.clock().wall_ms());
    MULTIFORA_ASSIGN_R(due, find_due(*ref, band, work.after, work.after_id));
  }
  if (due.empty()) return false;
  work.after = due.back().key;
  work.after_id = due.back().id;
  MULTIFORA_ASSIGN_R(const auto writer, store.write(work.ns, false));
  if (!writer) return false;
  for (const Due& entry : due) {
    MULTIFORA_ASSIGN_R(const bool there, still_due(writer->view(), work.index, entry));
    if (!there) continue;
    MULTIFORA_ASSIGN_R(const auto document, writer->view().find(entry.id));
    if (!document) continue;
    const Status removed = writer->remove(entry.id, *document);
    // A transaction has it: the next pass looks again.
    if (removed.code() == ErrorCode::kWriteConflict) continue;
    MULTIFORA_TRY_R(removed);
    ++*deleted;
    deleted_.add();
  }
  MULTIFORA_TRY_R(status_of(writer->commit()));
  return due.size() == kBatch;
}

}  // namespace multifora
