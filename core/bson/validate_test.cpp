#include "core/bson/validate.h"

#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/bson/compare.h"
#include "tests/support/hex.h"
#include "tests/support/random_bson.h"
#include "tests/support/shared_dir.h"

#ifdef MULTIFORA_HAVE_LIBBSON
#include <bson/bson.h>
#endif

using namespace multifora;
using test::from_hex;
using test::to_hex;

namespace {

// A copy that ends where its memory ends, so that the address sanitizer sees a read too far.
class Exact {
 public:
  explicit Exact(std::string_view bytes) : bytes_(new char[bytes.size()]), size_(bytes.size()) {
    std::memcpy(bytes_.get(), bytes.data(), size_);
  }
  Bytes view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

bool valid(std::string_view bytes) {
  return validate(Exact(bytes).view()).has_value();
}
bool valid_hex(std::string_view hex) {
  return valid(from_hex(hex));
}

Status error_of(std::string_view bytes, const ValidateOptions& options = {}) {
  const auto result = validate(bytes, options);
  return result ? Status() : result.error();
}

// Visits every value, so that sizes that lead astray are found.
std::size_t walk(DocumentView document) {
  std::size_t count = 0;
  for (const Element& element : document) {
    ++count;
    if (element.type() == BsonType::kObject || element.type() == BsonType::kArray)
      count += walk(element.value().as_document());
    if (element.type() == BsonType::kCodeWithScope)
      count += walk(element.value().code_with_scope_scope());
    hash_value(element.value(), 0);
  }
  return count;
}

std::string nested(std::size_t levels) {
  std::string document = from_hex("0500000000");
  for (std::size_t i = 1; i < levels; ++i) {
    DocumentBuilder b;
    b.append(i % 2 == 0 ? "a" : "b", DocumentView::assume_valid(Bytes(document)));
    document = std::move(b).finish().bytes();
  }
  return document;
}

}  // namespace

TEST_CASE("BSON corpus: what is valid passes, what is not does not") {
  const auto folder = test::corpus_dir("spec-tests/bson-corpus");
  int good = 0;
  int bad = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(entry.path());
    const auto json = nlohmann::json::parse(stream);
    for (const auto& test : json.value("valid", nlohmann::json::array())) {
      for (const char* form : {"canonical_bson", "degenerate_bson", "converted_bson"}) {
        if (!test.contains(form)) continue;
        const std::string bytes = from_hex(test[form].get<std::string>());
        CHECK_MESSAGE(valid(bytes), entry.path().filename() << ": " << test["description"]);
        walk(DocumentView::assume_valid(Bytes(bytes)));
        ++good;
      }
    }
    for (const auto& test : json.value("decodeErrors", nlohmann::json::array())) {
      CHECK_MESSAGE(!valid_hex(test["bson"].get<std::string>()),
                    entry.path().filename() << ": " << test["description"]);
      ++bad;
    }
  }
  CHECK(good > 600);
  CHECK(bad > 60);
}

TEST_CASE("mistakes are named with their offset") {
  const Status boolean = error_of(from_hex("090000000862000200"));
  CHECK(boolean.code() == ErrorCode::kInvalidBSON);
  CHECK(boolean.message() == "Invalid BSON: a boolean is neither 0 nor 1 at offset 7");
  CHECK(error_of(from_hex("08000000 20 6100 00")).message() ==
        "Invalid BSON: an unknown type at offset 4");
  CHECK(error_of(from_hex("0E000000 02 6100 02000000 E9 00 00")).message() ==
        "Invalid BSON: invalid UTF-8 at offset 11");
  CHECK(error_of("").code() == ErrorCode::kInvalidBSON);
  CHECK(error_of(from_hex("0500000000 00")).code() == ErrorCode::kInvalidBSON);
}

