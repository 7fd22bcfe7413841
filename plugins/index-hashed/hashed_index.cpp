#include "plugins/index-hashed/hashed_index.h"

#include <xxhash.h>

#include "core/plugin/host.h"

namespace multifora {
namespace {

constexpr ValueView kNull(BsonType::kNull, "", 0);

Status no_arrays(const FieldPath& path) {
  return {location_code(16766),
          "hashed indexes do not currently support array values. Found array at path: " +
              std::string(path.dotted())};
}

// The value at `path`; missing where there is none. Fails where an array is or stands in the way.
Result<ValueView> value_without_arrays(DocumentView document, const FieldPath& path) {
  ValueView value = as_value(document);
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (value.type() != BsonType::kObject) return ValueView();
    value = value.as_document()[path.part(i)];
    if (value.type() == BsonType::kArray) return fail(no_arrays(path));
  }
  return value;
}

}  // namespace

std::int64_t index_hash(const ValueView& value, const Collator* collator) {
  KeyStringBuilder key;
  key.append(value, false, collator);
  return static_cast<std::int64_t>(XXH3_64bits(key.key().data(), key.key().size()));
}

HashedIndex::HashedIndex(IndexSpec spec, std::unique_ptr<Index> inner)
    : IndexOver(std::move(spec), std::move(inner)), capabilities_(kIndexEquality | kIndexCount) {
  for (const Element& element : IndexOver::spec().key_pattern.view()) {
    Field field;
    field.path = FieldPath(element.name());
    field.hashed = element.type() == BsonType::kString;
    field.descending = !field.hashed && element->number_as_double() < 0;
    fields_.push_back(std::move(field));
  }
  if (fields_.size() == 1) return;
  capabilities_ |= kIndexRange | kIndexOrder;
  if (!IndexOver::spec().collator) capabilities_ |= kIndexCovered;
}

Status HashedIndex::extract(DocumentView document, IndexKeySet& out) const {
  out.clear();
  if (spec().partial_filter && !spec().partial_filter->matches(document)) return {};
  KeyStringBuilder key;
  bool any = false;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    MULTIFORA_ASSIGN(const ValueView value, value_without_arrays(document, fields_[i].path));
    any = any || !value.missing();
    append_bound(key, i, value.missing() ? kNull : value);
  }
  if (spec().sparse && !any) return {};
  out.keys.push_back({key.key(), key.type_bits()});
  return {};
}

void HashedIndex::append_bound(KeyStringBuilder& key, std::size_t field,
                               const ValueView& value) const {
  const Field& part = fields_[field];
  if (!part.hashed) {
    key.append(value, part.descending, spec().collator.get());
    return;
  }
  char bytes[8];
  store_le(bytes, index_hash(value, spec().collator.get()));
  key.append(ValueView(BsonType::kInt64, bytes, sizeof bytes));
}

}  // namespace multifora
