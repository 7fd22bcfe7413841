// The BSON corpus of the driver specifications, read in place and whole: every valid case in every
// direction that it gives, every decode error and every parse error. Deprecated types are kept as
// they are, so the corpus's "converted" forms are checked as documents of their own.
#include <doctest/doctest.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "core/bson/validate.h"
#include "tests/support/hex.h"
#include "tests/support/shared_dir.h"

namespace multifora {
namespace {

using test::from_hex;
using Json = nlohmann::ordered_json;

constexpr std::string_view kDecimalType = "0x13";

// JSON without its spelling: order, types and values count, white space and escapes do not.
std::string normal(const std::string& json) {
  return Json::parse(json).dump();
}

void rebuild(DocumentView from, DocumentBuilder& to);

// Takes a value apart with its accessors and appends it again, so that both are tested.
void rebuild_value(std::string_view name, const ValueView& v, DocumentBuilder& to) {
  switch (v.type()) {
    case BsonType::kDouble:
      to.append(name, v.as_double());
      break;
    case BsonType::kString:
      to.append(name, v.as_string());
      break;
    case BsonType::kObject: {
      DocumentBuilder nested = to.object(name);
      rebuild(v.as_document(), nested);
      break;
    }
    case BsonType::kArray: {
      ArrayBuilder nested = to.array(name);
      for (const Element& e : v.as_document()) {
        rebuild_value(nested.next_name(), e.value(), nested.raw());
      }
      break;
    }
    case BsonType::kBinData:
      to.append_binary(name, v.binary_bytes(), v.binary_subtype());
      break;
    case BsonType::kUndefined:
      to.append_undefined(name);
      break;
    case BsonType::kObjectId:
      to.append(name, v.as_object_id());
      break;
    case BsonType::kBool:
      to.append(name, v.as_bool());
      break;
    case BsonType::kDate:
      to.append_date_ms(name, v.as_date_ms());
      break;
    case BsonType::kNull:
      to.append_null(name);
      break;
    case BsonType::kRegex:
      to.append_regex(name, v.regex_pattern(), v.regex_options());
      break;
    case BsonType::kDBRef:
      to.append_dbref(name, v.dbref_namespace(), v.dbref_id());
      break;
    case BsonType::kCode:
      to.append_code(name, v.as_string());
      break;
    case BsonType::kSymbol:
      to.append_symbol(name, v.as_string());
      break;
    case BsonType::kCodeWithScope:
      to.append_code_with_scope(name, v.code_with_scope_code(), v.code_with_scope_scope());
      break;
    case BsonType::kInt32:
      to.append(name, v.as_int32());
      break;
    case BsonType::kTimestamp:
      to.append_timestamp(name, v.as_timestamp());
      break;
    case BsonType::kInt64:
      to.append(name, v.as_int64());
      break;
    case BsonType::kDecimal128:
      to.append(name, v.as_decimal());
      break;
    case BsonType::kMinKey:
      to.append_min_key(name);
      break;
    case BsonType::kMaxKey:
      to.append_max_key(name);
      break;
    case BsonType::kEOO:
      FAIL("a missing value in a document");
      break;
  }
}

void rebuild(DocumentView from, DocumentBuilder& to) {
  for (const Element& e : from) rebuild_value(e.name(), e.value(), to);
}

class Corpus {
 public:
  void run_file(const std::filesystem::path& path) {
    std::ifstream in(path);
    const Json file = Json::parse(in);
    const bool decimals = file.value("bson_type", "") == kDecimalType;
    ++counts_["files"];
    for (const Json& c : file.value("valid", Json::array())) {
      INFO(path.filename().string() << ": " << c.at("description").get<std::string>());
      ++counts_["valid"];
      run_valid(c);
    }
    for (const Json& c : file.value("decodeErrors", Json::array())) {
      INFO(path.filename().string() << ": " << c.at("description").get<std::string>());
      ++counts_["decodeErrors"];
      CHECK_FALSE(validate(from_hex(c.at("bson").get<std::string>())).has_value());
    }
    for (const Json& c : file.value("parseErrors", Json::array())) {
      INFO(path.filename().string() << ": " << c.at("description").get<std::string>());
      ++counts_["parseErrors"];
      run_parse_error(c.at("string").get<std::string>(), decimals);
    }
  }

