#include "core/bson/patch.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <chrono>

#include "core/base/limits.h"
#include "core/bson/extended_json.h"
#include "core/bson/validate.h"
#include "tests/support/random_bson.h"

namespace multifora {
namespace {

using test::RandomBson;

OwnedDocument parse(std::string_view json) {
  auto parsed = from_extended_json(json);
  REQUIRE_MESSAGE(parsed.has_value(), json);
  return std::move(*parsed);
}

// Makes the patch, checks that it gives `after` exactly and is not longer than a replacement.
Buffer checked_patch(DocumentView before, DocumentView after) {
  const Buffer patch = make_patch(before, after);
  const auto applied = apply_patch(before, patch);
  REQUIRE_MESSAGE(applied.has_value(), to_extended_json(before)
                                           << " -> " << to_extended_json(after));
  const bool same = applied->bytes() == after.bytes();
  CHECK_MESSAGE(same, to_extended_json(before) << " -> " << to_extended_json(after) << " gave "
                                               << to_extended_json(applied->view()));
  CHECK(patch.size() <= after.size_bytes() + 1);
  return patch;
}

std::string described(std::string_view before_json, std::string_view after_json) {
  const OwnedDocument before = parse(before_json);
  const OwnedDocument after = parse(after_json);
  const Buffer patch = checked_patch(before.view(), after.view());
  CHECK(patch_replacement(patch)->empty());
  const auto description = describe_patch(patch);
  REQUIRE(description.has_value());
  CHECK(validate(description->bytes()).has_value());
  return to_extended_json(description->view());
}

std::string expected(std::string_view updated, std::string_view removed = "[]",
                     std::string_view truncated = "[]") {
  return R"({"updatedFields":)" + std::string(updated) + R"(,"removedFields":)" +
         std::string(removed) + R"(,"truncatedArrays":)" + std::string(truncated) + "}";
}

TEST_CASE("patch: what change streams report") {
  CHECK(described(R"({"_id":1,"a":1})", R"({"_id":1,"a":1})") == expected("{}"));
  CHECK(described(R"({"_id":1,"a":1})", R"({"_id":1,"a":2})") == expected(R"({"a":2})"));
  CHECK(described(R"({"_id":1,"a":1})", R"({"_id":1,"a":"x"})") == expected(R"({"a":"x"})"));
  CHECK(described(R"({"_id":1})", R"({"_id":1,"a":{"b":1}})") == expected(R"({"a":{"b":1}})"));
  CHECK(described(R"({"_id":1,"a":1,"b":2})", R"({"_id":1,"b":2})") == expected("{}", R"(["a"])"));
  CHECK(described(R"({"_id":1,"a":{"b":1,"c":{"d":1,"e":1}}})",
                  R"({"_id":1,"a":{"b":1,"c":{"d":2,"f":3}}})") ==
        expected(R"({"a.c.d":2,"a.c.f":3})", R"(["a.c.e"])"));
  // $push, $pop, an element set, an element's field set, $push with $slice.
  CHECK(described(R"({"_id":1,"a":[1,2]})", R"({"_id":1,"a":[1,2,3]})") ==
        expected(R"({"a.2":3})"));
  CHECK(described(R"({"_id":1,"a":[1,2,3]})", R"({"_id":1,"a":[1]})") ==
        expected("{}", "[]", R"([{"field":"a","newSize":1}])"));
  CHECK(described(R"({"_id":1,"a":[1,2,3]})", R"({"_id":1,"a":[1,9,3]})") ==
        expected(R"({"a.1":9})"));
  CHECK(described(R"({"_id":1,"a":[{"b":1,"long":"some text here"},2]})",
                  R"({"_id":1,"a":[{"b":2,"long":"some text here"},2]})") ==
        expected(R"({"a.0.b":2})"));
  CHECK(described(R"({"_id":1,"a":[1,2,3,4],"z":"some text that stays"})",
                  R"({"_id":1,"a":[2,3],"z":"some text that stays"})") ==
        expected(R"({"a.0":2,"a.1":3})", "[]", R"([{"field":"a","newSize":2}])"));
  // $rename, and a field that moved.
  CHECK(described(R"({"_id":1,"a":1,"b":2})", R"({"_id":1,"b":2,"c":1})") ==
        expected(R"({"c":1})", R"(["a"])"));
  CHECK(described(R"({"_id":1,"a":1,"b":2})", R"({"_id":1,"b":2,"a":1})") ==
        expected(R"({"a":1})"));
  // Kinds that change, empty names, names with dots.
  CHECK(described(R"({"_id":1,"a":[1]})", R"({"_id":1,"a":{"0":1}})") ==
        expected(R"({"a":{"0":1}})"));
  CHECK(described(R"({"_id":1,"":{"":1,"x":1}})", R"({"_id":1,"":{"":2,"x":1}})") ==
        expected(R"({".":2})"));
}

TEST_CASE("patch: what an update assigned as a whole is told as a whole") {
  const OwnedDocument before = parse(R"({"_id":1,"a":{"b":1,"c":{"d":1,"e":1}},"f":[{"g":{"h":1,"i":1}},2]})");
  const OwnedDocument after = parse(R"({"_id":1,"a":{"b":1,"c":{"d":2,"e":1}},"f":[{"g":{"h":2,"i":1}},2]})");
  const auto told = [&](std::vector<std::string> assigned) {
    const Buffer patch = make_difference(before.view(), after.view(), assigned);
    CHECK(apply_patch(before.view(), patch)->bytes() == after.bytes());
    return to_extended_json(describe_patch(patch)->view()["updatedFields"].as_document());
  };
  CHECK(told({}) == R"({"a.c.d":2,"f.0.g.h":2})");
  CHECK(told({"a"}) == R"({"a":{"b":1,"c":{"d":2,"e":1}},"f.0.g.h":2})");
  CHECK(told({"a.c", "f.0.g"}) == R"({"a.c":{"d":2,"e":1},"f.0.g":{"h":2,"i":1}})");
  CHECK(told({"f"}) == R"({"a.c.d":2,"f":[{"g":{"h":2,"i":1}},2]})");
  CHECK(told({"c", "a.c.d.x", "0.g"}) == told({}));
}

TEST_CASE("patch: paths that can be mistaken are told apart") {
  const auto clear = [](std::string_view before_json, std::string_view after_json) {
    const OwnedDocument before = parse(before_json), after = parse(after_json);
    const Buffer patch = make_difference(before.view(), after.view());
    const OwnedDocument described = std::move(describe_patch(patch, true).value());
    return to_extended_json(described.view()["disambiguatedPaths"].as_document());
  };
  CHECK(clear(R"({"a":[1]})", R"({"a":[2]})") == "{}");
  CHECK(clear(R"({"a":{"0":1,"pad":"0123456789"}})", R"({"a":{"0":2,"pad":"0123456789"}})") ==
        R"({"a.0":["a","0"]})");
  CHECK(clear(R"({"a.b":1})", R"({"c":1})") == R"({"a.b":["a.b"]})");
  CHECK(clear(R"({"0":[{"b":1,"pad":"0123456789"}]})", R"({"0":[{"b":2,"pad":"0123456789"}]})") ==
        R"({"0.0.b":["0",0,"b"]})");
}

TEST_CASE("patch: a whole replacement says so, a difference may be longer than one") {
  const OwnedDocument before = parse(R"({"a":1,"b":2,"c":3})");
  const OwnedDocument after = parse(R"({"d":1})");
  Buffer patch(1, '\0');
  patch.append(after.bytes());
  CHECK(apply_patch(before.view(), patch)->bytes() == after.bytes());
  CHECK(*patch_replacement(patch) == after.bytes());
  CHECK(patch == make_replacement(after.view()));
  CHECK_FALSE(describe_patch(patch).has_value());
  const Buffer difference = make_difference(before.view(), after.view());
  CHECK(apply_patch(before.view(), difference)->bytes() == after.bytes());
  CHECK(to_extended_json(describe_patch(difference)->view()) ==
        expected(R"({"d":1})", R"(["a","b","c"])"));
  const OwnedDocument empty;
  CHECK(checked_patch(before.view(), empty.view()).size() <= empty.bytes().size() + 1);
}

OwnedDocument document_of_16_kib(std::int32_t counter) {
  DocumentBuilder b;
  b.append("_id", 7);
  for (int i = 0; i < 100; ++i) {
    b.append("field" + std::to_string(i), std::string(140, static_cast<char>('a' + i % 26)));
  }
  b.append("n", counter);
  b.append("tail", std::string(1000, 'z'));
  return std::move(b).finish();
}

template <class F>
double best_us(F&& f) {
  double best = 1e9;
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int j = 0; j < 10; ++j) f();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count() / 10);
  }
  return best;
}

