#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/bson/path.h"
#include "plugins/query-engine/window_function.h"

namespace multifora {
namespace {

using enum BsonType;

constexpr int kFailedToParse = 9;

Status read_bound(const ValueView& v, bool whole, std::optional<double>* out) {
  if (v.type() == kString) {
    if (v.as_string() == "unbounded") return {};
    if (v.as_string() == "current") {
      *out = 0;
      return {};
    }
  }
  std::int64_t n = 0;
  if (!v.is_number() || (whole && !v.exact_int64(&n)))
    return {location_code(kFailedToParse), fmt::format("Window bounds must be 'unbounded', 'current', or a number: {}",
                                                       value_text(v))};
  *out = v.number_as_double();
  return {};
}

Status read_bounds(const ValueView& v, bool whole, WindowBounds& out) {
  if (v.type() != kArray || v.as_document().count() != 2)
    return {location_code(kFailedToParse), "Window bounds must be a 2-element array"};
  auto it = v.as_document().begin();
  MULTIFORA_TRY(read_bound(it->value(), whole, &out.low));
  MULTIFORA_TRY(read_bound((++it)->value(), whole, &out.high));
  if (out.low && out.high && *out.low > *out.high)
    return {location_code(5339900), fmt::format("Lower bound must not exceed upper bound: [{}, {}]", *out.low, *out.high)};
  return {};
}

}  // namespace

Result<WindowBounds> parse_window(const ValueView& window, const SortPattern* sort) {
  WindowBounds out;
  if (window.missing()) return out;
  if (window.type() != kObject)
    return fail(ErrorCode::kFailedToParse, "'window' field must be an object");
  bool documents = false;
  bool range = false;
  for (const Element& e : window.as_document()) {
    if (e.name() == "documents") {
      documents = true;
      MULTIFORA_TRY_R(read_bounds(e.value(), true, out));
    } else if (e.name() == "range") {
      range = true;
      out.kind = WindowBounds::Kind::kRange;
      MULTIFORA_TRY_R(read_bounds(e.value(), false, out));
    } else if (e.name() == "unit") {
      if (e.type() == kString) out.unit = parse_date_unit(e->as_string());
      if (!out.unit) return fail(ErrorCode::kFailedToParse, "'unit' must be the name of a time unit");
    } else {
      return fail(ErrorCode::kFailedToParse, fmt::format("'window' field contains unknown argument: {}", e.name()));
    }
  }
  if (documents && range)
    return fail(ErrorCode::kFailedToParse, "Window bounds can specify either 'documents' or 'range', not both.");
  if (out.unit && !range)
    return fail(ErrorCode::kFailedToParse, "Window bounds can only specify 'unit' with range-based bounds.");
  if (documents && (out.low || out.high) && sort == nullptr)
    return fail_code(5339901, "Document-based bounds require a sortBy");
  if (range && (sort == nullptr || sort->parts().size() != 1))
    return fail_code(5339902, "Range-based bounds require sortBy a single field");
  if (range && sort->parts()[0].descending)
    return fail_code(8947401, "Range-based bounds require an ascending sortBy");
  return out;
}

namespace {

std::size_t clamp_index(double v, std::size_t n) {
  if (v <= 0) return 0;
  return v >= static_cast<double>(n) ? n : static_cast<std::size_t>(v);
}

std::vector<IndexRange> document_ranges(std::size_t n, const WindowBounds& bounds) {
  std::vector<IndexRange> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = static_cast<double>(i);
    out[i].from = bounds.low ? clamp_index(at + *bounds.low, n) : 0;
    out[i].to = bounds.high ? clamp_index(at + *bounds.high + 1, n) : n;
    if (out[i].to < out[i].from) out[i].to = out[i].from;
  }
  return out;
}

// The sort key of a document as a number: dates in milliseconds.
Result<double> range_key(DocumentView d, const std::string& path, bool dates) {
  const ValueView v = value_at(d, path);
  if (dates) {
    if (v.type() != kDate)
      return fail_code(5429513, fmt::format("Invalid range: Expected the sortBy field to be a Date, but it was {}",
                                            type_text(v)));
    return static_cast<double>(v.as_date_ms());
  }
  if (!v.is_number())
    return fail_code(5429414, fmt::format("Invalid range: Expected the sortBy field to be a number, but it was {}",
                                          type_text(v)));
  return v.number_as_double();
}

double shifted(double key, double by, const std::optional<DateUnit>& unit) {
  if (!unit) return key + by;
  const std::optional<std::int64_t> moved =
      date_add(static_cast<std::int64_t>(key), *unit, static_cast<std::int64_t>(by), *TimeZone::utc());
  return moved ? static_cast<double>(*moved) : key;
}

}  // namespace

Result<std::vector<IndexRange>> window_ranges(const Partition& partition, const WindowBounds& bounds,
                                              const SortPattern* sort) {
  const std::size_t n = partition.documents.size();
  if (bounds.kind == WindowBounds::Kind::kDocuments) return document_ranges(n, bounds);
  std::vector<double> keys;
  for (const OwnedDocument& d : partition.documents) {
    MULTIFORA_ASSIGN_R(const double key, range_key(d.view(), sort->parts()[0].path, bounds.unit.has_value()));
    keys.push_back(key);
  }
  std::vector<IndexRange> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (bounds.low)
      out[i].from = static_cast<std::size_t>(
          std::lower_bound(keys.begin(), keys.end(), shifted(keys[i], *bounds.low, bounds.unit)) - keys.begin());
    out[i].to = n;
    if (bounds.high)
      out[i].to = static_cast<std::size_t>(
          std::upper_bound(keys.begin(), keys.end(), shifted(keys[i], *bounds.high, bounds.unit)) - keys.begin());
    if (out[i].to < out[i].from) out[i].to = out[i].from;
  }
  return out;
}

}  // namespace multifora
