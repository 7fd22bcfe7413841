#include "server/wire/compression.h"

#include <doctest/doctest.h>

#include "core/bson/builder.h"
#include "core/plugin/plugin.h"
#include "server/wire/message.h"

const multifora::PluginEntry* multifora_plugin_codec_snappy();
const multifora::PluginEntry* multifora_plugin_codec_zlib();
const multifora::PluginEntry* multifora_plugin_codec_zstd();

namespace multifora::wire {
namespace {

void load_codecs(PluginHost& host) {
  REQUIRE(host.load(*multifora_plugin_codec_snappy(), "").ok());
  REQUIRE(host.load(*multifora_plugin_codec_zlib(), "").ok());
  REQUIRE(host.load(*multifora_plugin_codec_zstd(), "").ok());
}

Buffer some_message() {
  Buffer message;
  begin_reply(message, ReplyKind::kMsg);
  DocumentBuilder b;
  b.append("text", std::string(5000, 'a'));
  message += std::move(b).finish().bytes();
  finish_reply(message, {.request_id = 11, .response_to = 12});
  return message;
}

}  // namespace

TEST_CASE("each compressor's envelope can be undone") {
  PluginHost host;
  load_codecs(host);
  const Buffer message = some_message();
  for (const std::uint8_t id : {1, 2, 3}) {
    CAPTURE(id);
    Buffer packed, back;
    REQUIRE(compress_message(host, id, message, packed));
    CHECK(packed.size() < message.size());
    CHECK(message_length(packed).value() == packed.size());
    std::uint8_t compressor = 0;
    REQUIRE(decompress_message(host, packed, back, &compressor).ok());
    CHECK(compressor == id);
    CHECK(back == message);
    // Whatever the buffer has held before.
    for (std::size_t capacity = 16; capacity < 12'000; capacity += 500) {
      Buffer used;
      used.reserve(capacity);
      REQUIRE(decompress_message(host, packed, used, &compressor).ok());
      CHECK(used == message);
    }
  }
  Buffer packed;
  CHECK_FALSE(compress_message(host, 0, message, packed));
  CHECK_FALSE(compress_message(host, 77, message, packed));
}

TEST_CASE("hostile envelopes are refused") {
  PluginHost host;
  load_codecs(host);
  Buffer packed, back;
  REQUIRE(compress_message(host, 3, some_message(), packed));
  std::uint8_t compressor = 0;
  const auto refused = [&](const Buffer& envelope) {
    return decompress_message(host, envelope, back, &compressor).code() ==
           ErrorCode::kProtocolError;
  };
  const auto patched = [&](std::size_t at, auto value) {
    Buffer envelope = packed;
    store_le(envelope.data() + at, value);
    return envelope;
  };
  CHECK(refused(packed.substr(0, 24)));
  CHECK(refused(packed.substr(0, packed.size() - 1)));
  CHECK(refused(patched(16, std::int32_t{kOpCompressed})));  // an envelope in an envelope
  CHECK(refused(patched(16, std::int32_t{2002})));
  CHECK(refused(patched(20, std::int32_t{-1})));
  CHECK(refused(patched(20, std::int32_t{48'000'000})));  // a bomb's claim
  CHECK(refused(patched(20, std::int32_t{100})));
  CHECK(refused(patched(24, std::uint8_t{0})));  // "noop" of another size
  CHECK(refused(patched(24, std::uint8_t{1})));
  CHECK(refused(patched(24, std::uint8_t{9})));

  PluginHost none;
  CHECK(decompress_message(none, packed, back, &compressor).message().find("not loaded") !=
        std::string::npos);
}

}  // namespace multifora::wire
