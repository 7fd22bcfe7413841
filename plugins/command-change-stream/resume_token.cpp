#include "plugins/command-change-stream/resume_token.h"

#include "core/base/bytes.h"
#include "core/bson/builder.h"

namespace multifora::change_stream {
namespace {

constexpr char kTimestamp = static_cast<char>(0x82);
constexpr char kVersion = 1;
constexpr std::size_t kMarkSize = 10;
constexpr std::size_t kEventSize = 18;

std::string to_hex(Bytes bytes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    hex.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return hex;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool from_hex(std::string_view hex, Buffer& bytes) {
  if (hex.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  return true;
}

std::unexpected<Status> invalid() {
  return fail(ErrorCode::kInvalidResumeToken, "the resume token is none that this server has made");
}

}  // namespace

OwnedDocument ResumeToken::to_document() const {
  Buffer bytes(1, kTimestamp);
  append_be<std::uint64_t>(bytes, time);
  bytes.push_back(static_cast<char>(kind));
  if (kind == Kind::kEvent) {
    bytes.push_back(kVersion);
    append_be<std::uint32_t>(bytes, index);
    bytes.push_back(invalidate ? 1 : 0);
    append_be<std::uint16_t>(bytes, fragment);
  }
  DocumentBuilder out;
  out.append("_data", to_hex(bytes));
  return std::move(out).finish();
}

void ResumeToken::append_to(DocumentBuilder& out, std::string_view name) const {
  const OwnedDocument document = to_document();
  out.append(name, document.view());
}

Result<ResumeToken> ResumeToken::parse(DocumentView token) {
  const ValueView data = token["_data"];
  if (data.missing())
    return fail(location_code(40647), "Bad resume token: _data of missing or of wrong type");
  if (data.type() != BsonType::kString)
    return fail(ErrorCode::kTypeMismatch, "Bad resume token: _data is not a string");
  Buffer bytes;
  if (!from_hex(data.as_string(), bytes))
    return fail(ErrorCode::kFailedToParse, "resume token string was not a valid hex string");
  if (bytes.size() < kMarkSize || bytes[0] != kTimestamp) return invalid();
  ResumeToken parsed;
  parsed.time = load_be<std::uint64_t>(bytes.data() + 1);
  parsed.kind = static_cast<Kind>(bytes[9]);
  if (parsed.kind == Kind::kFrom || parsed.kind == Kind::kSeen) {
    if (bytes.size() != kMarkSize) return invalid();
    return parsed;
  }
  if (parsed.kind != Kind::kEvent || bytes.size() != kEventSize || bytes[10] != kVersion)
    return invalid();
  parsed.index = load_be<std::uint32_t>(bytes.data() + 11);
  parsed.invalidate = bytes[15] == 1;
  parsed.fragment = load_be<std::uint16_t>(bytes.data() + 16);
  return parsed;
}

}  // namespace multifora::change_stream
