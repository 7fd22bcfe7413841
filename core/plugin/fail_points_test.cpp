#include "core/plugin/fail_points.h"

#include <doctest/doctest.h>

#include "core/base/error_codes_rare.h"

#include "core/bson/builder.h"

namespace multifora {
namespace {

template <class Fill>
OwnedDocument document(Fill fill) {
  DocumentBuilder b;
  fill(b);
  return std::move(b).finish();
}

Status want_code(DocumentView data) {
  return data["code"].is_number() ? Status() : Status(ErrorCode::kBadValue, "code");
}

class Points : public FailPoints {
 public:
  template <class Fill>
  ErrorCode set(std::string_view name, Fill fill_mode, DocumentView data = DocumentView()) {
    const OwnedDocument mode = document(fill_mode);
    return status_of(configure(name, mode.view()["mode"], data)).code();
  }
  std::string strikes(std::string_view name, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += hit(name) ? 'x' : '.';
    return text;
  }
};

}  // namespace

TEST_CASE("modes of a fail point") {
  Points points;
  points.declare("p", nullptr);
  CHECK_FALSE(points.any());
  CHECK(points.strikes("p", 2) == "..");
  CHECK(points.set("p", [](auto& b) { b.object("mode").append("times", 2); }) == ErrorCode::kOK);
  CHECK(points.any());
  CHECK(points.strikes("p", 4) == "xx..");
  CHECK_FALSE(points.any());
  CHECK(points.set("p", [](auto& b) { b.object("mode").append("skip", 2); }) == ErrorCode::kOK);
  CHECK(points.strikes("p", 4) == "..xx");
  CHECK(points.set("p", [](auto& b) { b.append("mode", "alwaysOn"); }) == ErrorCode::kOK);
  CHECK(points.strikes("p", 3) == "xxx");
  CHECK(points.set("p", [](auto& b) { b.append("mode", "off"); }) == ErrorCode::kOK);
  CHECK(points.strikes("p", 2) == "..");
  CHECK(points.set("p", [](auto& b) { b.object("mode").append("times", 0); }) == ErrorCode::kOK);
  CHECK_FALSE(points.any());
  const OwnedDocument off = document([](auto& b) { b.append("mode", "off"); });
  CHECK(*points.configure("p", off.view()["mode"], DocumentView()) == 7);
}

TEST_CASE("a fail point counts only what concerns it") {
  Points points;
  points.declare("p", nullptr);
  const OwnedDocument data = document([](auto& b) { b.append("want", 7); });
  REQUIRE(points.set("p", [](auto& b) { b.object("mode").append("times", 1); }, data.view()) ==
          ErrorCode::kOK);
  const auto ask = [&](int value) {
    return points.hit("p", [value](DocumentView d) { return d["want"].as_int32() == value; });
  };
  CHECK_FALSE(ask(1));
  const auto hit = ask(7);
  REQUIRE(hit);
  CHECK(hit->view()["want"].as_int32() == 7);
  CHECK_FALSE(ask(7));
}

TEST_CASE("mistakes in setting a fail point") {
  Points points;
  points.declare("p", want_code);
  const auto on = [](auto& b) { b.append("mode", "alwaysOn"); };
  CHECK(points.set("q", on) == rare::kFailPointSetFailed);
  CHECK(points.set("p", on) == ErrorCode::kBadValue);  // its data
  CHECK(points.set("p", [](auto& b) { b.append("mode", "never"); }) == ErrorCode::kBadValue);
  CHECK(points.set("p", [](auto& b) { b.append("mode", 1); }) == ErrorCode::kTypeMismatch);
  CHECK(points.set("p", [](auto& b) { b.object("mode"); }) == ErrorCode::kBadValue);
  CHECK(points.set("p", [](auto& b) { b.object("mode").append("times", -1); }) ==
        ErrorCode::kBadValue);
  CHECK(points.set("p", [](auto& b) { b.object("mode").append("times", "x"); }) ==
        ErrorCode::kTypeMismatch);
  CHECK(points.set("p", [](auto& b) { b.object("mode").append("activationProbability", 2); }) ==
        ErrorCode::kBadValue);
  CHECK_FALSE(points.any());
}

}  // namespace multifora
