#include "plugins/query-engine/bounds_scan.h"

#include <algorithm>

#include "core/bson/key_string.h"

namespace multifora {
namespace {

constexpr char kAboveAll[] = "\xff";  // no field's encoding starts with it, in either direction

Buffer encode(const Index& index, std::size_t field, const Value& value) {
  KeyStringBuilder builder;
  index.append_bound(builder, field, value.view());
  return builder.key();
}

bool is_descending(const ValueView& direction) {
  return direction.is_number() && direction.number_as_double() < 0;
}

}  // namespace

ScanBounds::ScanBounds(const Index& index, DocumentView key_pattern,
                       const std::vector<FieldBounds>& bounds) {
  std::size_t number = 0;
  for (const Element& part : key_pattern) {
    Field field;
    field.descending = is_descending(part.value());
    const FieldBounds& wanted = bounds[number];
    if (wanted.is_all()) {
      field.all = true;
      Span span;
      span.high = kAboveAll;
      field.spans.push_back(std::move(span));
    } else {
      for (const Interval& interval : wanted.intervals) {
        Span span;
        span.low = encode(index, number, interval.low);
        span.high = interval.is_point ? span.low : encode(index, number, interval.high);
        span.low_inclusive = interval.low_inclusive;
        span.high_inclusive = interval.high_inclusive;
        span.point = interval.is_point;
        if (field.descending && !span.point) {
          std::swap(span.low, span.high);
          std::swap(span.low_inclusive, span.high_inclusive);
        }
        field.spans.push_back(std::move(span));
      }
      // Hashed fields have only points, in whatever order their hashes are.
      std::sort(field.spans.begin(), field.spans.end(), [](const Span& a, const Span& b) {
        return a.low != b.low ? a.low < b.low : a.low_inclusive && !b.low_inclusive;
      });
      empty_ = empty_ || field.spans.empty();
      checked_fields_ = number + 1;
    }
    fields_.push_back(std::move(field));
    ++number;
  }
}

ScanBounds::ScanBounds(Buffer from, Buffer to)
    : fixed_(true), fixed_from_(std::move(from)), fixed_to_(std::move(to)) {}

// The first key that could be inside, given the fields before `field` (already in `out`).
void ScanBounds::append_starts(std::size_t field, const Span& first, Position& out) const {
  const Span* span = &first;
  while (true) {
    if (fields_[field].all) return;
    out.key += span->low;
    if (!span->low_inclusive) {
      out.key = key_string_successor(out.key);
      return;
    }
    if (++field >= checked_fields_) return;
    span = &fields_[field].spans.front();
  }
}

void ScanBounds::append_ends(std::size_t field, const Span& last, Position& out) const {
  const Span* span = &last;
  while (true) {
    if (fields_[field].all) return;
    out.key += span->high;
    if (!span->high_inclusive) {
      out.strictly_before = true;
      return;
    }
    if (++field >= checked_fields_) return;
    span = &fields_[field].spans.back();
  }
}

ScanBounds::Position ScanBounds::start(bool backward) const {
  Position out;
  if (fixed_) {
    out.key = backward ? fixed_to_ : fixed_from_;
    out.strictly_before = backward && !fixed_to_.empty();
    return out;
  }
  if (checked_fields_ == 0) return out;
  if (backward)
    append_ends(0, fields_[0].spans.back(), out);
  else
    append_starts(0, fields_[0].spans.front(), out);
  return out;
}

ScanBounds::Verdict ScanBounds::check(Bytes key, bool backward, Position& next) const {
  if (fixed_) {
    const bool inside = backward ? key >= Bytes(fixed_from_)
                                 : fixed_to_.empty() || key < Bytes(fixed_to_);
    return inside ? Verdict::kInside : Verdict::kDone;
  }
  next.key.clear();
  next.strictly_before = false;
  return backward ? check_backward(key, next) : check_forward(key, next);
}

ScanBounds::Verdict ScanBounds::check_forward(Bytes key, Position& next) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < checked_fields_; ++i) {
    const Field& field = fields_[i];
    const std::size_t size = key_string_field_size(key.substr(at), field.descending);
    const Bytes part = key.substr(at, size);
    if (!field.all) {
      const auto span = std::partition_point(
          field.spans.begin(), field.spans.end(), [&](const Span& candidate) {
            const int order = Bytes(candidate.high).compare(part);
            return order < 0 || (order == 0 && !candidate.high_inclusive);
          });
      if (span == field.spans.end()) {
        if (i == 0) return Verdict::kDone;
        next.key = key_string_successor(key.substr(0, at));
        return next.key.empty() ? Verdict::kDone : Verdict::kSeek;
      }
      const int order = part.compare(span->low);
      if (order < 0 || (order == 0 && !span->low_inclusive)) {
        next.key = key.substr(0, at);
        append_starts(i, *span, next);
        return next.key.empty() ? Verdict::kDone : Verdict::kSeek;
      }
    }
    at += size;
  }
  return Verdict::kInside;
}

