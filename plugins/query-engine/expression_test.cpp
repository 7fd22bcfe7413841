#include "plugins/query-engine/expression.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "core/base/clock.h"
#include "core/bson/builder.h"
#include "core/bson/extended_json.h"

using namespace multifora;

namespace {

struct Evaluated {
  std::string text;  // the value as canonical Extended JSON; "missing"
  int code = 0;
};

// {"e": expression} over a document.
Evaluated evaluate(const std::string& expression, const std::string& document = "{}") {
  const OwnedDocument spec = *from_extended_json("{\"e\": " + expression + "}");
  const OwnedDocument root = *from_extended_json(document);
  VariableScope scope;
  const Result<ExpressionPtr> parsed = parse_expression(spec.view()["e"], scope);
  if (!parsed) return {"", static_cast<int>(parsed.error().code())};
  EvalContext context;
  context.root = root.view();
  const Result<Value> value = (*parsed)->evaluate(context);
  if (!value) return {"", static_cast<int>(value.error().code())};
  if (value->missing()) return {"missing"};
  return {to_extended_json(value->view(), JsonMode::kCanonical)};
}

std::string text(const std::string& expression, const std::string& document = "{}") {
  return evaluate(expression, document).text;
}
int code(const std::string& expression, const std::string& document = "{}") {
  return evaluate(expression, document).code;
}

}  // namespace

TEST_CASE("integers at their limits promote and never trap") {
  const std::string least =
      R"({"a": {"$numberLong": "-9223372036854775808"}, "i": {"$numberInt": "-2147483648"},
                                "m": {"$numberInt": "-1"}, "max": {"$numberInt": "2147483647"}})";
  CHECK(text(R"({"$mod": ["$a", "$m"]})", least) == R"({"$numberLong":"0"})");
  CHECK(text(R"({"$mod": ["$i", "$m"]})", least) == R"({"$numberInt":"0"})");
  CHECK(text(R"({"$abs": "$i"})", least) == R"({"$numberLong":"2147483648"})");
  CHECK(code(R"({"$abs": "$a"})", least) == 28680);
  CHECK(text(R"({"$add": ["$max", 1]})", least) == R"({"$numberLong":"2147483648"})");
  CHECK(text(R"({"$subtract": ["$i", 1]})", least) == R"({"$numberLong":"-2147483649"})");
  CHECK(text(R"({"$multiply": ["$i", "$m"]})", least) == R"({"$numberLong":"2147483648"})");
  CHECK(text(R"({"$add": ["$a", "$m"]})", least) ==
        R"({"$numberDouble":"-9.223372036854776E+18"})");
  CHECK(text(R"({"$multiply": ["$a", "$m"]})", least) ==
        R"({"$numberDouble":"9.223372036854776E+18"})");
  CHECK(text(R"({"$divide": ["$a", "$m"]})", least) ==
        R"({"$numberDouble":"9.223372036854776E+18"})");
  CHECK(text(R"({"$pow": ["$a", 2]})", least).find("numberDouble") != std::string::npos);
  CHECK(code(R"({"$round": ["$a", -19]})", least) == 51080);
  CHECK(code(R"({"$round": ["$a", -18]})", least) == 0);
}

TEST_CASE("dates do not overflow silently") {
  const std::string far = R"({"d": {"$date": {"$numberLong": "9223372036854775807"}}})";
  CHECK(code(R"({"$add": ["$d", 1]})", far) == 15);
  CHECK(code(R"({"$dateAdd": {"startDate": "$d", "unit": "day", "amount": 1}})", far) != 0);
  CHECK(code(R"({"$year": "$d"})", far) == 0);
  CHECK(code(R"({"$dateTrunc": {"date": "$d", "unit": "year"}})", far) == 0);
  CHECK(code(R"({"$dateToString": {"date": "$d"}})", far) == 18537);
}

