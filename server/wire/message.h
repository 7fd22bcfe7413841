// MongoDB's wire protocol: framing, OP_MSG, OP_COMPRESSED, and as much of OP_QUERY / OP_REPLY as old
// drivers need to say hello. Source: the manual's "MongoDB Wire Protocol" and the drivers'
// specifications of OP_MSG and OP_COMPRESSED.
//
// A message, little-endian:
//    0  int32  length of the whole message
//    4  int32  request id, chosen by the sender
//    8  int32  response to (the request's id; 0 in requests)
//   12  int32  opcode
//   16  ...    body
// OP_MSG (2013):        uint32 flags; sections; uint32 CRC-32C of all before it, if flag bit 0.
//   section kind 0:     uint8 0; document                                  (exactly one)
//   section kind 1:     uint8 1; int32 size; cstring name; documents       (any number)
// OP_COMPRESSED (2012): int32 opcode inside; int32 size of its body; uint8 compressor; bytes.
// OP_QUERY (2004):      int32 flags; cstring namespace; int32 skip; int32 return; document;
//                       document (optional).
// OP_REPLY (1):         int32 flags; int64 cursor; int32 from; int32 count; documents.
//
// Everything here is stateless and safe on hostile bytes: nothing is read outside the arguments,
// and nothing is allocated on the word of a sender beyond the message limit.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/limits.h"
#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/plugin/command.h"

namespace multifora::wire {

enum OpCode : std::int32_t {
  kOpReply = 1,
  kOpQuery = 2004,
  kOpCompressed = 2012,
  kOpMsg = 2013,
};

inline constexpr std::size_t kHeaderSize = 16;
// The smallest OP_MSG: header, flags, an empty body section.
inline constexpr std::size_t kMessageSizeMin = kHeaderSize;

enum MessageFlags : std::uint32_t {
  kChecksumPresent = 1u << 0,
  kMoreToCome = 1u << 1,
  kExhaustAllowed = 1u << 16,
};
enum ReplyFlags : std::int32_t { kQueryFailure = 2, kAwaitCapable = 8 };

struct Header {
  std::int32_t length = 0;
  std::int32_t request_id = 0;
  std::int32_t response_to = 0;
  std::int32_t op_code = 0;
};

// Length of the message that starts with `bytes`; 0: more bytes are needed to know. Fails
// (ProtocolError) where the length is impossible or the opcode, once there, is not one of ours:
// the stream cannot be followed further, the connection is to be closed.
Result<std::size_t> message_length(Bytes bytes);

// One request. Views point into the message.
struct Message {
  std::int32_t request_id = 0;
  std::uint32_t flags = 0;       // OP_MSG's
  bool legacy = false;           // OP_QUERY: answer with OP_REPLY
  std::uint8_t compressor = 0;   // of the OP_COMPRESSED it came in; 0: none
  std::string_view legacy_ns;    // OP_QUERY's namespace
  DocumentView body;
  std::vector<DocumentSequence> sequences;

  bool more_to_come() const { return (flags & kMoreToCome) != 0; }
  bool exhaust_allowed() const { return (flags & kExhaustAllowed) != 0; }
  bool has_checksum() const { return (flags & kChecksumPresent) != 0; }
};

// Parses one whole OP_MSG or OP_QUERY (as framed by message_length, compression undone). After a
// failure `out`'s request_id, flags and legacy are what could be read, so that the error can be
// sent as a reply.
Status parse_message(Bytes message, Message& out);

Header parse_header(Bytes message);  // requires kHeaderSize bytes

// --- replies ------------------------------------------------------------------------------------
// A reply is built in place: begin_reply leaves room for what precedes the document, the caller
// appends the document, finish_reply fills the room.

enum class ReplyKind { kMsg, kLegacy };

void begin_reply(Buffer& out, ReplyKind kind);
std::size_t reply_document_offset(ReplyKind kind);

struct ReplyFrame {
  ReplyKind kind = ReplyKind::kMsg;
  std::int32_t request_id = 0;
  std::int32_t response_to = 0;
  bool more_to_come = false;
  bool checksum = false;
  bool query_failure = false;  // legacy only
};
void finish_reply(Buffer& out, const ReplyFrame& frame);

}  // namespace multifora::wire