TEST_CASE("names and patterns are UTF-8 unless told otherwise") {
  const std::string bad_name = from_hex("08000000 0A FF 00 00");
  const std::string long_bad_name = from_hex("12000000 0A 6161616161616161 61 FF 00 00 00");
  ValidateOptions lax;
  lax.require_utf8 = false;
  CHECK(!valid(bad_name));
  CHECK(validate(bad_name, lax).has_value());
  CHECK(!valid(long_bad_name));
  CHECK(!valid_hex("0A000000 0B 61 00 FF 00 00 00"));  // wrong length and bad pattern
  CHECK(!valid_hex("0A000000 0B 61 00 FF 00 00"));
  CHECK(valid_hex("0A000000 0B 61 00 62 00 00 00") == false);
  CHECK(valid_hex("0B000000 0B 61 00 62 00 00 00"));
  CHECK(!valid_hex("0B000000 0B 61 00 FF 00 00 00"));
  CHECK(validate(from_hex("0B000000 0B 61 00 FF 00 00 00"), lax).has_value());
}

TEST_CASE("names of every length end where they should") {
  for (std::size_t length = 0; length < 40; ++length) {
    for (const char* filler : {"a", "\xc3\xa9"}) {
      std::string name;
      while (name.size() < length) name += filler;
      DocumentBuilder b;
      b.append_null(name).append(name, 1).append_null("z");
      const OwnedDocument document = std::move(b).finish();
      const auto view = validate(Exact(document.bytes()).view());
      REQUIRE(view.has_value());
      // Without its terminators a name runs into the end of the document.
      std::string cut = document.bytes().substr(0, 4 + 1 + name.size());
      store_le(cut.data(), static_cast<std::int32_t>(cut.size()));
      REQUIRE(!valid(cut));
      cut += '\0';
      store_le(cut.data(), static_cast<std::int32_t>(cut.size()));
      REQUIRE(!valid(cut));
      cut += '\0';
      store_le(cut.data(), static_cast<std::int32_t>(cut.size()));
      REQUIRE(valid(cut));
    }
  }
}

TEST_CASE("code with scope: the three lengths must agree") {
  CHECK(valid_hex("16000000 0F 6100 0E000000 01000000 00 05000000 00 00"));
  CHECK(!valid_hex("16000000 0F 6100 0D000000 01000000 00 05000000 00 00"));
  CHECK(!valid_hex("16000000 0F 6100 0F000000 01000000 00 05000000 00 00"));
  CHECK(!valid_hex("16000000 0F 6100 0E000000 02000000 00 05000000 00 00"));
  CHECK(!valid_hex("17000000 0F 6100 0E000000 01000000 00 06000000 00 00 00"));
}

