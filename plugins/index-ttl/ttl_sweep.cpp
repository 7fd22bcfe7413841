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

Result<std::vector<Due>> find_due(const IndexRef& ref, const DueBand& band) {
  std::vector<Due> due;
  const auto cursor = ref.index->cursor(ref.state);
  MULTIFORA_TRY_R(cursor->seek(band.first));
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
      deleted_(metrics.counter("ttl_deleted_documents_total", "Documents that TTL indexes expired")) {}

Status TtlSweep::run(Store& store) {
  for (const std::string& db : store.database_names())
    for (const auto& info : store.collections(db))
      if (!info->is_view && !info->capped) MULTIFORA_TRY(sweep_collection(store, info->ns));
  passes_.add();
  return {};
}

Status TtlSweep::sweep_collection(Store& store, const std::string& ns) {
  std::vector<std::string> names;
  {
    MULTIFORA_ASSIGN(const auto view, store.read(ns));
    if (!view) return {};
    for (const IndexRef& ref : view->indexes())
      if (ref.kind == "ttl" && !ref.building) names.push_back(ref.index->spec().name);
  }
  for (const std::string& name : names) {
    bool more = true;
    while (more) {
      std::vector<Due> due;
      {
        MULTIFORA_ASSIGN(const auto view, store.read(ns));
        const IndexRef* ref = view ? view->index_named(name) : nullptr;
        if (ref == nullptr || ref->building) break;
        const DueBand band(*ref->index, store.clock().wall_ms());
        MULTIFORA_ASSIGN(due, find_due(*ref, band));
      }
      more = due.size() == kBatch;
      if (due.empty()) break;
      MULTIFORA_ASSIGN(const auto writer, store.write(ns, false));
      if (!writer) return {};
      for (const Due& entry : due) {
        MULTIFORA_ASSIGN(const bool there, still_due(writer->view(), name, entry));
        if (!there) continue;
        MULTIFORA_ASSIGN(const auto document, writer->view().find(entry.id));
        if (!document) continue;
        MULTIFORA_TRY(writer->remove(entry.id, *document));
        deleted_.add();
      }
      MULTIFORA_TRY(status_of(writer->commit()));
    }
  }
  return {};
}

}  // namespace multifora