TEST_CASE("patch: $inc in a document of 16 KiB") {
  const OwnedDocument before = document_of_16_kib(1);
  const OwnedDocument after = document_of_16_kib(2);
  CHECK(before.bytes().size() > 16 * 1024);
  const Buffer patch = checked_patch(before.view(), after.view());
  CHECK(patch.size() < 24);
  std::size_t sum = 0;
  const double us = best_us([&] { sum += make_patch(before.view(), after.view()).size(); });
  const double apply_us =
      best_us([&] { sum += apply_patch(before.view(), patch)->bytes().size(); });
  const double memcmp_us =
      best_us([&] { sum += static_cast<std::size_t>(before.bytes().compare(after.bytes()) != 0); });
  MESSAGE("patch of " << patch.size() << " bytes in " << us << " us, applied in " << apply_us
                      << " us; memcmp " << memcmp_us << " us (" << sum << ")");
}

// A document near `document`: some elements changed, removed, added, moved.
OwnedDocument changed(RandomBson& random, DocumentView document, bool is_array, int depth) {
  DocumentBuilder out;
  ArrayBuilder elements;
  DocumentBuilder& to = is_array ? elements.raw() : out;
  for (const Element& e : document) {
    if (random.one_in(8)) continue;
    const std::string name(is_array ? elements.next_name() : e.name());
    const bool nests = e.type() == BsonType::kObject || e.type() == BsonType::kArray;
    if (nests && random.one_in(2)) {
      const bool nested_array = e.type() == BsonType::kArray;
      const OwnedDocument nested = changed(random, e->as_document(), nested_array, depth - 1);
      if (nested_array) {
        to.append_array(name, nested.view());
      } else {
        to.append(name, nested.view());
      }
    } else if (random.one_in(6)) {
      random.append_value(to, name, depth);
    } else {
      to.append(name, e.value());
    }
    if (!is_array && random.one_in(10)) random.append_value(to, random.field_name(), depth);
  }
  while (random.one_in(3)) {
    random.append_value(to, is_array ? std::string(elements.next_name()) : random.field_name(),
                        depth);
  }
  return is_array ? std::move(elements).finish() : std::move(out).finish();
}

