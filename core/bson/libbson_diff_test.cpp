// The same bytes and texts given to this module and to libbson, which has read BSON for longer.
//
// Validity. bson_validate does not report what is wrong inside nested documents, so the oracle here
// walks into them with libbson's own iterator. The two then agree but for what kOnlyWeRefuse lists,
// which libbson does not look at.
//
// Text. Each reads what the other writes and gets the same bytes, but for
//  - code and DBPointer namespaces with NUL inside: libbson takes them for C strings;
//  - code as an array's element (libbson 1.23 gives it a wrong key) and inside a scope (libbson
//  reads
//    it as a document): not compared where libbson reads;
//  - dates after the year 9999: libbson's relaxed form writes longer years, against the
//  specification;
//  - what no text carries (see has_text): NaN payloads, non-canonical decimals.
#ifdef MULTIFORA_HAVE_LIBBSON

#include <bson/bson.h>

#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>

#include "core/bson/compare.h"
#include "core/bson/extended_json.h"
#include "core/bson/validate.h"
#include "tests/support/hex.h"
#include "tests/support/random_bson.h"

namespace multifora {
namespace {

using test::RandomBson;

constexpr std::string_view kOnlyWeRefuse[] = {
    "a string lacks its terminator",  // the code of a code with scope
    "invalid UTF-8",                  // patterns and options of regular expressions
};

bool open_bson(Bytes bytes, bson_t* b) {
  return bson_init_static(b, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

bool libbson_accepts(Bytes bytes);

bool libbson_accepts_nested(const bson_iter_t* it) {
  const std::uint8_t* data = nullptr;
  std::uint32_t size = 0;
  std::uint32_t code_size = 0;
  switch (bson_iter_type(it)) {
    case BSON_TYPE_DOCUMENT:
      bson_iter_document(it, &size, &data);
      break;
    case BSON_TYPE_ARRAY:
      bson_iter_array(it, &size, &data);
      break;
    case BSON_TYPE_CODEWSCOPE:
      bson_iter_codewscope(it, &code_size, &size, &data);
      break;
    default:
      return true;
  }
  return data != nullptr && libbson_accepts({reinterpret_cast<const char*>(data), size});
}

bool libbson_accepts(Bytes bytes) {
  constexpr auto kFlags =
      static_cast<bson_validate_flags_t>(BSON_VALIDATE_UTF8 | BSON_VALIDATE_UTF8_ALLOW_NULL);
  bson_t b;
  bson_iter_t it;
  if (!open_bson(bytes, &b) || !bson_validate(&b, kFlags, nullptr)) return false;
  if (!bson_iter_init(&it, &b)) return false;
  while (bson_iter_next(&it)) {
    if (!libbson_accepts_nested(&it)) return false;
  }
  return it.err_off == 0;
}

using LibbsonWriter = char* (*)(const bson_t*, std::size_t*);

std::string libbson_text(Bytes bytes, LibbsonWriter write) {
  bson_t b;
  REQUIRE(open_bson(bytes, &b));
  std::size_t length = 0;
  char* text = write(&b, &length);
  REQUIRE(text != nullptr);
  std::string out(text, length);
  bson_free(text);
  return out;
}

Buffer libbson_parse(const std::string& json) {
  bson_error_t error;
  bson_t* b = bson_new_from_json(reinterpret_cast<const std::uint8_t*>(json.data()),
                                 static_cast<ssize_t>(json.size()), &error);
  REQUIRE_MESSAGE(b != nullptr, error.message << " in " << json);
  Buffer out(reinterpret_cast<const char*>(bson_get_data(b)), b->len);
  bson_destroy(b);
  return out;
}

Buffer damaged_document(RandomBson& random) {
  Buffer bytes = random.document(3).bytes();
  for (std::uint64_t n = random.below(3); n > 0; --n) {
    const std::size_t near_start = std::min<std::size_t>(8, bytes.size());
    const std::size_t at = random.below(random.one_in(3) ? near_start : bytes.size());
    bytes[at] = static_cast<char>(random.one_in(2) ? random.below(24) : random.bits());
  }
  if (random.one_in(8)) bytes.resize(random.below(bytes.size() + 1));
  if (random.one_in(2) && bytes.size() >= 4) {
    store_le(bytes.data(), static_cast<std::int32_t>(bytes.size()));
  }
  return bytes;
}

TEST_CASE("libbson: validity of damaged documents") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  int accepted = 0;
  int refused = 0;
  int only_we_refuse = 0;
  for (int i = 0; i < 100000; ++i) {
    const Buffer bytes = damaged_document(random);
    const auto ours = validate(bytes);
    const bool theirs = libbson_accepts(bytes);
    if (ours.has_value() == theirs) {
      ++(theirs ? accepted : refused);
      continue;
    }
    REQUIRE_MESSAGE(!ours.has_value(), "libbson refuses " << test::to_hex(bytes));
    const std::string message = ours.error().message();
    const bool known =
        std::any_of(std::begin(kOnlyWeRefuse), std::end(kOnlyWeRefuse),
                    [&](std::string_view m) { return message.find(m) != std::string::npos; });
    REQUIRE_MESSAGE(known, message << ": libbson accepts " << test::to_hex(bytes));
    ++only_we_refuse;
  }
  MESSAGE("damaged documents: both accept " << accepted << ", both refuse " << refused
                                            << ", only we refuse " << only_we_refuse);
  CHECK(accepted > 10000);
  CHECK(refused > 10000);
}

bool has_nul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

// Is there a text from which both read back exactly this value?
bool has_text(const ValueView& v) {
  switch (v.type()) {
    case BsonType::kDouble:
      return !std::isnan(v.as_double()) ||
             load_le<std::uint64_t>(v.data()) == 0x7ff8000000000000ull;
    case BsonType::kDecimal128: {
      const auto again = Decimal128::parse(v.as_decimal().to_string());
      return again.has_value() && again->identical(v.as_decimal());
    }
    case BsonType::kCode:
      return !has_nul(v.as_string());
    case BsonType::kDBRef:
      return !has_nul(v.dbref_namespace());
    case BsonType::kCodeWithScope:
      return !has_nul(v.code_with_scope_code()) && has_text(as_value(v.code_with_scope_scope()));
    case BsonType::kObject:
    case BsonType::kArray:
      for (const Element& e : v.as_document()) {
        if (!has_text(e.value())) return false;
      }
      return true;
    default:
      return true;
  }
}

// Is there a date with a year of more than four digits?
bool has_late_date(const std::string& json) {
  constexpr std::string_view kDate = R"("$date" : ")";
  for (std::size_t at = json.find(kDate); at != std::string::npos; at = json.find(kDate, at + 1)) {
    if (json.find('-', at) - (at + kDate.size()) > 4) return true;
  }
  return false;
}

// Does libbson read the text of this value rightly?
bool libbson_reads(const ValueView& v, bool in_array, bool in_scope) {
  const bool nests = v.type() == BsonType::kObject || v.type() == BsonType::kArray;
  const bool is_code = v.type() == BsonType::kCode || v.type() == BsonType::kCodeWithScope;
  if (is_code && (in_array || in_scope)) return false;
  if (v.type() == BsonType::kDBRef && in_array) return false;
  if (!nests && v.type() != BsonType::kCodeWithScope) return true;
  const bool is_array = v.type() == BsonType::kArray;
  for (const Element& e : nests ? v.as_document() : v.code_with_scope_scope()) {
    if (!libbson_reads(e.value(), is_array, in_scope || !nests)) return false;
  }
  return true;
}

TEST_CASE("libbson: each reads the other's text") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  int compared = 0;
  int they_read = 0;
  for (int i = 0; i < 20000; ++i) {
    const OwnedDocument d = random.document(2);
    if (!has_text(as_value(d.view()))) continue;
    ++compared;
    const std::string theirs = libbson_text(d.bytes(), bson_as_canonical_extended_json);
    const auto we_read = from_extended_json(theirs);
    REQUIRE_MESSAGE(we_read.has_value(), we_read.error().message() << " in " << theirs);
    const bool we_read_the_same = we_read->bytes() == d.bytes();
    CHECK_MESSAGE(we_read_the_same, theirs);

    const std::string ours = to_extended_json(d.view(), JsonMode::kCanonical);
    if (libbson_reads(as_value(d.view()), false, false)) {
      ++they_read;
      const bool they_read_the_same = libbson_parse(ours) == d.bytes();
      CHECK_MESSAGE(they_read_the_same, ours);
    }

    const std::string relaxed = libbson_text(d.bytes(), bson_as_relaxed_extended_json);
    if (has_late_date(relaxed)) continue;
    const auto we_read_relaxed = from_extended_json(relaxed);
    REQUIRE_MESSAGE(we_read_relaxed.has_value(), relaxed);
    CHECK_MESSAGE(compare_documents(we_read_relaxed->view(), d.view()) == 0, relaxed);
  }
  MESSAGE("documents compared: " << compared << ", read by libbson: " << they_read);
  CHECK(compared > 5000);
  CHECK(they_read > 4000);
}

}  // namespace
}  // namespace multifora

#endif  // MULTIFORA_HAVE_LIBBSON
