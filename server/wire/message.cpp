#include "server/wire/message.h"

#include <cstring>

#include "core/base/assert.h"
#include "core/bson/validate.h"
#include "server/wire/crc32c.h"

namespace multifora::wire {
namespace {

constexpr std::size_t kMsgPrefix = kHeaderSize + 4 + 1;
constexpr std::size_t kLegacyPrefix = kHeaderSize + 4 + 8 + 4 + 4;
// Bits 0 to 15 must be understood; the others may be ignored.
constexpr std::uint32_t kRequiredFlags = 0xffff;
constexpr std::uint32_t kKnownRequiredFlags = kChecksumPresent | kMoreToCome;

// Takes bytes off the front of a range, never beyond its end.
class Reader {
 public:
  explicit Reader(Bytes bytes) : left_(bytes) {}
  std::size_t size() const { return left_.size(); }
  Bytes rest() const { return left_; }

  template <class T>
  bool number(T* out) {
    if (left_.size() < sizeof(T)) return false;
    *out = load_le<T>(left_.data());
    left_.remove_prefix(sizeof(T));
    return true;
  }
  bool text(std::string_view* out) {
    const std::size_t end = left_.find('\0');
    if (end == Bytes::npos) return false;
    *out = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return true;
  }
  bool bytes(std::size_t size, Bytes* out) {
    if (left_.size() < size) return false;
    *out = left_.substr(0, size);
    left_.remove_prefix(size);
    return true;
  }
  Status document(DocumentView* out) {
    auto view = validate_prefix(left_);
    if (!view) return std::move(view).error();
    left_.remove_prefix(view->size_bytes());
    *out = *view;
    return {};
  }