TEST_CASE("patch: random documents become random others") {
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  for (int i = 0; i < 10000; ++i) {
    const OwnedDocument before = random.document(4);
    const OwnedDocument after =
        random.one_in(4) ? random.document(4) : changed(random, before.view(), false, 3);
    const Buffer patch = checked_patch(before.view(), after.view());
    const Buffer difference = make_difference(before.view(), after.view());
    CHECK(apply_patch(before.view(), difference)->bytes() == after.bytes());
    const auto description = describe_patch(difference, true);
    REQUIRE(description.has_value());
    CHECK(validate(description->bytes()).has_value());
    if (before.bytes() == after.bytes()) CHECK(patch.size() == 2);
  }
}

TEST_CASE("patch: arrays whose names are not their indexes") {
  const auto odd_array = [](std::string_view first, std::string_view second, int value) {
    DocumentBuilder array;
    array.append(first, 1).append(second, value);
    const OwnedDocument elements = std::move(array).finish();
    DocumentBuilder b;
    b.append("pad", "some text that is long enough").append_array("a", elements.view());
    return std::move(b).finish();
  };
  const OwnedDocument plain = odd_array("0", "1", 2);
  const OwnedDocument odd = odd_array("x", "y", 2);
  const OwnedDocument odder = odd_array("y", "x", 3);
  for (const OwnedDocument* a : {&plain, &odd, &odder}) {
    for (const OwnedDocument* b : {&plain, &odd, &odder}) checked_patch(a->view(), b->view());
  }
}

