#include "plugins/collation-icu/icu_collator.h"

#include <doctest/doctest.h>

#include <random>

#include "core/bson/extended_json.h"

namespace multifora {
namespace {

Result<std::shared_ptr<const Collator>> make(const char* json) {
  const OwnedDocument spec = *from_extended_json(json);
  return IcuCollatorFactory().make(spec.view());
}

int sign(int n) { return (n > 0) - (n < 0); }

TEST_CASE("strength decides what is equal") {
  CHECK((*make(R"({"locale":"en","strength":1})"))->compare("resume", "Résumé") == 0);
  CHECK((*make(R"({"locale":"en","strength":2})"))->compare("resume", "Resume") == 0);
  CHECK((*make(R"({"locale":"en","strength":2})"))->compare("resume", "résumé") < 0);
  CHECK((*make(R"({"locale":"en"})"))->compare("a", "A") < 0);
  CHECK((*make(R"({"locale":"en","caseFirst":"upper"})"))->compare("a", "A") > 0);
  CHECK((*make(R"({"locale":"en","numericOrdering":true})"))->compare("a2", "a10") < 0);
  CHECK((*make(R"({"locale":"sv"})"))->compare("z", "ö") < 0);
  CHECK((*make(R"({"locale":"de"})"))->compare("z", "ö") > 0);
}

TEST_CASE("sort keys order as compare does") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto collator = *make(R"({"locale":"fr_CA","numericOrdering":true})");
  const std::vector<std::string> parts = {"a", "A", "é", "e", "cote", "côte", "coté", " ", "-", "10", "2", ""};
  for (int i = 0; i < 2000; ++i) {
    std::string a, b;
    for (int n = 0; n < 4; ++n) {
      a += parts[random() % parts.size()];
      b += parts[random() % parts.size()];
    }
    Buffer key_a, key_b;
    collator->append_sort_key(a, key_a);
    collator->append_sort_key(b, key_b);
    CHECK(sign(collator->compare(a, b)) == sign(key_a.compare(key_b)));
  }
}

TEST_CASE("the specification is completed with the locale's defaults") {
  const auto collator = *make(R"({"locale":"fr_CA"})");
  CHECK(collator->spec()["strength"].as_int32() == 3);
  CHECK(collator->spec()["backwards"].as_bool());
  CHECK(collator->spec()["alternate"].as_string() == "non-ignorable");
  CHECK(*make(R"({"locale":"simple"})") == nullptr);
}

TEST_CASE("wrong specifications are refused") {
  for (const char* json : {R"({})", R"({"locale":1})", R"({"locale":"zz_nope"})", R"({"locale":""})",
                           R"({"locale":"en","strength":0})", R"({"locale":"en","strength":6})",
                           R"({"locale":"en","strength":"x"})", R"({"locale":"en","caseFirst":"x"})",
                           R"({"locale":"en","alternate":"x"})", R"({"locale":"en","foo":1})",
                           R"({"locale":"en","caseLevel":"x"})", R"({"locale":"simple","strength":2})",
                           R"({"locale":"en","backwards":true,"strength":1})"})
    CHECK_MESSAGE(!make(json), json);
}

}  // namespace
}  // namespace multifora
