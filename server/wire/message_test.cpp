#include "server/wire/message.h"

#include <doctest/doctest.h>

#include <deque>

#include "core/bson/builder.h"
#include "server/wire/crc32c.h"

namespace multifora::wire {
namespace {

std::string with_header(std::string_view body, std::int32_t op_code, std::int32_t id = 7) {
  Buffer message;
  append_le(message, static_cast<std::int32_t>(kHeaderSize + body.size()));
  append_le(message, id);
  append_le(message, std::int32_t{0});
  append_le(message, op_code);
  return message.append(body);
}

OwnedDocument ping() {
  DocumentBuilder b;
  b.append("ping", 1).append("$db", "admin");
  return std::move(b).finish();
}

std::string body_section() { return std::string(1, '\0') + ping().bytes(); }

std::string sequence(std::string_view name, int documents) {
  Buffer content(name);
  content.push_back('\0');
  for (int i = 0; i < documents; ++i) {
    DocumentBuilder b;
    b.append("_id", i);
    content += std::move(b).finish().bytes();
  }
  Buffer section(1, '\1');
  append_le(section, static_cast<std::int32_t>(content.size() + 4));
  return section + content;
}

std::string op_msg(std::uint32_t flags, std::string_view sections) {
  Buffer body;
  append_le(body, flags);
  body += sections;
  if ((flags & kChecksumPresent) == 0) return with_header(body, kOpMsg);
  std::string message = with_header(body + "0000", kOpMsg);
  store_le(message.data() + message.size() - 4,
           crc32c(Bytes(message).substr(0, message.size() - 4)));
  return message;
}

ErrorCode parse_code(const std::string& message) {
  Message out;
  return parse_message(message, out).code();
}

}  // namespace

// A message's views live as long as its bytes: here, as long as the program.
Bytes keep(std::string message) {
  static std::deque<std::string> kept;
  return kept.emplace_back(std::move(message));
}

TEST_CASE("framing") {
  const std::string message = op_msg(0, body_section());
  CHECK(message_length(Bytes(message).substr(0, 3)).value() == 0);
  CHECK(message_length(Bytes(message).substr(0, 4)).value() == message.size());
  CHECK(message_length(message).value() == message.size());
  for (const std::int32_t length : {0, -1, 15, 48'000'001, INT32_MIN, INT32_MAX}) {
    std::string bad = message;
    store_le(bad.data(), length);
    CHECK(message_length(bad).error().code() == ErrorCode::kProtocolError);
  }
  for (const std::int32_t legacy : {0, 1, 1000, 2001, 2002, 2005, 2006, 2007, 2010, 2011, 2014})
    CHECK_FALSE(message_length(with_header("x", legacy)).has_value());
}

TEST_CASE("OP_MSG with body, sequences, flags and checksum") {
  Message out;
  const std::string plain = op_msg(0, body_section());
  REQUIRE(parse_message(plain, out).ok());
  CHECK(out.request_id == 7);
  CHECK(out.body.first().name() == "ping");
  CHECK(out.sequences.empty());

  // Sections may come in any order, and an empty sequence is one.
  const std::string message = op_msg(
      kMoreToCome | kChecksumPresent | kExhaustAllowed,
      sequence("documents", 3) + body_section() + sequence("none", 0));
  REQUIRE(parse_message(message, out).ok());
  CHECK(out.more_to_come());
  CHECK(out.exhaust_allowed());
  CHECK(out.has_checksum());
  REQUIRE(out.sequences.size() == 2);
  CHECK(out.sequences[0].name == "documents");
  CHECK(out.sequences[0].documents.size() == 3);
  CHECK(out.sequences[0].documents[2]["_id"].as_int32() == 2);
  CHECK(out.sequences[1].documents.empty());

  // Unknown optional flags are ignored.
  CHECK(parse_message(keep(op_msg(1u << 20, body_section())), out).ok());
}

TEST_CASE("OP_MSG mistakes") {
  CHECK(parse_code(op_msg(1u << 3, body_section())) == ErrorCode::kIllegalOpMsgFlag);
  CHECK(parse_code(op_msg(0, "")) == location_code(40587));
  CHECK(parse_code(op_msg(0, body_section() + body_section())) == location_code(40430));
  CHECK(parse_code(op_msg(0, body_section() + "\2")) == location_code(40432));
  CHECK(parse_code(op_msg(0, sequence("a", 1) + sequence("a", 1) + body_section())) ==
        location_code(40431));
  CHECK(parse_code(op_msg(0, sequence("\xff", 1) + body_section())) == ErrorCode::kInvalidBSON);
  std::string damaged = op_msg(kChecksumPresent, body_section());
  damaged[30] ^= 1;
  CHECK(parse_code(damaged) == ErrorCode::kChecksumMismatch);
  CHECK(parse_code(with_header("", kOpMsg)) == ErrorCode::kProtocolError);
  CHECK(parse_code(op_msg(kChecksumPresent, "").substr(0, 18)) == ErrorCode::kProtocolError);
}

TEST_CASE("every cut and every flipped byte of a message is an error or another message") {
  const std::string message =
      op_msg(0, sequence("documents", 2) + body_section() + sequence("more", 1));
  Message out;
  for (std::size_t size = kHeaderSize; size < message.size(); ++size) {
    // A heap block of the exact size, so that a sanitizer sees any read beyond it.
    const std::vector<char> cut(message.begin(), message.begin() + static_cast<long>(size));
    (void)parse_message(Bytes(cut.data(), cut.size()), out);
  }
  for (std::size_t at = kHeaderSize; at < message.size(); ++at) {
    for (const char bits : {'\x01', '\x80', '\xff'}) {
      std::vector<char> flipped(message.begin(), message.end());
      flipped[at] = static_cast<char>(flipped[at] ^ bits);
      (void)parse_message(Bytes(flipped.data(), flipped.size()), out);
    }
  }
}

TEST_CASE("OP_QUERY and OP_REPLY") {
  Buffer body;
  append_le(body, std::int32_t{4});
  body.append("admin.$cmd", 11);
  append_le(body, std::int32_t{0});
  append_le(body, std::int32_t{-1});
  body += ping().bytes();
  Message out;
  REQUIRE(parse_message(keep(with_header(body, kOpQuery)), out).ok());
  CHECK(out.legacy);
  CHECK(out.legacy_ns == "admin.$cmd");
  CHECK(out.body.first().name() == "ping");
  CHECK(parse_code(with_header(body + "x", kOpQuery)) != ErrorCode::kOK);
  CHECK(parse_code(with_header(body.substr(0, 12), kOpQuery)) != ErrorCode::kOK);

  Buffer reply;
  begin_reply(reply, ReplyKind::kLegacy);
  reply += ping().bytes();
  finish_reply(reply, {.kind = ReplyKind::kLegacy, .request_id = 3, .response_to = 7});
  const Header header = parse_header(reply);
  CHECK(header.length == static_cast<std::int32_t>(reply.size()));
  CHECK(header.op_code == kOpReply);
  CHECK(header.response_to == 7);
  CHECK(load_le<std::int32_t>(reply.data() + 32) == 1);  // one document
  CHECK(Bytes(reply).substr(36) == ping().bytes());
}

TEST_CASE("an OP_MSG reply can be parsed again") {
  Buffer reply;
  begin_reply(reply, ReplyKind::kMsg);
  reply += ping().bytes();
  finish_reply(reply, {.request_id = 3, .response_to = 7, .more_to_come = true, .checksum = true});
  Message out;
  REQUIRE(message_length(reply).value() == reply.size());
  REQUIRE(parse_message(reply, out).ok());
  CHECK(out.more_to_come());
  CHECK(out.body.bytes() == ping().bytes());
}

}  // namespace multifora::wire