TEST_CASE("patch: deep and wide documents") {
  const auto nested = [](int levels, int leaf) {
    std::string json;
    for (int i = 0; i < levels; ++i) json += R"({"a":)";
    json += std::to_string(leaf);
    json.append(static_cast<std::size_t>(levels), '}');
    return parse(json);
  };
  const int deepest = static_cast<int>(limits::kNestingDepthParseMax);
  const OwnedDocument one = nested(deepest, 1);
  const OwnedDocument two = nested(deepest, 2);
  checked_patch(one.view(), two.view());

  DocumentBuilder x, y;
  for (int i = 0; i < 50000; ++i) {
    x.append("field" + std::to_string(i), i);
    y.append("field" + std::to_string(49999 - i), i);
  }
  const OwnedDocument before = std::move(x).finish();
  const OwnedDocument after = std::move(y).finish();
  const auto start = std::chrono::steady_clock::now();
  checked_patch(before.view(), after.view());  // reversed: quadratic work would take minutes
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("patch: hostile bytes") {
  const OwnedDocument before = parse(R"({"a":1,"b":{"c":[1,2,3]},"d":"text"})");
  using namespace std::string_view_literals;
  for (const std::string_view patch : {
           ""sv, "\x01"sv, "\x02"sv,                               // no kind, unknown, no end
           "\x02\x00\x00"sv,                                       // more after the end
           "\x02\x06\x00"sv, "\x02\x07\x00"sv,                     // unknown ops
           "\x02\x01\x00"sv, "\x02\x02\x00"sv,                     // counts of zero
           "\x02\x21\x00"sv, "\x02\x22\x00"sv,                     // 4 of 3 elements
           "\x02\xf9\xff\xff\xff\xff\xff\x00"sv,                   // a count beyond 32 bits
           "\x02\x05\x61\x00\x00\x00"sv,                           // into a number
           "\x02\x0az\x00\x00"sv,                                // removes another name
           "\x02\x0a"sv, "\x02\x0az"sv,                           // a name without an end
           "\x02\x09\x05\x62\x00\x0d\x63\x00\x0a\x00\x00\x00"sv,      // removed before an array's end
           "\x02\x03\x05\x00\x00\x00\x00\x00"sv,                   // nothing to insert
           "\x02\x03\x0c\x00\x00\x00\x10z\x00\x01\x00\x00\x00"sv,  // no terminator
           "\x02\x04\x0c\x00\x00\x00\x10z\x00\x01\x00\x00\x00\x00\x00"sv,  // set with another name
           "\x00\x05\x00\x00\x00\x00\x00"sv,  // more after a replacement
       }) {
    CHECK_FALSE(apply_patch(before.view(), patch).has_value());
  }
  const std::uint64_t seed = test::test_seed();
  INFO("MULTIFORA_TEST_SEED=" << seed);
  RandomBson random(seed);
  for (int i = 0; i < 10000; ++i) {
    const OwnedDocument base = random.document(3);
    const OwnedDocument after = changed(random, base.view(), false, 3);
    Buffer patch = make_patch(base.view(), after.view());
    patch[random.below(patch.size())] = static_cast<char>(random.bits());
    if (random.one_in(4)) patch.resize(random.below(patch.size() + 1));
    const OwnedDocument other = random.one_in(2) ? base : random.document(3);
    const auto applied = apply_patch(other.view(), patch);
    ValidateOptions options;
    options.require_utf8 = false;
    if (applied) CHECK(validate(applied->bytes(), options).has_value());
    const auto description = describe_patch(patch);
    if (description) CHECK(validate(description->bytes(), options).has_value());
    if (applied && patch_replacement(patch)->empty()) CHECK(description.has_value());
  }
}

TEST_CASE("patch: a description stops growing at the size of a document") {
  const auto wide = [](int value) {
    DocumentBuilder b;
    {
      DocumentBuilder inner = b.object(std::string(100000, 'p'));
      for (int i = 0; i < 1000; ++i) inner.append(std::to_string(i), i * value);
    }
    return std::move(b).finish();
  };
  const OwnedDocument before = wide(1);
  const OwnedDocument after = wide(2);
  const Buffer patch = checked_patch(before.view(), after.view());
  const auto description = describe_patch(patch);
  REQUIRE_FALSE(description.has_value());
  CHECK(description.error().code() == ErrorCode::kBSONObjectTooLarge);
}

}  // namespace
}  // namespace multifora
