// Status and Result: how a failure of the world or a client's mistake travels.
//
// A Status is one pointer; OK is a null pointer and costs nothing. A failure carries MongoDB's
// code, a message for the person who sent the command, and optionally a BSON document whose
// fields are merged into the error reply (keyPattern, keyValue, errInfo ...). Values are plain:
// any thread may own one, none may share one. Bugs are assertions (assert.h), never a Status.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error_codes.h"

namespace multifora {

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(ErrorCode code, std::string message);

  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const noexcept { return rep_ == nullptr; }
  ErrorCode code() const noexcept { return rep_ ? rep_->code : ErrorCode::kOK; }
  std::string code_name() const { return error_code_name(code()); }
  // Empty for OK. Lives as long as the Status.
  const std::string& message() const noexcept;
  // BSON document bytes to merge into the reply; empty when there are none.
  const std::string& extra() const noexcept;

  // The same failure with `bson` as its extra fields. Requires !ok().
  Status with_extra(std::string bson) &&;
  // The same failure with "prefix: " before its message. Requires !ok().
  Status with_context(std::string_view prefix) &&;

 private:
  struct Rep {
    ErrorCode code;
    std::string message;
    std::string extra;
  };
  std::unique_ptr<Rep> rep_;
};

template <class T>
using Result = std::expected<T, Status>;

// A failed Result of any type: `return fail(ErrorCode::kBadValue, "...")`.
inline std::unexpected<Status> fail(ErrorCode code, std::string message) {
  return std::unexpected<Status>(Status(code, std::move(message)));
}
inline std::unexpected<Status> fail(Status status) {
  return std::unexpected<Status>(std::move(status));
}

// The failure of a Result, or OK: for callers that need no value.
template <class T>
Status status_of(Result<T> result) {
  return result ? Status() : std::move(result).error();
}

}  // namespace multifora

// Returns the Status of `expression` from the enclosing function (which returns Status) unless OK.
#define MULTIFORA_TRY(expression)                                                      \
  do {                                                                                 \
    if (::multifora::Status multifora_status_ = (expression); !multifora_status_.ok()) \
      return multifora_status_;                                                        \
  } while (false)

// The same in a function that returns Result<T>.
#define MULTIFORA_TRY_R(expression)                                                    \
  do {                                                                                 \
    if (::multifora::Status multifora_status_ = (expression); !multifora_status_.ok()) \
      return ::multifora::fail(std::move(multifora_status_));                          \
  } while (false)

#define MULTIFORA_CONCAT2(a, b) a##b
#define MULTIFORA_CONCAT(a, b) MULTIFORA_CONCAT2(a, b)

// `MULTIFORA_ASSIGN(auto x, f())` in a function that returns Status.
#define MULTIFORA_ASSIGN(lhs, expression) \
  MULTIFORA_ASSIGN_IMPL(MULTIFORA_CONCAT(multifora_result_, __LINE__), lhs, expression)
#define MULTIFORA_ASSIGN_IMPL(tmp, lhs, expression) \
  auto tmp = (expression);                          \
  if (!tmp) return std::move(tmp).error();          \
  lhs = std::move(*tmp)

// `MULTIFORA_ASSIGN_R(auto x, f())` in a function that returns Result<U>.
#define MULTIFORA_ASSIGN_R(lhs, expression) \
  MULTIFORA_ASSIGN_R_IMPL(MULTIFORA_CONCAT(multifora_result_, __LINE__), lhs, expression)
#define MULTIFORA_ASSIGN_R_IMPL(tmp, lhs, expression)         \
  auto tmp = (expression);                                    \
  if (!tmp) return ::multifora::fail(std::move(tmp).error()); \
  lhs = std::move(*tmp)