TEST_CASE("field paths go through arrays of objects") {
  const std::string d =
      R"({"a": [{"b": 1}, {"b": 2}, 3, {"c": 4}, [{"b": 9}]], "o": {"p": {"q": "x"}}})";
  CHECK(text(R"("$a.b")", d) == R"([{"$numberInt":"1"},{"$numberInt":"2"}])");
  CHECK(text(R"("$o.p.q")", d) == R"("x")");
  CHECK(text(R"("$o.nope")", d) == "missing");
  CHECK(text(R"("$$ROOT.o.p")", d) == R"({"q":"x"})");
  CHECK(text(R"(["$nope"])", d) == "[null]");
  CHECK(text(R"({"x": "$nope", "y": 1})", d) == R"({"y":{"$numberInt":"1"}})");
}

TEST_CASE("$getField looks into the current document where no other is given") {
  CHECK(text(R"({"$getField":{"field":"a.b"}})", R"({"a.b":"7"})") == R"("7")");
  CHECK(text(R"({"$getField":{"field":{"$literal":"$c"}}})", R"({"$c":"7"})") == R"("7")");
  CHECK(text(R"({"$getField":"a.b"})", R"({"a.b":"7"})") == R"("7")");
  CHECK(code(R"({"$getField":{"input":"$a"}})") == 3041702);
}

TEST_CASE("variables have scopes") {
  CHECK(
      text(
          R"({"$let": {"vars": {"x": 1}, "in": {"$let": {"vars": {"x": 2, "y": "$$x"}, "in": ["$$x", "$$y"]}}}})") ==
      R"([{"$numberInt":"2"},{"$numberInt":"1"}])");
  CHECK(code(R"({"$add": [{"$let": {"vars": {"x": 1}, "in": 1}}, "$$x"]})") == 17276);
  CHECK(code(R"({"$let": {"vars": {"X": 1}, "in": 1}})") == 9);
  CHECK(text(R"({"$let": {"vars": {"CURRENT": "$o"}, "in": "$a"}})",
             R"({"a": 1, "o": {"a": 2}})") == R"({"$numberInt":"2"})");
  // What a loop's body returns may view the loop's own array.
  CHECK(
      text(
          R"({"$reduce": {"input": {"$split": ["abcdefghijklmnop,qrstuvwxyzabcdef", ","]}, "initialValue": "",
                 "in": "$$this"}})") == R"("qrstuvwxyzabcdef")");
  CHECK(text(R"({"$arrayElemAt": [{"$split": ["abcdefghijklmnop,qrstuvwxyzabcdef", ","]}, 1]})") ==
        R"("qrstuvwxyzabcdef")");
}

TEST_CASE("what is not chosen is not evaluated") {
  CHECK(text(R"({"$cond": [true, 1, {"$divide": [1, 0]}]})") == R"({"$numberInt":"1"})");
  CHECK(text(R"({"$or": [true, {"$divide": [1, 0]}]})") == "true");
  CHECK(text(R"({"$ifNull": [1, {"$divide": [1, 0]}]})") == R"({"$numberInt":"1"})");
  CHECK(code(R"({"$divide": [1, 0]})") == 2);
}

TEST_CASE("constants fold, and say which paths they need") {
  const OwnedDocument spec = *from_extended_json(
      R"({"c": {"$add": [1, {"$multiply": [2, 3]}]}, "p": {"$add": ["$a.b", "$c"]},
                                                     "r": "$$ROOT"})");
  VariableScope scope;
  const auto constant = *parse_expression(spec.view()["c"], scope);
  REQUIRE(constant->constant() != nullptr);
  CHECK(constant->constant()->view().as_int32() == 7);
  std::vector<std::string> paths;
  CHECK((*parse_expression(spec.view()["p"], scope))->add_dependencies(paths));
  CHECK(paths == std::vector<std::string>{"a.b", "c"});
  CHECK_FALSE((*parse_expression(spec.view()["r"], scope))->add_dependencies(paths));
}

TEST_CASE("a hashed index's key is MongoDB's") {
  // The server's hash of the number 1, whatever its type.
  CHECK(text(R"({"$toHashedIndexKey": 1})") == R"({"$numberLong":"5902408780260971510"})");
  CHECK(text(R"({"$toHashedIndexKey": 1.0})") == R"({"$numberLong":"5902408780260971510"})");
}

TEST_CASE("unknown and unsupported operators") {
  CHECK(code(R"({"$nope": 1})") == 168);
  CHECK(code(R"({"$function": {"body": "f", "args": [], "lang": "js"}})") != 0);
  CHECK(code(R"({"$add": 1, "$subtract": 2})") == 15983);
}

