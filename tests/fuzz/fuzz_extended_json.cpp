// Foreign text through the extended JSON parser. What it accepts is valid BSON, and from there text
// and BSON go back and forth without a change.
#include "core/bson/extended_json.h"
#include "core/bson/validate.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/random_bson.h"

std::vector<std::string> multifora::fuzz::seeds() {
  test::RandomBson random(1);
  std::vector<std::string> seeds = {
      R"({"a":[1,-2.5e3,true,false,null,"\u00e9\ud83d\ude00\n"]})",
      R"({"x":{"$regex":"a","$options":"ix"},"y":{"$binary":"//8=","$type":"00"}})",
      R"({"x":{"$uuid":"73ffd264-44b3-4c69-90e8-e7d1dfc035d4"}})",
      R"({"d":{"$date":"2012-12-24T12:15:30.501+01:00"},"e":{"$date":{"$numberLong":"1"}}})",
  };
  for (int i = 0; i < 200; ++i) {
    const OwnedDocument d = random.document(3);
    seeds.push_back(to_extended_json(d.view(), JsonMode::kCanonical));
    seeds.push_back(to_extended_json(d.view(), JsonMode::kRelaxed));
  }
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace multifora;
  const auto parsed = from_extended_json({reinterpret_cast<const char*>(data), size});
  if (!parsed) {
    FUZZ_CHECK(parsed.error().code() == ErrorCode::kFailedToParse);
    return 0;
  }
  FUZZ_CHECK(validate(parsed->bytes()).has_value());
  const std::string json = to_extended_json(parsed->view(), JsonMode::kCanonical);
  const auto again = from_extended_json(json);
  // A document whose own names look like a form ({"$oid": ...} at the top) writes text that means
  // something else one level down; all else is the same document.
  if (!again) return 0;
  FUZZ_CHECK(to_extended_json(again->view(), JsonMode::kCanonical) == json);
  return 0;
}