  std::string summary() const {
    std::string out;
    for (const auto& [name, count] : counts_) out += name + " " + std::to_string(count) + "  ";
    return out;
  }
  std::size_t count(const std::string& name) const { return counts_.at(name); }

 private:
  void run_valid(const Json& c) {
    const bool lossy = c.value("lossy", false);
    const Buffer bson = from_hex(c.at("canonical_bson").get<std::string>());
    const std::string canonical = c.at("canonical_extjson").get<std::string>();
    check_bson(bson, canonical, lossy);
    if (c.contains("relaxed_extjson")) {
      check_relaxed(bson, c.at("relaxed_extjson").get<std::string>());
    }
    if (c.contains("degenerate_extjson")) {
      ++counts_["degenerate_extjson"];
      check_parses_to(c.at("degenerate_extjson").get<std::string>(), bson, canonical, lossy);
    }
    if (c.contains("degenerate_bson")) {
      ++counts_["degenerate_bson"];
      const Buffer degenerate = from_hex(c.at("degenerate_bson").get<std::string>());
      const auto view = validate(degenerate);
      REQUIRE(view.has_value());
      CHECK(normal(to_extended_json(*view, JsonMode::kCanonical)) == normal(canonical));
      check_parses_to(to_extended_json(*view, JsonMode::kCanonical), bson, canonical, lossy);
    }
    if (c.contains("converted_bson")) {
      ++counts_["converted"];
      check_bson(from_hex(c.at("converted_bson").get<std::string>()),
                 c.at("converted_extjson").get<std::string>(), lossy);
    }
  }

  void check_bson(const Buffer& bson, const std::string& canonical, bool lossy) {
    ++counts_["canonical round trips"];
    const auto view = validate(bson);
    REQUIRE(view.has_value());
    DocumentBuilder builder;
    rebuild(*view, builder);
    const bool same = std::move(builder).finish().bytes() == bson;
    CHECK(same);
    CHECK(normal(to_extended_json(*view, JsonMode::kCanonical)) == normal(canonical));
    check_parses_to(canonical, bson, canonical, lossy);
  }

  void check_relaxed(const Buffer& bson, const std::string& relaxed) {
    ++counts_["relaxed_extjson"];
    const auto view = validate(bson);
    REQUIRE(view.has_value());
    CHECK(normal(to_extended_json(*view, JsonMode::kRelaxed)) == normal(relaxed));
    const auto parsed = from_extended_json(relaxed);
    REQUIRE(parsed.has_value());
    CHECK(normal(to_extended_json(parsed->view(), JsonMode::kRelaxed)) == normal(relaxed));
  }

  void check_parses_to(const std::string& json, const Buffer& bson, const std::string& canonical,
                       bool lossy) {
    const auto parsed = from_extended_json(json);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message());
    CHECK(normal(to_extended_json(parsed->view(), JsonMode::kCanonical)) == normal(canonical));
    if (lossy) {
      ++counts_["lossy"];
      return;
    }
    const bool same = parsed->bytes() == bson;
    CHECK(same);
  }

  void run_parse_error(const std::string& text, bool decimals) {
    if (!decimals) {
      CHECK_FALSE(from_extended_json(text).has_value());
      return;
    }
    std::uint32_t flags = 0;
    const auto parsed = Decimal128::parse(text, &flags);
    const bool refused = !parsed.has_value() || (flags & Decimal128::kInexact) != 0;
    CHECK(refused);
    const Json json = {{"d", {{"$numberDecimal", text}}}};
    CHECK_FALSE(from_extended_json(json.dump()).has_value());
  }

  std::map<std::string, std::size_t> counts_;
};

TEST_CASE("BSON corpus: every case in every direction") {
  const std::filesystem::path dir = test::corpus_dir("spec-tests/bson-corpus");
  Corpus corpus;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".json") corpus.run_file(entry.path());
  }
  MESSAGE("BSON corpus: " << corpus.summary());
  CHECK(corpus.count("valid") > 700);
  CHECK(corpus.count("decodeErrors") > 50);
  CHECK(corpus.count("parseErrors") > 150);
}

}  // namespace
}  // namespace multifora
