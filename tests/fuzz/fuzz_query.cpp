// Filters, projections, sorts and updates from foreign BSON, run on a foreign document (query_body.h).
#include "tests/fuzz/query_body.h"
#include "tests/support/random_bson.h"

using namespace multifora;

std::vector<std::string> multifora::fuzz::seeds() {
  const char* const texts[] = {
      R"({"d":{"_id":1,"a":[1,2,{"b":3}]},"f":{"a":{"$gt":1,"$ne":7}},"p":{"a.$":1},"u":{"$set":{"a.$":5}}})",
      R"({"d":{"_id":1,"a":{"b":"text"}},"f":{"$or":[{"a.b":{"$in":["x",null]}},{"a":{"$exists":true}}]},"p":{"a":{"b":1},"c":{"$add":[1,"$x"]}},"u":{"$push":{"l":{"$each":[3,1],"$sort":1,"$slice":-2}},"$inc":{"n":1},"$rename":{"a.b":"z"}}})",
      R"({"d":{"_id":1,"a":[[1],[2,{"b":[4]}]]},"f":{"a":{"$elemMatch":{"$elemMatch":{"b":4}}}},"s":{"a.0":1,"a.b":-1},"a":{"a.c":"$$ROOT"},"u":{"$inc":{"a.$[].$[e]":1}},"x":[{"e":{"$gt":0}}]})",
      R"({"d":{"a":1},"f":{"$jsonSchema":{"required":["a"],"properties":{"a":{"bsonType":["int","string"],"minimum":2,"enum":[1,2]}},"additionalProperties":false}},"u":[{"$set":{"b":{"$concat":["a","b"]}}},{"$unset":"a"}],"i":1})",
      R"({"d":{"a":"abc","m":7},"f":{"a":{"$not":{"$regularExpression":{"pattern":"^b|c$","options":"i"}}},"m":{"$mod":[2,1],"$bitsAllSet":[0,1],"$type":["int","long"]},"$nor":[{"x":{"$size":1}}]},"p":{"a":{"$slice":[1,2]},"m":{"$elemMatch":{"$gt":1}}},"u":{"$bit":{"m":{"xor":3}},"$pull":{"l":{"$lt":3}},"$addToSet":{"l":{"$each":[1,1]}},"$min":{"q":1},"$currentDate":{"t":true}}})",
  };
  std::vector<std::string> seeds;
  for (const char* text : texts) {
    const auto parsed = from_extended_json(text);
    if (parsed) seeds.push_back(parsed->bytes());
  }
  test::RandomBson random(1);
  for (int i = 0; i < 100; ++i) {
    DocumentBuilder input;
    for (const char* name : {"d", "f", "p", "s", "u"}) {
      const OwnedDocument document = random.document(3);
      input.append(name, document.view());
    }
    seeds.push_back(std::move(input).finish().take());
  }
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = validate({reinterpret_cast<const char*>(data), size});
  if (input) fuzz::run_query(*input);
  return 0;
}