ScanBounds::Verdict ScanBounds::check_backward(Bytes key, Position& next) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < checked_fields_; ++i) {
    const Field& field = fields_[i];
    const std::size_t size = key_string_field_size(key.substr(at), field.descending);
    const Bytes part = key.substr(at, size);
    if (!field.all) {
      auto span = std::partition_point(
          field.spans.begin(), field.spans.end(), [&](const Span& candidate) {
            const int order = Bytes(candidate.low).compare(part);
            return order < 0 || (order == 0 && candidate.low_inclusive);
          });
      if (span == field.spans.begin()) {
        if (i == 0) return Verdict::kDone;
        next.key = key.substr(0, at);
        next.strictly_before = true;
        return Verdict::kSeek;
      }
      --span;
      const int order = part.compare(span->high);
      if (order > 0 || (order == 0 && !span->high_inclusive)) {
        next.key = key.substr(0, at);
        append_ends(i, *span, next);
        return Verdict::kSeek;
      }
    }
    at += size;
  }
  return Verdict::kInside;
}

ScanBounds::Range ScanBounds::range_of(Bytes prefix, const Span& span) const {
  Range range;
  range.from = Buffer(prefix) + span.low;
  if (!span.low_inclusive) range.from = key_string_successor(range.from);
  range.to = Buffer(prefix) + span.high;
  if (span.high_inclusive) range.to = key_string_successor(range.to);
  return range;
}

bool ScanBounds::run_end(Bytes key, bool backward, Buffer& end) const {
  if (fixed_) {
    end = backward ? fixed_from_ : fixed_to_;
    return true;
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < checked_fields_; ++i) {
    const Field& field = fields_[i];
    const std::size_t size = key_string_field_size(key.substr(at), field.descending);
    if (field.all) return false;
    const Bytes part = key.substr(at, size);
    const auto span = std::partition_point(
        field.spans.begin(), field.spans.end(), [&](const Span& candidate) {
          const int order = Bytes(candidate.high).compare(part);
          return order < 0 || (order == 0 && !candidate.high_inclusive);
        });
    const bool last = i + 1 == checked_fields_;
    if (!span->point && !last) return false;
    if (last) {
      const Range range = range_of(key.substr(0, at), *span);
      end = backward ? range.from : range.to;
      return backward || !end.empty();
    }
    at += size;
  }
  end.clear();  // everything
  return true;
}

ScanBounds::Ranges ScanBounds::ranges(std::size_t ranges_max) const {
  Ranges out;
  if (empty_) return out;
  if (fixed_) {
    out.ranges.push_back({fixed_from_, fixed_to_});
    return out;
  }
  std::vector<Buffer> prefixes(1);
  for (std::size_t i = 0; i < checked_fields_; ++i) {
    const Field& field = fields_[i];
    const bool last = i + 1 == checked_fields_;
    const bool points = std::all_of(field.spans.begin(), field.spans.end(),
                                    [](const Span& span) { return span.point; });
    if (prefixes.size() * field.spans.size() > ranges_max) {
      // Too many: from the first to the last of each.
      Span hull = field.spans.front();
      hull.high = field.spans.back().high;
      hull.high_inclusive = field.spans.back().high_inclusive;
      for (const Buffer& prefix : prefixes) out.ranges.push_back(range_of(prefix, hull));
      out.exact = false;
      return out;
    }
    if (points && !last) {
      std::vector<Buffer> longer;
      for (const Buffer& prefix : prefixes)
        for (const Span& span : field.spans) longer.push_back(prefix + span.low);
      prefixes = std::move(longer);
      continue;
    }
    for (const Buffer& prefix : prefixes)
      for (const Span& span : field.spans) out.ranges.push_back(range_of(prefix, span));
    out.exact = last;
    return out;
  }
  out.ranges.push_back({});  // no bound at all
  return out;
}

}  // namespace multifora
