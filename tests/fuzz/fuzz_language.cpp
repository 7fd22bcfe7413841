// The query language with its grammar known: the input's bytes choose operators (all that are
// registered), paths and arguments, mostly of the kinds that they take, so that most of what is made
// parses and is then run on a document (query_body.h).
#include <cmath>
#include <limits>

#include "plugins/query-engine/operator_names.h"
#include "tests/fuzz/query_body.h"

namespace multifora::fuzz {
namespace {

// Zeros after its end, so that what is made ends.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  unsigned byte() { return at_ < size_ ? data_[at_++] : 0; }
  unsigned below(unsigned n) { return n <= 256 ? byte() % n : (byte() << 8 | byte()) % n; }
  bool one_in(unsigned n) { return below(n) == n - 1; }
  bool ended() const { return at_ >= size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

const std::vector<OperatorName>& operators(std::string_view title) {
  static const std::vector<OperatorFamily> families = operator_families();
  for (const OperatorFamily& family : families)
    if (family.title == title) return family.operators;
  std::abort();
}

constexpr int kDepthMax = 6;

class Maker {
 public:
  explicit Maker(Choices& choices) : choices_(choices) {}

  OwnedDocument input() {
    DocumentBuilder out;
    {
      DocumentBuilder document = out.object("d");
      fields(document, 0);
    }
    {
      DocumentBuilder filter_part = out.object("f");
      filter(filter_part, 0);
    }
    {
      DocumentBuilder projection_part = out.object("p");
      projection(projection_part, 0);
    }
    {
      DocumentBuilder added = out.object("a");
      for (unsigned n = 1 + choices_.below(2); n > 0; --n) expression(added, path(), 0);
    }
    {
      DocumentBuilder sort = out.object("s");
      for (unsigned n = choices_.below(3); n > 0; --n)
        sort.append(path(), std::int32_t{choices_.one_in(2) ? -1 : 1});
    }
    update(out);
    if (choices_.one_in(4)) out.append("i", true);
    return std::move(out).finish();
  }

 private:
  std::string name() {
    static constexpr const char* kNames[] = {"a", "b", "c", "d", "0", "1", "_id", "x"};
    return kNames[choices_.below(std::size(kNames))];
  }
  std::string path() {
    std::string out = name();
    while (out.size() < 12 && choices_.one_in(3)) out += "." + name();
    return out;
  }
  std::string update_path() {
    static constexpr const char* kParts[] = {"$", "$[]", "$[e]", "0", "2"};
    std::string out = name();
    while (out.size() < 14 && choices_.one_in(3))
      out += "." + (choices_.one_in(2) ? std::string(kParts[choices_.below(std::size(kParts))]) : name());
    return out;
  }

  void number(DocumentBuilder& to, std::string_view field) {
    static constexpr std::int64_t kIntegers[] = {0, 1, -1, 2, 3, 7, 100, 2147483647, -2147483648LL,
                                                 2147483648LL, std::numeric_limits<std::int64_t>::max(),
                                                 std::numeric_limits<std::int64_t>::min()};
    static const double kReals[] = {0.0, -0.0, 0.5, -1.5, 2.0, 1e18, 1e19, -1e300, std::nan(""),
                                    std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity(), 5e-324};
    static constexpr const char* kDecimals[] = {"0", "-0", "1.50", "NaN", "Infinity", "-Infinity",
                                                "9.999999999999999999999999999999999E+6144", "1E-6176",
                                                "9223372036854775807", "0.1"};
    switch (choices_.below(4)) {
      case 0:
        to.append(field, static_cast<std::int32_t>(kIntegers[choices_.below(9)]));
        break;
      case 1:
        to.append(field, kIntegers[choices_.below(std::size(kIntegers))]);
        break;
      case 2:
        to.append(field, kReals[choices_.below(std::size(kReals))]);
        break;
      default:
        if (const auto decimal = Decimal128::parse(kDecimals[choices_.below(std::size(kDecimals))]))
          to.append(field, *decimal);
        break;
    }
  }

  std::string text() {
    static constexpr const char* kTexts[] = {"", "a", "ab", "b c", "\xc3\xa9t\xc3\xa9", "2024-02-29",
                                             "UTC", "%Y-%m-%d", "Europe/Paris", "day", "$a", "$$ROOT", "$a.b",
                                             "int", "^a.*b$", "0x1F", "-12.5", "1e3"};
    return kTexts[choices_.below(std::size(kTexts))];
  }

  void scalar(DocumentBuilder& to, std::string_view field) {
    switch (choices_.below(12)) {
      case 0: case 1: case 2: number(to, field); break;
      case 3: case 4: to.append(field, text()); break;
      case 5: to.append(field, choices_.one_in(2)); break;
      case 6: to.append_null(field); break;
      case 7: to.append_date_ms(field, static_cast<std::int64_t>(choices_.byte()) * 1'000'003'000'007 - 60'000'000'000'000); break;
      case 8: to.append_regex(field, text(), choices_.one_in(2) ? "i" : ""); break;
      case 9: to.append_timestamp(field, choices_.byte()); break;
      case 10: to.append_binary(field, text(), 0); break;
      default:
        if (choices_.one_in(2)) to.append_min_key(field);
        else to.append_max_key(field);
        break;
    }
  }

  void value(DocumentBuilder& to, std::string_view field, int depth) {
    const unsigned kind = depth >= kDepthMax || choices_.ended() ? 0 : choices_.below(4);
    if (kind == 2) {
      DocumentBuilder object = to.object(field);
      fields(object, depth + 1);
    } else if (kind == 3) {
      ArrayBuilder array = to.array(field);
      for (unsigned n = choices_.below(4); n > 0; --n) value(array.raw(), array.next_name(), depth + 1);
    } else {
      scalar(to, field);
    }
  }

  void fields(DocumentBuilder& to, int depth) {
    for (unsigned n = choices_.below(5); n > 0; --n) value(to, name(), depth);
  }

  std::string_view op(std::string_view title) {
    const auto& all = operators(title);
    return all[choices_.below(static_cast<unsigned>(all.size()))].name;
  }

  // --- filters ---
  void filter(DocumentBuilder& to, int depth) {
    for (unsigned n = choices_.below(4); n > 0; --n) {
      if (depth < kDepthMax && choices_.one_in(5)) {
        static constexpr const char* kLogic[] = {"$and", "$or", "$nor"};
        ArrayBuilder clauses = to.array(kLogic[choices_.below(3)]);
        for (unsigned k = 1 + choices_.below(3); k > 0; --k) {
          DocumentBuilder clause = clauses.object();
          filter(clause, depth + 1);
        }
      } else if (choices_.one_in(8)) {
        expression(to, "$expr", depth + 1);
      } else if (choices_.one_in(12)) {
        DocumentBuilder schema_part = to.object("$jsonSchema");
        schema(schema_part, depth + 1);
      } else if (choices_.one_in(3)) {
        value(to, path(), depth);
      } else {
        DocumentBuilder conditions = to.object(path());
        predicates(conditions, depth + 1);
      }
    }
  }

  void predicates(DocumentBuilder& to, int depth) {
    for (unsigned n = 1 + choices_.below(3); n > 0; --n) {
      const std::string_view which = op("Query");
      if (choices_.one_in(10) || depth >= kDepthMax) {
        value(to, which, depth);
      } else if (which == "$not") {
        DocumentBuilder inner = to.object(which);
        predicates(inner, depth + 1);
      } else if (which == "$elemMatch") {
        DocumentBuilder inner = to.object(which);
        if (choices_.one_in(2)) filter(inner, depth + 1);
        else predicates(inner, depth + 1);
      } else if (which == "$in" || which == "$nin" || which == "$all") {
        ArrayBuilder list = to.array(which);
        for (unsigned k = choices_.below(4); k > 0; --k) value(list.raw(), list.next_name(), depth + 1);
      } else if (which == "$mod" || which.starts_with("$bits")) {
        ArrayBuilder list = to.array(which);
        for (unsigned k = 2; k > 0; --k) number(list.raw(), list.next_name());
      } else if (which == "$size") {
        number(to, which);
      } else if (which == "$type" || which == "$regex" || which == "$options") {
        to.append(which, text());
      } else {
        value(to, which, depth);
      }
    }
  }

  void schema(DocumentBuilder& to, int depth) {
    static constexpr const char* kKeywords[] = {"minimum", "maximum", "minLength", "maxItems", "multipleOf",
                                                "minProperties"};
    for (unsigned n = choices_.below(3); n > 0; --n) number(to, kKeywords[choices_.below(std::size(kKeywords))]);
    if (choices_.one_in(2)) to.append("bsonType", text());
    if (choices_.one_in(3)) to.append("pattern", text());
    if (depth >= kDepthMax || choices_.ended()) return;
    DocumentBuilder properties = to.object(choices_.one_in(4) ? "patternProperties" : "properties");
    DocumentBuilder one = properties.object(name());
    schema(one, depth + 1);
  }

  // --- projections ---
  void projection(DocumentBuilder& to, int depth) {
    for (unsigned n = choices_.below(4); n > 0; --n) {
      switch (choices_.below(6)) {
        case 0:
        case 1:
          to.append(path(), std::int32_t{choices_.one_in(3) ? 0 : 1});
          break;
        case 2: {
          DocumentBuilder slice = to.object(path());
          if (choices_.one_in(2)) {
            number(slice, "$slice");
          } else {
            ArrayBuilder pair = slice.array("$slice");
            number(pair.raw(), pair.next_name());
            number(pair.raw(), pair.next_name());
          }
          break;
        }
        case 3: {
          DocumentBuilder elem = to.object(name());
          DocumentBuilder inner = elem.object("$elemMatch");
          predicates(inner, 3);
          break;
        }
        case 4:
          if (depth < 3) {
            DocumentBuilder inner = to.object(name());
            projection(inner, depth + 1);
          } else {
            to.append(path() + ".$", std::int32_t{1});
          }
          break;
        default:
          expression(to, path(), depth + 1);
          break;
      }
    }
  }

  // --- expressions ---
  void expression(DocumentBuilder& to, std::string_view field, int depth) {
    if (depth >= kDepthMax || choices_.ended() || choices_.one_in(3)) {
      if (choices_.one_in(2)) to.append(field, "$" + path());
      else scalar(to, field);
      return;
    }
    DocumentBuilder whole = to.object(field);
    const std::string_view which = op("Expression");
    switch (choices_.below(4)) {
      case 0:
        expression(whole, which, depth + 1);
        break;
      case 1: {
        static constexpr const char* kNames[] = {
            "input", "in", "as", "cond", "initialValue", "if", "then", "else", "date", "unit", "amount", "to",
            "onError", "onNull", "format", "timezone", "find", "replacement", "regex", "sortBy", "n", "field",
            "value", "vars", "startDate", "endDate", "dateString", "year", "month", "p", "method", "output",
            "inputs", "useLongestLength", "defaults", "chars", "binSize", "startOfWeek", "limit"};
        DocumentBuilder named = whole.object(which);
        for (unsigned n = 1 + choices_.below(5); n > 0; --n)
          expression(named, kNames[choices_.below(std::size(kNames))], depth + 1);
        break;
      }
      default: {
        ArrayBuilder list = whole.array(which);
        for (unsigned n = choices_.below(4); n > 0; --n)
          expression(list.raw(), list.next_name(), depth + 1);
        break;
      }
    }
  }

  // --- updates ---
  void update(DocumentBuilder& out) {
    if (choices_.one_in(5)) {
      ArrayBuilder pipeline = out.array("u");
      DocumentBuilder stage = pipeline.object();
      DocumentBuilder set = stage.object("$set");
      for (unsigned n = 1 + choices_.below(2); n > 0; --n) expression(set, path(), 1);
      return;
    }
    if (choices_.one_in(8)) {
      DocumentBuilder replacement = out.object("u");
      fields(replacement, 1);
      return;
    }
    {
      DocumentBuilder spec = out.object("u");
      for (unsigned n = 1 + choices_.below(3); n > 0; --n) {
        const std::string_view which = op("Update");
        DocumentBuilder changes = spec.object(which);
        for (unsigned k = 1 + choices_.below(2); k > 0; --k) change(changes, which);
      }
    }
    ArrayBuilder filters = out.array("x");
    if (choices_.one_in(2)) {
      DocumentBuilder one = filters.object();
      DocumentBuilder conditions = one.object(choices_.one_in(2) ? "e" : "e.a");
      predicates(conditions, 3);
    }
  }

  void change(DocumentBuilder& to, std::string_view which) {
    const std::string where = update_path();
    if (which == "$rename") {
      to.append(where, path());
    } else if (which == "$inc" || which == "$mul" || which == "$pop") {
      number(to, where);
    } else if (which == "$bit") {
      static constexpr const char* kOps[] = {"and", "or", "xor"};
      DocumentBuilder bits = to.object(where);
      number(bits, kOps[choices_.below(3)]);
    } else if (which == "$push" && choices_.one_in(2)) {
      DocumentBuilder push = to.object(where);
      {
        ArrayBuilder each = push.array("$each");
        for (unsigned n = choices_.below(4); n > 0; --n) value(each.raw(), each.next_name(), 3);
      }
      if (choices_.one_in(2)) number(push, "$slice");
      if (choices_.one_in(2)) number(push, "$position");
      if (choices_.one_in(2)) {
        if (choices_.one_in(2)) {
          push.append("$sort", std::int32_t{-1});
        } else {
          DocumentBuilder sort = push.object("$sort");
          sort.append(path(), std::int32_t{1});
        }
      }
    } else if (which == "$pull" && choices_.one_in(2)) {
      DocumentBuilder condition = to.object(where);
      predicates(condition, 3);
    } else if (which == "$currentDate" && choices_.one_in(2)) {
      to.append(where, true);
    } else {
      value(to, where, 2);
    }
  }

  Choices& choices_;
};

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  std::uint32_t state = 1;
  for (int i = 0; i < 200; ++i) {
    std::string seed;
    for (int n = 0; n < 400; ++n) {
      state = state * 1664525 + 1013904223;
      seed.push_back(static_cast<char>(state >> 24));
    }
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

}  // namespace multifora::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace multifora;
  fuzz::Choices choices(data, size);
  const OwnedDocument input = fuzz::Maker(choices).input();
  if (!validate(input.bytes())) return 0;  // nested deeper than a document may be
  fuzz::run_query(input.view());
  return 0;
}
