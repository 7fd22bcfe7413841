// Foreign bytes as a key string with its type bits. What decodes encodes to the same bytes again.
// Input: number of type bit bytes, which fields are descending (a bit each), type bits, key.
#include "core/bson/compare.h"
#include "core/bson/key_string.h"
#include "core/bson/validate.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/random_bson.h"

namespace multifora {
namespace {

std::vector<bool> directions(std::uint8_t bits) {
  std::vector<bool> descending;
  for (int i = 0; i < 8; ++i) descending.push_back((bits >> i & 1) != 0);
  return descending;
}

void check_sizes(Bytes key, const std::vector<bool>& descending, std::size_t fields) {
  for (std::size_t i = 0; i < fields; ++i) {
    const std::size_t size = key_string_field_size(key, i < descending.size() && descending[i]);
    FUZZ_CHECK(size > 0 && size <= key.size());
    key.remove_prefix(size);
  }
  FUZZ_CHECK(key.empty());
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  test::RandomBson random(1);
  std::vector<std::string> seeds;
  for (int i = 0; i < 400; ++i) {
    const auto bits = static_cast<std::uint8_t>(random.bits());
    const std::vector<bool> descending = directions(bits);
    KeyStringBuilder key;
    const std::uint64_t fields = 1 + random.below(3);
    for (std::uint64_t f = 0; f < fields; ++f) {
      DocumentBuilder b;
      random.append_value(b, "");
      const OwnedDocument d = std::move(b).finish();
      key.append(d.view().first().value(), descending[f]);
    }
    if (key.type_bits().size() > 255) continue;
    std::string seed(1, static_cast<char>(key.type_bits().size()));
    seed.push_back(static_cast<char>(bits));
    seeds.push_back(seed + key.type_bits() + key.key());
  }
  return seeds;
}

}  // namespace multifora

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace multifora;
  if (size < 2) return 0;
  const std::vector<bool> descending = directions(data[1]);
  const Bytes rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Bytes type_bits = rest.substr(0, data[0]);
  const Bytes key = rest.substr(type_bits.size());
  key_string_field_size(key, descending[0]);
  DocumentBuilder out;
  const Status status = decode_key_string(key, type_bits, {}, descending, out);
  const OwnedDocument decoded = std::move(out).finish();
  ValidateOptions options;
  options.require_utf8 = false;
  options.size_bytes_max = decoded.bytes().size();
  FUZZ_CHECK(validate(decoded.bytes(), options).has_value());
  if (!status.ok()) return 0;
  KeyStringBuilder again;
  std::size_t fields = 0;
  for (const Element& e : decoded.view()) {
    again.append(e.value(), fields < descending.size() && descending[fields]);
    ++fields;
  }
  FUZZ_CHECK(again.key() == key);
  FUZZ_CHECK(again.type_bits() == type_bits);
  check_sizes(key, descending, fields);
  return 0;
}
