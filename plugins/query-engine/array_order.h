// The order of an array's elements by a sort specification: 1 or -1 (whole values), or a pattern
// of dotted paths inside elements ({a: 1, "b.c": -1}; a missing path counts as null, arrays are
// not entered). For $sortArray. Immutable; any thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/interrupt.h"
#include "core/base/status.h"
#include "core/bson/collator.h"
#include "core/bson/view.h"

namespace multifora {

class ArrayOrder {
 public:
  // `code`: the error for a wrong specification.
  static Result<ArrayOrder> parse(const ValueView& spec, int code);
  int compare(const ValueView& a, const ValueView& b, const Collator* collator) const;
  // Sorts stably. Fails with the interrupt's reason (null: none) where that came first; the order is
  // then any.
  Status sort(std::vector<ValueView>& values, const Collator* collator, Interrupt* interrupt) const;

 private:
  struct Part {
    std::string path;
    bool descending;
  };
  std::vector<Part> parts_;  // empty: whole values
  bool descending_ = false;
};

}  // namespace multifora
