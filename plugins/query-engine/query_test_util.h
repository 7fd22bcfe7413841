// Tests only: documents from text.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include "core/base/assert.h"
#include "core/bson/extended_json.h"
#include "core/bson/view.h"

namespace multifora::test {

// Of random tests: MULTIFORA_TEST_SEED, or another one each time; and how many pairs they try,
// MULTIFORA_TEST_PAIRS where it is set.
inline unsigned property_seed() {
  const char* given = std::getenv("MULTIFORA_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                          : std::random_device{}();
}
inline std::uint64_t property_pairs(std::uint64_t usual) {
  const char* given = std::getenv("MULTIFORA_TEST_PAIRS");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

// Extended JSON; single quotes stand for double ones.
inline OwnedDocument doc(std::string_view json) {
  std::string text(json);
  for (char& c : text)
    if (c == '\'') c = '"';
  Result<OwnedDocument> parsed = from_extended_json(text);
  MULTIFORA_ASSERT(parsed.has_value());
  return std::move(*parsed);
}

inline std::string text(DocumentView document) {
  return to_extended_json(document, JsonMode::kRelaxed);
}
inline std::string text(std::string_view bytes) {
  return text(DocumentView::assume_valid(Bytes(bytes)));
}
// The same document, as to_extended_json writes it.
inline std::string same(std::string_view json) {
  const OwnedDocument document = doc(json);
  return text(document.view());
}

}  // namespace multifora::test