TEST_CASE("nesting has a limit, without recursion") {
  CHECK(valid(nested(limits::kNestingDepthParseMax)));
  const Status deep = error_of(nested(limits::kNestingDepthParseMax + 1));
  CHECK(deep.code() == ErrorCode::kOverflow);
  ValidateOptions options;
  options.depth_max = 2;
  CHECK(error_of(nested(2), options).ok());
  CHECK(error_of(nested(3), options).code() == ErrorCode::kOverflow);
  options.depth_max = 1'000'000;
  CHECK(error_of(nested(limits::kNestingDepthParseMax + 1), options).code() ==
        ErrorCode::kOverflow);
  CHECK(!valid(nested(100'000 / 8)));
}

TEST_CASE("size limits") {
  ValidateOptions options;
  options.size_bytes_max = 20;
  DocumentBuilder b;
  b.append("a", "123456789");
  const OwnedDocument document = std::move(b).finish();
  CHECK(error_of(document.bytes(), options).code() == ErrorCode::kBSONObjectTooLarge);
  options.size_bytes_max = document.bytes().size();
  CHECK(error_of(document.bytes(), options).ok());
  std::string huge = from_hex("FFFFFF7F00");
  CHECK(error_of(huge).code() == ErrorCode::kBSONObjectTooLarge);
  CHECK(error_of(from_hex("FFFFFFFF00")).code() == ErrorCode::kInvalidBSON);
}

TEST_CASE("validate_prefix takes one document and leaves the rest") {
  const std::string bytes = from_hex("080000000A610000 FFFF");
  const auto view = validate_prefix(bytes);
  REQUIRE(view.has_value());
  CHECK(view->size_bytes() == 8);
  CHECK(!validate(bytes).has_value());
  CHECK(!validate_prefix(bytes.substr(0, 7)).has_value());
}

// The table of well-formed byte sequences of the Unicode standard, written once more and slowly.
TEST_CASE("UTF-8, against a decoder that goes by code points") {
  const auto slow = [](std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
      const auto byte = [&](std::size_t k) {
        return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
      };
      const unsigned lead = byte(0);
      const std::size_t n = lead < 0x80       ? 1
                            : lead >> 5 == 6  ? 2
                            : lead >> 4 == 14 ? 3
                            : lead >> 3 == 30 ? 4
                                              : 0;
      if (n == 0 || i + n > text.size()) return false;
      std::uint32_t point = n == 1 ? lead : lead & (0x7fu >> n);
      for (std::size_t k = 1; k < n; ++k) {
        if (byte(k) >> 6 != 2) return false;
        point = point << 6 | (byte(k) & 63);
      }
      static constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
      if (point < kLeast[n] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return false;
      i += n;
    }
    return true;
  };
  // Every pair and a sample of every longer sequence around the edges.
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const char pair[] = {static_cast<char>(a), static_cast<char>(b)};
      REQUIRE(is_valid_utf8({pair, 2}) == slow({pair, 2}));
    }
  static constexpr unsigned char kEdges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
                                             0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec,
                                             0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5};
  int good = 0;
  for (const unsigned char a : kEdges)
    for (const unsigned char b : kEdges)
      for (const unsigned char c : kEdges)
        for (const unsigned char d : kEdges) {
          const char four[] = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c),
                               static_cast<char>(d)};
          const bool expected = slow({four, 4});
          good += expected ? 1 : 0;
          REQUIRE(is_valid_utf8({four, 4}) == expected);
          // The same behind and before ASCII, where the fast path hands over.
          const std::string wrapped = "1234567" + std::string(four, 4) + "12345678";
          REQUIRE(is_valid_utf8(wrapped) == expected);
        }
  CHECK(good > 100);
  CHECK(is_valid_utf8(""));
  CHECK(!is_valid_utf8("12345678\xc3"));
}

TEST_CASE("damaged documents: never a read outside, and what passes can be walked") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  test::RandomBson random(seed);
  int passed = 0;
  int refused = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string bytes = random.document(4).bytes();
    for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
      const std::size_t at = random.below(bytes.size());
      switch (random.below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random.bits());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] + (random.one_in(2) ? 1 : -1));
          break;
        case 2:
          bytes.erase(at, 1);
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random.below(20)));
          break;
      }
      if (bytes.empty()) bytes.push_back('\5');
    }
    // Mostly with the right length outside, or nothing else would be looked at.
    if (bytes.size() >= 4 && !random.one_in(10))
      store_le(bytes.data(), static_cast<std::int32_t>(bytes.size()));
    const Exact exact(bytes);
    const auto result = validate(exact.view());
    ++(result ? passed : refused);
    if (result) walk(*result);
#ifdef MULTIFORA_HAVE_LIBBSON
    // libbson checks less (see the next test), so it may not refuse what passes here.
    bson_t b;
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    const bool theirs =
        bson_init_static(&b, data, bytes.size()) &&
        bson_validate(
            &b,
            static_cast<bson_validate_flags_t>(BSON_VALIDATE_UTF8 | BSON_VALIDATE_UTF8_ALLOW_NULL),
            nullptr);
    if (result) REQUIRE_MESSAGE(theirs, to_hex(bytes));
#endif
  }
  MESSAGE("damaged documents: " << passed << " still valid, " << refused << " refused");
  CHECK(passed > 1000);
  CHECK(refused > 1000);
}
