#include "plugins/query-engine/foreign_table.h"

#include <algorithm>

#include "core/bson/compare.h"
#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

constexpr char kNothing = 0;
const ValueView kNull(BsonType::kNull, &kNothing, 0);

}  // namespace

bool ForeignTable::add(DocumentView document) {
  bytes_ += document.size_bytes() + sizeof(OwnedDocument);
  const std::size_t index = documents_.size();
  documents_.emplace_back(document);
  std::vector<std::uint64_t> hashes;
  visit_path(documents_.back().view(), path_, true, [&](const PathHit& hit) {
    hashes.push_back(hash_value(hit.value.missing() ? kNull : hit.value, 0, collator_));
    return true;
  });
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  for (const std::uint64_t h : hashes) by_hash_.emplace(h, index);
  bytes_ += hashes.size() * 48;
  return bytes_ <= limit_;
}

bool ForeignTable::equals(std::size_t document, const ValueView& wanted) const {
  bool found = false;
  visit_path(documents_[document].view(), path_, true, [&](const PathHit& hit) {
    found = equal_values(hit.value.missing() ? kNull : hit.value, wanted, collator_);
    return !found;
  });
  return found;
}

Status ForeignTable::append_matches(const std::vector<Value>& wanted, ArrayBuilder& out) const {
  std::vector<std::size_t> indexes;
  for (const Value& v : wanted) {
    const auto [from, to] = by_hash_.equal_range(hash_value(v.view(), 0, collator_));
    for (auto it = from; it != to; ++it)
      if (equals(it->second, v.view())) indexes.push_back(it->second);
  }
  std::sort(indexes.begin(), indexes.end());
  indexes.erase(std::unique(indexes.begin(), indexes.end()), indexes.end());
  for (const std::size_t i : indexes) {
    out.append(documents_[i].view());
    if (!check_document_size(out.size_bytes()).ok())
      return {location_code(4568),
              "Total size of documents matching $lookup's fields exceeds maximum document size"};
  }
  return {};
}

}  // namespace multifora
