#include "core/base/status.h"

#include "core/base/assert.h"

namespace multifora {

namespace {
const std::string kEmpty;

// A message may quote what a client sent; the reply that tells it must be one that clients take.
constexpr std::size_t kMessageBytesMax = 16 * 1024;

std::string shortened(std::string message) {
  if (message.size() <= kMessageBytesMax) return message;
  std::size_t end = kMessageBytesMax;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  message.resize(end);
  message.shrink_to_fit();
  return message.append("...");
}
}  // namespace

Status::Status(ErrorCode code, std::string message)
    : rep_(std::make_unique<Rep>(Rep{code, shortened(std::move(message)), {}})) {
  MULTIFORA_ASSERT(code != ErrorCode::kOK);
}

Status::Status(const Status& other)
    : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
  return *this;
}

const std::string& Status::message() const noexcept {
  return rep_ ? rep_->message : kEmpty;
}

const std::string& Status::extra() const noexcept {
  return rep_ ? rep_->extra : kEmpty;
}

Status Status::with_extra(std::string bson) && {
  MULTIFORA_ASSERT(rep_ != nullptr);
  rep_->extra = std::move(bson);
  return std::move(*this);
}

Status Status::with_context(std::string_view prefix) && {
  MULTIFORA_ASSERT(rep_ != nullptr);
  rep_->message.insert(0, ": ").insert(0, prefix);
  return std::move(*this);
}

}  // namespace multifora
