#include "core/base/status.h"

#include <doctest/doctest.h>

#include <set>

using namespace multifora;

TEST_CASE("OK is a null pointer and says nothing") {
  const Status ok;
  CHECK(ok.ok());
  CHECK(ok.code() == ErrorCode::kOK);
  CHECK(ok.code_name() == "OK");
  CHECK(ok.message().empty());
  CHECK(ok.extra().empty());
  CHECK(sizeof(Status) == sizeof(void*));
}

TEST_CASE("a failure keeps its code, message and extra fields through copies and moves") {
  Status status = Status(ErrorCode::kDuplicateKey, "E11000").with_extra("bytes");
  const Status copy = status;
  Status moved = std::move(status);
  CHECK(status.ok());  // NOLINT(bugprone-use-after-move): what is left is OK
  CHECK(copy.code() == ErrorCode::kDuplicateKey);
  CHECK(copy.message() == "E11000");
  CHECK(copy.extra() == "bytes");
  CHECK(moved.message() == "E11000");
  moved = Status();
  CHECK(moved.ok());
  moved = copy;
  CHECK(moved.extra() == "bytes");
  const Status& self = moved;
  moved = self;
  CHECK(moved.message() == "E11000");
  CHECK(Status(copy).with_context("insert").message() == "insert: E11000");
}

TEST_CASE("error codes: names, numbers, no number twice") {
  CHECK(error_code_name(ErrorCode::kBadValue) == "BadValue");
  CHECK(error_code_name(ErrorCode::kUnknownField) == "Location40415");
  CHECK(error_code_name(location_code(51024)) == "Location51024");
  CHECK(location_code(11000) == ErrorCode::kDuplicateKey);
  std::set<std::int32_t> numbers;
#define ROW(constant, number, name)                     \
  CHECK_MESSAGE(numbers.insert(number).second, number); \
  CHECK(error_code_name(ErrorCode::constant) == name);
  MULTIFORA_ERROR_CODES(ROW)
#undef ROW
}

namespace {

Status outer(const Status& inner) {
  MULTIFORA_TRY(inner);
  return Status(ErrorCode::kInternalError, "went on");
}
Result<int> number(bool good) {
  if (good) return 7;
  return fail(ErrorCode::kBadValue, "no number");
}
Status assign(bool good, int* out) {
  MULTIFORA_ASSIGN(*out, number(good));
  return {};
}
Result<std::string> assign_result(bool good) {
  MULTIFORA_ASSIGN_R(const int n, number(good));
  MULTIFORA_TRY_R(Status());
  return std::to_string(n);
}

}  // namespace

TEST_CASE("the macros leave with the failure and go on without one") {
  CHECK(outer(Status()).message() == "went on");
  CHECK(outer(Status(ErrorCode::kBadValue, "stop")).message() == "stop");
  int n = 0;
  CHECK(assign(true, &n).ok());
  CHECK(n == 7);
  CHECK(assign(false, &n).code() == ErrorCode::kBadValue);
  CHECK(assign_result(true).value() == "7");
  CHECK(assign_result(false).error().message() == "no number");
}

TEST_CASE("a message is never longer than a client takes") {
  // An odd number of bytes before two-byte characters: the cut is not inside one.
  std::string text = "x";
  for (int i = 0; i < 20'000; ++i) text += "\u00e9";
  const Status status(ErrorCode::kBadValue, text);
  CHECK(status.message().size() < 17'000);
  CHECK(status.message().ends_with("\u00e9..."));
  CHECK(Status(ErrorCode::kBadValue, "short").message() == "short");
}