 private:
  Bytes left_;
};

Status malformed(std::string_view what) {
  return {ErrorCode::kProtocolError, "malformed message: " + std::string(what)};
}

Status parse_sequence(Reader& reader, Message& out) {
  std::int32_t size = 0;
  if (!reader.number(&size)) return malformed("document sequence without a size");
  Bytes bytes;
  if (size < 5 || !reader.bytes(static_cast<std::size_t>(size) - 4, &bytes))
    return malformed("document sequence longer than its message");
  Reader inside(bytes);
  std::string_view name;
  if (!inside.text(&name)) return malformed("document sequence without a name");
  if (!is_valid_utf8(name))
    return {ErrorCode::kInvalidBSON, "name of a document sequence is not valid UTF-8"};
  for (const DocumentSequence& other : out.sequences)
    if (other.name == name)
      return {location_code(40431), "Duplicate document sequence: " + std::string(name)};
  DocumentSequence& sequence = out.sequences.emplace_back();
  sequence.name = name;
  while (inside.size() > 0) {
    DocumentView document;
    MULTIFORA_TRY(inside.document(&document));
    sequence.documents.push_back(document);
  }
  return {};
}

Status check_flags(std::uint32_t flags) {
  const std::uint32_t unknown = flags & kRequiredFlags & ~kKnownRequiredFlags;
  if (unknown == 0) return {};
  return {ErrorCode::kIllegalOpMsgFlag,
          "Message contains illegal flags value: Ob" + std::to_string(unknown)};
}

Status check_checksum(Bytes message) {
  if (message.size() < kHeaderSize + 8) return malformed("no room for a checksum");
  const std::size_t end = message.size() - 4;
  if (load_le<std::uint32_t>(message.data() + end) == crc32c(message.substr(0, end))) return {};
  return {ErrorCode::kChecksumMismatch, "OP_MSG checksum does not match contents"};
}

Status parse_sections(Reader& reader, Message& out) {
  bool has_body = false;
  while (reader.size() > 0) {
    std::uint8_t kind = 0;
    reader.number(&kind);
    if (kind == 0) {
      if (has_body) return {location_code(40430), "Multiple body sections in message"};
      has_body = true;
      MULTIFORA_TRY(reader.document(&out.body));
    } else if (kind == 1) {
      MULTIFORA_TRY(parse_sequence(reader, out));
    } else {
      return {location_code(40432), "Unknown section kind " + std::to_string(kind)};
    }
  }
  if (!has_body) return {location_code(40587), "OP_MSG messages must have a body"};
  return {};
}

Status parse_msg(Bytes message, Message& out) {
  Reader reader(message.substr(kHeaderSize));
  if (!reader.number(&out.flags)) return malformed("OP_MSG without flags");
  MULTIFORA_TRY(check_flags(out.flags));
  Bytes sections = reader.rest();
  if (out.has_checksum()) {
    MULTIFORA_TRY(check_checksum(message));
    sections.remove_suffix(4);
  }
  Reader inside(sections);
  return parse_sections(inside, out);
}

Status parse_query(Bytes message, Message& out) {
  out.legacy = true;
  Reader reader(message.substr(kHeaderSize));
  std::int32_t flags = 0, skip = 0, count = 0;
  if (!reader.number(&flags) || !reader.text(&out.legacy_ns) || !reader.number(&skip) ||
      !reader.number(&count))
    return malformed("OP_QUERY cut short");
  MULTIFORA_TRY(reader.document(&out.body));
  DocumentView fields;
  if (reader.size() > 0) MULTIFORA_TRY(reader.document(&fields));
  if (reader.size() > 0) return malformed("bytes after OP_QUERY's documents");
  return {};
}

bool known_op_code(std::int32_t op_code) {
  return op_code == kOpMsg || op_code == kOpQuery || op_code == kOpCompressed;
}

void write_header(char* to, const Header& header) {
  store_le(to, header.length);
  store_le(to + 4, header.request_id);
  store_le(to + 8, header.response_to);
  store_le(to + 12, header.op_code);
}

}  // namespace

Header parse_header(Bytes message) {
  MULTIFORA_ASSERT(message.size() >= kHeaderSize);
  const char* at = message.data();
  return {load_le<std::int32_t>(at), load_le<std::int32_t>(at + 4), load_le<std::int32_t>(at + 8),
          load_le<std::int32_t>(at + 12)};
}

Result<std::size_t> message_length(Bytes bytes) {
  if (bytes.size() < 4) return std::size_t{0};
  const auto length = load_le<std::int32_t>(bytes.data());
  if (length < static_cast<std::int32_t>(kMessageSizeMin) ||
      static_cast<std::size_t>(length) > limits::kMessageSizeMax)
    return fail(ErrorCode::kProtocolError,
                "message of " + std::to_string(length) + " bytes; from " +
                    std::to_string(kMessageSizeMin) + " to " +
                    std::to_string(limits::kMessageSizeMax) + " are allowed");
  if (bytes.size() >= kHeaderSize) {
    const std::int32_t op_code = parse_header(bytes).op_code;
    if (!known_op_code(op_code))
      return fail(ErrorCode::kProtocolError,
                  "opcode " + std::to_string(op_code) +
                      " is not supported; clients must use OP_MSG (MongoDB 3.6 or newer)");
  }
  return static_cast<std::size_t>(length);
}

Status parse_message(Bytes message, Message& out) {
  const Header header = parse_header(message);
  out.request_id = header.request_id;
  out.flags = 0;
  out.legacy = false;
  out.legacy_ns = {};
  out.body = DocumentView();
  out.sequences.clear();
  if (header.op_code == kOpMsg) return parse_msg(message, out);
  if (header.op_code == kOpQuery) return parse_query(message, out);
  return {ErrorCode::kProtocolError, "opcode " + std::to_string(header.op_code) + " is no request"};
}

std::size_t reply_document_offset(ReplyKind kind) {
  return kind == ReplyKind::kMsg ? kMsgPrefix : kLegacyPrefix;
}

void begin_reply(Buffer& out, ReplyKind kind) {
  out.assign(reply_document_offset(kind), '\0');
}

void finish_reply(Buffer& out, const ReplyFrame& frame) {
  const bool checksum = frame.checksum && frame.kind == ReplyKind::kMsg;
  const std::size_t length = out.size() + (checksum ? 4 : 0);
  Header header;
  header.length = static_cast<std::int32_t>(length);
  header.request_id = frame.request_id;
  header.response_to = frame.response_to;
  header.op_code = frame.kind == ReplyKind::kMsg ? kOpMsg : kOpReply;
  char* to = out.data();
  write_header(to, header);
  if (frame.kind == ReplyKind::kMsg) {
    const std::uint32_t flags =
        (frame.more_to_come ? kMoreToCome : 0u) | (checksum ? kChecksumPresent : 0u);
    store_le(to + kHeaderSize, flags);  // then kind 0, which is zero already
  } else {
    const std::int32_t flags = kAwaitCapable | (frame.query_failure ? kQueryFailure : 0);
    store_le(to + kHeaderSize, flags);
    store_le(to + kHeaderSize + 4 + 8 + 4, std::int32_t{1});
  }
  if (checksum) append_le(out, crc32c(out));
}

}  // namespace multifora::wire