TEST_CASE("values that grow without end are refused") {
  // Doubles a string 40 times.
  const int refused =
      code(R"({"$reduce": {"input": {"$range": [0, 40]}, "initialValue": "0123456789abcdef",
                               "in": {"$concat": ["$$value", "$$value"]}}})");
  CHECK(refused == 10334);
  CHECK(code(R"({"$range": [0, 2147483647]})") == 146);
}

namespace {

// A clock that moves on by a millisecond whenever somebody looks at it.
class CountingClock final : public Clock {
 public:
  std::int64_t wall_ms() const override { return 0; }
  std::int64_t monotonic_us() const override { return looks_ += 1000; }

 private:
  mutable std::int64_t looks_ = 0;
};

OwnedDocument numbers(std::int32_t n) {
  DocumentBuilder b;
  {
    ArrayBuilder a = b.array("a");
    for (std::int32_t i = 0; i < n; ++i) a.append(n - i);
  }
  return std::move(b).finish();
}

// The error of a command that may look at the clock 20 times.
int code_in_time(const std::string& expression, DocumentView root) {
  const CountingClock clock;
  Interrupt interrupt(clock);
  interrupt.set_deadline_us(20'000);
  const OwnedDocument spec = *from_extended_json("{\"e\": " + expression + "}");
  VariableScope scope;
  EvalContext context;
  context.root = root;
  context.interrupt = &interrupt;
  const Result<Value> value = (*parse_expression(spec.view()["e"], scope))->evaluate(context);
  return value ? 0 : static_cast<int>(value.error().code());
}

}  // namespace

TEST_CASE("expensive operators notice that time is over") {
  const OwnedDocument root = numbers(50'000);
  // Once each is little; in a $map of 40 they are asked between any two.
  for (const std::string op :
       {R"({"$indexOfArray": ["$a", -1]})", R"({"$in": [-1, "$a"]})", R"({"$size": "$a"})",
        R"({"$sum": "$a"})", R"({"$reverseArray": "$a"})", R"({"$slice": ["$a", 1]})",
        R"({"$arrayElemAt": ["$a", -1]})", R"({"$concatArrays": ["$a", []]})",
        R"({"$maxN": {"n": 2, "input": "$a"}})", R"({"$anyElementTrue": ["$a"]})"})
    CHECK_MESSAGE(
        code_in_time(R"({"$map": {"input": {"$range": [0, 40]}, "in": )" + op + "}}", root.view()) == 50,
        op);
  // These are long enough alone.
  for (const std::string op :
       {R"({"$setUnion": ["$a", []]})", R"({"$setEquals": ["$a", "$a"]})",
        R"({"$setIntersection": ["$a", "$a"]})", R"({"$setDifference": ["$a", "$a"]})",
        R"({"$setIsSubset": [[], "$a"]})", R"({"$sortArray": {"input": "$a", "sortBy": 1}})",
        R"({"$map": {"input": "$a", "in": {"$add": ["$$this", 1]}}})"})
    CHECK_MESSAGE(code_in_time(op, root.view()) == 50, op);
  CHECK(code_in_time(R"({"$size": "$a"})", root.view()) == 0);
}

TEST_CASE("what an expression holds at once is bounded") {
  const std::string large = R"({"$range": [0, 1500000]})";  // 19 MB
  std::string many = large;
  for (int i = 1; i < 20; ++i) many += "," + large;
  CHECK(code(R"({"$setEquals": [)" + many + "]}") == 146);
  // An argument of an operator, an array and a variable each wait for what is inside them.
  std::string deep = large;
  for (int i = 0; i < 20; ++i)
    deep = i % 3 == 0 ? R"({"$size": [{"$concatArrays": [)" + large + R"(, [)" + deep + "]]}]}"
                      : i % 3 == 1
                            ? R"({"$let": {"vars": {"v": )" + large + R"(}, "in": )" + deep + "}}"
                            : R"([{"k": )" + large + R"(}, {"$strLenCP": {"$toString": {"$size": [)" +
                                  deep + "]}}}]";
  CHECK(code(R"({"$size": [)" + deep + "]}") == 146);

  // Variables give back what they hold.
  const OwnedDocument spec = *from_extended_json(
      R"({"e": {"$let": {"vars": {"v": {"$concat": ["long enough to be on the heap", "$s"]}}, "in": 1}}})");
  const OwnedDocument root = *from_extended_json(R"({"s": "text"})");
  VariableScope scope;
  EvalContext context;
  context.root = root.view();
  CHECK((*parse_expression(spec.view()["e"], scope))->evaluate(context).has_value());
  for (const Value& v : context.variables) CHECK(v.missing());
  CHECK(context.held_bytes == 0);
}

TEST_CASE("not everything that is constant is computed ahead") {
  const OwnedDocument spec = *from_extended_json(
      R"({"small": {"$add": [1, 2]}, "large": {"$range": [0, 1500000]}})");
  VariableScope scope;
  CHECK((*parse_expression(spec.view()["small"], scope))->constant() != nullptr);
  CHECK((*parse_expression(spec.view()["large"], scope))->constant() == nullptr);
  CHECK((*parse_expression(spec.view()["small"], scope))->constant() == nullptr);
  VariableScope other;
  CHECK((*parse_expression(spec.view()["small"], other))->constant() != nullptr);
}

TEST_CASE("searches and trims take linear time") {
  const std::string as(4'000'000, 'a');
  const std::string half(2'000'000, 'a');
  DocumentBuilder b;
  b.append("s", as).append("t", half + "b").append("c", std::string(500'000, 'b') + "a");
  const OwnedDocument owned = std::move(b).finish();
  const std::string root = to_extended_json(as_value(owned.view()));
  const auto start = std::chrono::steady_clock::now();
  CHECK(text(R"({"$indexOfBytes": ["$s", "$t"]})", root) == R"({"$numberInt":"-1"})");
  CHECK(text(R"({"$indexOfCP": ["$s", "$t"]})", root) == R"({"$numberInt":"-1"})");
  CHECK(text(R"({"$size": {"$split": ["$s", "$t"]}})", root) == R"({"$numberInt":"1"})");
  CHECK(text(R"({"$strLenBytes": {"$replaceAll": {"input": "$s", "find": "$t", "replacement": ""}}})",
             root) == R"({"$numberInt":"4000000"})");
  CHECK(text(R"({"$trim": {"input": "$s", "chars": "$c"}})", root) == R"("")");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("trimming is by characters") {
  CHECK(text(R"({"$trim": {"input": "ääxbä", "chars": "äb"}})") == R"("x")");
  CHECK(text(R"({"$trim": {"input": "ää", "chars": "ä"}})") == R"("")");
  CHECK(text(R"({"$rtrim": {"input": "äab", "chars": "ba"}})") == R"("ä")");
  CHECK(text(R"({"$ltrim": {"input": "äab", "chars": ""}})") == R"("äab")");
  CHECK(text(R"({"$trim": {"input": " \u2003x\n\u0000"}})") == R"("x")");
}

TEST_CASE("the n least of many, in order, the first of equals, in little time") {
  CHECK(text(R"({"$minN": {"n": 3, "input": [5, 1, 4, 1.0, 3, 2, 9, 8, 7, 6, 1, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3]}})") ==
        R"([{"$numberInt":"1"},{"$numberDouble":"1.0"},{"$numberInt":"1"}])");
  CHECK(text(R"({"$maxN": {"n": 2, "input": [1, 3]}})") ==
        R"([{"$numberInt":"3"},{"$numberInt":"1"}])");
  std::string many = "[";
  for (int i = 0; i < 100; ++i) many += (i > 0 ? "," : "") + std::to_string(i * 37 % 100);
  CHECK(text(R"({"$maxN": {"n": 2, "input": )" + many + "]}}") ==
        R"([{"$numberInt":"99"},{"$numberInt":"98"}])");
  const auto start = std::chrono::steady_clock::now();
  CHECK(text(R"({"$size": {"$minN": {"n": 400000, "input": {"$reverseArray": {"$range": [0, 400000]}}}}})") ==
        R"({"$numberInt":"400000"})");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}
