// Resume tokens of change streams: {_data: "82..."}, upper-case hex of
//
//   offset size
//   0      1    0x82 (a timestamp follows, as in MongoDB's tokens)
//   1      8    cluster time, big-endian
//   9      1    kind: 0x00 everything at or after the time is to come, 0x40 an event,
//               0xff everything up to the time has been seen
// and of an event
//   10     1    version, 1
//   11     4    place among the changes of its transaction, big-endian; 0 outside of one
//   15     1    1: the invalidate event that follows the event
//   16     2    fragment of a split event, big-endian; 0: not split
//
// Tokens compare as their events follow one another. Plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {
class DocumentBuilder;
}

namespace multifora::change_stream {

struct ResumeToken {
  enum class Kind : std::uint8_t { kFrom = 0x00, kEvent = 0x40, kSeen = 0xff };
  std::uint64_t time = 0;
  Kind kind = Kind::kFrom;
  std::uint32_t index = 0;
  bool invalidate = false;
  std::uint16_t fragment = 0;

  auto operator<=>(const ResumeToken&) const = default;

  static ResumeToken from(std::uint64_t time) { return {time, Kind::kFrom, 0, false, 0}; }
  static ResumeToken seen(std::uint64_t time) { return {time, Kind::kSeen, 0, false, 0}; }

  OwnedDocument to_document() const;
  void append_to(DocumentBuilder& out, std::string_view name) const;
  // InvalidResumeToken (260), FailedToParse (9: no hex), TypeMismatch, 40647 (no _data).
  static Result<ResumeToken> parse(DocumentView token);
};

}  // namespace multifora::change_stream
