// Foreign bytes through the validator, and all that takes what it lets through: walking, comparing,
// hashing, rebuilding, key strings, extended JSON, patches.
#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "core/bson/key_string.h"
#include "core/bson/patch.h"
#include "core/bson/validate.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/random_bson.h"

namespace multifora {
namespace {

void check_walk(DocumentView document, DocumentBuilder& copy) {
  for (const Element& e : document) {
    copy.append(e);
    FUZZ_CHECK(is_valid_type(static_cast<std::int8_t>(e.type())));
    if (e.type() == BsonType::kObject || e.type() == BsonType::kArray) {
      DocumentBuilder nested;
      check_walk(e->as_document(), nested);
      FUZZ_CHECK(std::move(nested).finish().bytes() == e->as_document().bytes());
    }
  }
}

void check_key_strings(DocumentView document) {
  KeyStringBuilder key;
  std::vector<bool> descending;
  for (const Element& e : document) {
    descending.push_back(descending.size() % 2 == 1);
    key.append(e.value(), descending.back());
  }
  DocumentBuilder out;
  FUZZ_CHECK(decode_key_string(key.key(), key.type_bits(), {}, descending, out).ok());
  const OwnedDocument decoded = std::move(out).finish();
  FUZZ_CHECK(compare_documents(decoded.view(), document, nullptr, true) == 0);
}

void check_document(DocumentView document) {
  DocumentBuilder copy;
  check_walk(document, copy);
  FUZZ_CHECK(std::move(copy).finish().bytes() == document.bytes());
  FUZZ_CHECK(compare_documents(document, document) == 0);
  hash_value(as_value(document), 1);
  check_key_strings(document);
  for (const JsonMode mode : {JsonMode::kCanonical, JsonMode::kRelaxed}) {
    FUZZ_CHECK(is_valid_utf8(to_extended_json(document, mode)));
  }
}

void check_patch(DocumentView before, DocumentView after) {
  const Buffer patch = make_patch(before, after);
  FUZZ_CHECK(patch.size() <= after.size_bytes() + 1);
  const auto applied = apply_patch(before, patch);
  FUZZ_CHECK(applied.has_value() && applied->bytes() == after.bytes());
  FUZZ_CHECK(describe_patch(make_difference(before, after), true).has_value());
}

void check_foreign_patch(DocumentView before, Bytes patch) {
  ValidateOptions options;
  options.require_utf8 = false;
  if (const auto applied = apply_patch(before, patch)) {
    FUZZ_CHECK(validate(applied->bytes(), options).has_value());
  }
  if (const auto description = describe_patch(patch, true)) {
    FUZZ_CHECK(validate(description->bytes(), options).has_value());
  }
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  test::RandomBson random(1);
  std::vector<std::string> seeds;
  for (int i = 0; i < 200; ++i) {
    const OwnedDocument before = random.document(3);
    const OwnedDocument after = random.document(3);
    seeds.push_back(before.bytes());
    seeds.push_back(before.bytes() + after.bytes());
    seeds.push_back(before.bytes() + make_patch(before.view(), after.view()));
  }
  return seeds;
}

}  // namespace multifora

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace multifora;
  const Bytes bytes(reinterpret_cast<const char*>(data), size);
  ValidateOptions options;
  options.require_utf8 = size % 2 == 0;
  const auto document = validate_prefix(bytes, options);
  if (!document) return 0;
  check_document(*document);
  const Bytes rest = bytes.substr(document->size_bytes());
  check_foreign_patch(*document, rest);
  if (const auto other = validate_prefix(rest, options)) check_patch(*document, *other);
  return 0;
}
