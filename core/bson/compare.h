// MongoDB's total order over BSON values: by type bracket (types.h), then by value. Numbers of all
// types compare exactly by value (int64 against double and decimal128 without rounding); NaN is
// below every number and equals NaN; -0 equals 0. Objects compare element by element: type bracket,
// then name, then value; a prefix is smaller. Arrays the same without names. binData: length,
// subtype, bytes. Sources: the manual's "Comparison/Sort Order".
#pragma once

#include <cstdint>

#include "core/bson/collator.h"
#include "core/bson/view.h"

namespace multifora {

// < 0, 0, > 0. Missing sorts with undefined, below null.
int compare_values(const ValueView& a, const ValueView& b, const Collator* collator = nullptr);
// Names count unless `ignore_names`.
int compare_documents(DocumentView a, DocumentView b, const Collator* collator = nullptr,
                      bool ignore_names = false);
// compare_values(...) == 0, cheaper.
bool equal_values(const ValueView& a, const ValueView& b, const Collator* collator = nullptr);
// Equal values (across number types) hash alike.
std::uint64_t hash_value(const ValueView& value, std::uint64_t seed,
                         const Collator* collator = nullptr);
int compare_numbers(const ValueView& a, const ValueView& b);
// Same type and same bytes; numbers are not converted.
bool identical_values(const ValueView& a, const ValueView& b);

}  // namespace multifora
