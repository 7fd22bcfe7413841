#include "core/bson/path.h"

#include <doctest/doctest.h>

#include <string>

#include "core/bson/builder.h"

using namespace multifora;

namespace {

// Documents are written as short JSON-like text here: numbers, objects and arrays are enough.
class TinyReader {
 public:
  explicit TinyReader(std::string_view text) : text_(text) {}
  OwnedDocument document() {
    DocumentBuilder b;
    object(b);
    return std::move(b).finish();
  }

 private:
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.at(at_);
  }
  bool eat(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    std::string out;
    peek();
    while (at_ < text_.size() && std::string_view(":,{}[] ").find(text_[at_]) == std::string::npos)
      out.push_back(text_[at_++]);
    return out;
  }
  void object(DocumentBuilder& b) {
    REQUIRE(eat('{'));
    while (!eat('}')) {
      const std::string name = word();
      REQUIRE(eat(':'));
      value(b, name);
      eat(',');
    }
  }
  void value(DocumentBuilder& b, std::string_view name) {
    if (peek() == '{') {
      DocumentBuilder sub = b.object(name);
      object(sub);
    } else if (eat('[')) {
      ArrayBuilder sub = b.array(name);
      while (!eat(']')) {
        value(sub.raw(), sub.next_name());
        eat(',');
      }
    } else if (const std::string text = word(); text == "null") {
      b.append_null(name);
    } else {
      b.append(name, std::stoi(text));
    }
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

void show(const ValueView& value, std::string& out) {
  switch (value.type()) {
    case BsonType::kEOO:
      out += "-";
      return;
    case BsonType::kNull:
      out += "null";
      return;
    case BsonType::kInt32:
      out += std::to_string(value.as_int32());
      return;
    default:
      break;
  }
  const bool array = value.type() == BsonType::kArray;
  out += array ? "[" : "{";
  bool first = true;
  for (const Element& element : value.as_document()) {
    if (!first) out += ",";
    first = false;
    if (!array) out += std::string(element.name()) + ":";
    show(element.value(), out);
  }
  out += array ? "]" : "}";
}

// Every hit in order: the value, '*' for an expanded element, '~' for an array entered implicitly,
// '@n' for the outer index.
std::string hits(std::string_view document, std::string_view dotted, bool expand_last = true) {
  const OwnedDocument owned = TinyReader(document).document();
  const FieldPath path(dotted);
  std::string out;
  CHECK(visit_path(owned.view(), path, expand_last, [&](const PathHit& hit) {
    if (!out.empty()) out += " ";
    show(hit.value, out);
    if (hit.array_element) out += "*";
    if (hit.through_array) out += "~";
    if (hit.outer_index >= 0) out += "@" + std::to_string(hit.outer_index);
    return true;
  }));
  return out;
}

}  // namespace

TEST_CASE("splitting a path") {
  const FieldPath path("a.0.b.01.17");
  REQUIRE(path.size() == 5);
  CHECK(path.part(0) == "a");
  CHECK(path.part(4) == "17");
  CHECK(path.index(0) == -1);
  CHECK(path.index(1) == 0);
  CHECK(path.index(3) == -1);
  CHECK(path.index(4) == 17);
  CHECK(path.dotted() == "a.0.b.01.17");
  CHECK(FieldPath().size() == 0);
  CHECK(FieldPath("").size() == 1);
  CHECK(FieldPath("a..b").size() == 3);
  CHECK(FieldPath("a.").part(1).empty());
  CHECK(FieldPath("2147483647").index(0) == 2147483647);
  CHECK(FieldPath("2147483648").index(0) == -1);
  CHECK(FieldPath("99999999999999999999").index(0) == -1);
  CHECK(FieldPath("-1").index(0) == -1);
}

TEST_CASE("value_at goes through objects only") {
  const OwnedDocument document = TinyReader("{a: {b: {c: 1}}, l: [{b: 2}], 0: 3}").document();
  CHECK(value_at(document.view(), "a.b.c").as_int32() == 1);
  CHECK(value_at(document.view(), FieldPath("a.b.c")).as_int32() == 1);
  CHECK(value_at(document.view(), FieldPath("x.a.b.c"), 1).as_int32() == 1);
  CHECK(value_at(document.view(), "a.b").type() == BsonType::kObject);
  CHECK(value_at(document.view(), "l").type() == BsonType::kArray);
  CHECK(value_at(document.view(), "0").as_int32() == 3);
  for (const char* missing : {"a.x", "a.b.c.d", "l.b", "l.0", "l.0.b", "", "a.", "x.y"}) {
    CHECK(value_at(document.view(), missing).missing());
    CHECK(value_at(document.view(), FieldPath(missing)).missing());
  }
}

TEST_CASE("objects") {
  CHECK(hits("{a: 1}", "a") == "1");
  CHECK(hits("{a: {b: 1}}", "a.b") == "1");
  CHECK(hits("{a: {0: {b: 1}}}", "a.0.b") == "1");
  CHECK(hits("{}", "a") == "-");
  CHECK(hits("{}", "a.b.c") == "-");
  CHECK(hits("{a: {}}", "a.b") == "-");
  CHECK(hits("{a: 1}", "a.b") == "-");
  CHECK(hits("{a: null}", "a.b") == "-");
  CHECK(hits("{a: null}", "a") == "null");
}

TEST_CASE("an array at the end") {
  CHECK(hits("{a: [1, 2]}", "a") == "1*@0 2*@1 [1,2]");
  CHECK(hits("{a: [1, 2]}", "a", false) == "[1,2]");
  CHECK(hits("{a: []}", "a") == "[]");
  CHECK(hits("{a: [[1], 2]}", "a") == "[1]*@0 2*@1 [[1],2]");
}

TEST_CASE("an array inside is entered implicitly, its objects only") {
  CHECK(hits("{a: [{b: 1}, {b: 2}, 3, [{b: 4}]]}", "a.b") == "1~@0 2~@1");
  CHECK(hits("{a: [{b: 1}, {}]}", "a.b") == "1~@0 -~@1");
  CHECK(hits("{a: [{b: {c: 1}}, {b: 5}]}", "a.b.c") == "1~@0 -~@1");
  CHECK(hits("{a: [{b: [1, 2]}]}", "a.b") == "1*~@0 2*~@0 [1,2]~@0");
  CHECK(hits("{a: [{b: [{c: 1}, {c: 2}]}, {b: [{c: 3}]}]}", "a.b.c") == "1~@0 2~@0 3~@1");
  CHECK(hits("{a: {b: [{c: 1}, {c: [7]}]}}", "a.b.c") == "1~@0 7*~@1 [7]~@1");
  CHECK(hits("{a: [{b: 1}]}", "a.b", false) == "1~@0");
}

TEST_CASE("nothing at all is not a missing value") {
  CHECK(hits("{a: []}", "a.b") == "");
  CHECK(hits("{a: [1, [2], null]}", "a.b") == "");
  CHECK(hits("{a: [1]}", "a.5") == "");
  CHECK(hits("{a: [[{b: 1}]]}", "a.b") == "");
  CHECK(hits("{a: [1]}", "a.0.b") == "");
}

TEST_CASE("an index takes its element explicitly, after the implicit visit") {
  CHECK(hits("{a: [5, 6]}", "a.1") == "6@1");
  CHECK(hits("{a: [5, 6]}", "a.01") == "");
  CHECK(hits("{a: [5, {b: 4}]}", "a.1.b") == "-~@1 4@1");
  CHECK(hits("{a: [5, [{b: 4}]]}", "a.1.b") == "4~@1");
  CHECK(hits("{a: [{0: 7}]}", "a.0") == "7~@0 {0:7}@0");
  CHECK(hits("{a: [[1, 2], [3]]}", "a.0") == "[1,2]@0");  // not expanded
  CHECK(hits("{a: [[1, 2], [3]]}", "a.0.1") == "2@0");
  CHECK(hits("{a: [[[1]]]}", "a.0.0.0") == "1@0");
  CHECK(hits("{a: [[{b: [1]}]]}", "a.0.0.b") == "-~@0 1*@0 [1]@0");
  CHECK(hits("{a: [{b: [9]}]}", "a.0.b.0") == "-~@0 9@0");
  CHECK(hits("{a: {1: [5]}}", "a.1.0") == "5@0");
}

TEST_CASE("the walk stops where the visitor says so") {
  const OwnedDocument document = TinyReader("{a: [{b: [1, 2]}, {b: 3}, {b: 4}]}").document();
  for (int limit = 1; limit <= 6; ++limit) {
    int seen = 0;
    const bool done = visit_path(document.view(), FieldPath("a.b"), true,
                                 [&](const PathHit&) { return ++seen < limit; });
    CHECK(seen == std::min(limit, 5));
    CHECK(done == (limit > 5));
  }
}
