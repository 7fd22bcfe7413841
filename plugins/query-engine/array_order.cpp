#include "plugins/query-engine/array_order.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/bson/compare.h"
#include "core/bson/path.h"
#include "plugins/query-engine/expression.h"

namespace multifora {
namespace {

Result<bool> is_descending(const ValueView& v, int code) {
  std::int64_t n = 0;
  if (v.exact_int64(&n) && (n == 1 || n == -1)) return n == -1;
  return fail(location_code(code), "a sort order must be 1 (ascending) or -1 (descending)");
}

ValueView key_of(const ValueView& element, const std::string& path) {
  static constexpr char kNothing = 0;
  ValueView v;
  if (element.type() == BsonType::kObject) v = value_at(element.as_document(), path);
  return v.missing() ? ValueView(BsonType::kNull, &kNothing, 0) : v;
}

}  // namespace

Result<ArrayOrder> ArrayOrder::parse(const ValueView& spec, int code) {
  ArrayOrder order;
  if (spec.is_number()) {
    MULTIFORA_ASSIGN_R(order.descending_, is_descending(spec, code));
    return order;
  }
  if (spec.type() != BsonType::kObject || spec.as_document().empty())
    return fail(location_code(code), "sortBy must be 1, -1 or an object of sort orders");
  for (const Element& e : spec.as_document()) {
    MULTIFORA_TRY_R(check_field_path(e.name()));
    MULTIFORA_ASSIGN_R(const bool descending, is_descending(e.value(), code));
    order.parts_.push_back({std::string(e.name()), descending});
  }
  return order;
}

int ArrayOrder::compare(const ValueView& a, const ValueView& b, const Collator* collator) const {
  if (parts_.empty()) return (descending_ ? -1 : 1) * compare_values(a, b, collator);
  for (const Part& p : parts_) {
    const int c = compare_values(key_of(a, p.path), key_of(b, p.path), collator);
    if (c != 0) return p.descending ? -c : c;
  }
  return 0;
}

Status ArrayOrder::sort(std::vector<ValueView>& values, const Collator* collator,
                        Interrupt* interrupt) const {
  Status stop;
  std::size_t n = 0;
  // Once it is to stop, everything is equal: the sort ends soon.
  std::stable_sort(values.begin(), values.end(), [&](const ValueView& a, const ValueView& b) {
    if (interrupt != nullptr && (++n & 1023) == 0 && stop.ok()) stop = interrupt->check_slow();
    return stop.ok() && compare(a, b, collator) < 0;
  });
  return stop;
}

}  // namespace multifora
