// The bounds of one index scan as bytes: which keys lie inside, where to seek next, and the
// contiguous key ranges they come to (for exact counts).
//
// A key is a row of self-delimiting fields. For each field the bounds are intervals of encodings, in
// the order of the key bytes. A key outside leads to the place of the next one that could be inside,
// so that a scan of {a: [1, 1], b: [5, 9]} or of two-sided gaps jumps instead of walking.
//
// Immutable after making; any thread.
#pragma once

#include <vector>

#include "core/base/bytes.h"
#include "core/plugin/index.h"
#include "plugins/query-engine/bounds.h"

namespace multifora {

class ScanBounds {
 public:
  // `bounds`: one for each field of `key_pattern` (the index's, or what its paths_for gave), in
  // ascending values.
  ScanBounds(const Index& index, DocumentView key_pattern, const std::vector<FieldBounds>& bounds);
  // Every key with from <= key < to (empty: no end), as min() and max() give them.
  ScanBounds(Buffer from, Buffer to);

  bool empty() const { return empty_; }

  // Where a scan begins. `strictly_before` (backwards): the last key before everything that starts
  // with `key`; otherwise keys that start with it count as before it.
  struct Position {
    Buffer key;
    bool strictly_before = false;
  };
  Position start(bool backward) const;

  enum class Verdict { kInside, kSeek, kDone };
  // kSeek: `next` is where the scan goes on.
  Verdict check(Bytes key, bool backward, Position& next) const;
  // After kInside for `key`: all keys from it up to (not including) the result, or, backwards, down to
  // (including) it are inside. False: only this key is known to be.
  bool run_end(Bytes key, bool backward, Buffer& end) const;

  struct Range {
    Buffer from, to;  // from <= key < to; empty `to`: no end
  };
  struct Ranges {
    std::vector<Range> ranges;
    bool exact = true;  // they hold nothing but keys inside
  };
  // At most `ranges_max` ranges that together hold every key inside.
  Ranges ranges(std::size_t ranges_max) const;

 private:
  struct Span {
    Buffer low, high;
    bool low_inclusive = true, high_inclusive = true;
    bool point = false;
  };
  struct Field {
    std::vector<Span> spans;
    bool all = false;
    bool descending = false;
  };
  void append_starts(std::size_t field, const Span& span, Position& out) const;
  void append_ends(std::size_t field, const Span& span, Position& out) const;
  Verdict check_forward(Bytes key, Position& next) const;
  Verdict check_backward(Bytes key, Position& next) const;
  Range range_of(Bytes prefix, const Span& span) const;

  std::vector<Field> fields_;
  std::size_t checked_fields_ = 0;  // later ones are unbounded
  bool empty_ = false;
  bool fixed_ = false;
  Buffer fixed_from_, fixed_to_;
};

}  // namespace multifora
