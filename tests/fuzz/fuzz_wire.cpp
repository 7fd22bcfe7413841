// Bytes from a socket through the wire layer: framing, decompression, parsing, and back into a reply.
#include "core/bson/builder.h"
#include "core/plugin/plugin.h"
#include "server/wire/compression.h"
#include "server/wire/crc32c.h"
#include "server/wire/message.h"
#include "tests/fuzz/fuzz.h"

const multifora::PluginEntry* multifora_plugin_codec_snappy();
const multifora::PluginEntry* multifora_plugin_codec_zlib();
const multifora::PluginEntry* multifora_plugin_codec_zstd();

namespace multifora {
namespace {

PluginHost& host() {
  static PluginHost& host = *[] {
    auto* made = new PluginHost();
    FUZZ_CHECK(made->load(*multifora_plugin_codec_snappy(), "").ok());
    FUZZ_CHECK(made->load(*multifora_plugin_codec_zlib(), "").ok());
    FUZZ_CHECK(made->load(*multifora_plugin_codec_zstd(), "").ok());
    return made;
  }();
  return host;
}

bool inside(Bytes whole, Bytes part) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

// What was parsed points into the message and is walked without harm.
void check_message(Bytes bytes, const wire::Message& message) {
  if (message.body.size_bytes() > 5) FUZZ_CHECK(inside(bytes, message.body.bytes()));
  for (const Element& e : message.body) FUZZ_CHECK(inside(bytes, e.name()));
  for (const DocumentSequence& sequence : message.sequences) {
    FUZZ_CHECK(inside(bytes, sequence.name));
    for (const DocumentView document : sequence.documents)
      FUZZ_CHECK(inside(bytes, document.bytes()));
  }
}

void parse(Bytes bytes) {
  wire::Message message;
  if (!wire::parse_message(bytes, message).ok()) return;
  check_message(bytes, message);
  // Sent back as a reply, it is the same document again.
  Buffer reply;
  wire::begin_reply(reply, wire::ReplyKind::kMsg);
  reply += message.body.bytes();
  wire::finish_reply(reply, {.request_id = 1, .checksum = true});
  wire::Message again;
  FUZZ_CHECK(wire::message_length(reply).value() == reply.size());
  FUZZ_CHECK(wire::parse_message(reply, again).ok());
  FUZZ_CHECK(again.body.bytes() == message.body.bytes());
}

Buffer some_message(std::uint32_t flags) {
  Buffer message;
  wire::begin_reply(message, wire::ReplyKind::kMsg);
  {
    DocumentBuilder b(&message);
    b.append("insert", "c").append("$db", "test");
    b.object("lsid").append_binary("id", std::string(16, 'x'), 4);
  }
  Buffer content("documents", 10);
  for (int i = 0; i < 3; ++i) DocumentBuilder(&content).append("_id", i).append("text", "abcabcabc");
  message.push_back('\1');
  append_le(message, static_cast<std::int32_t>(content.size() + 4));
  message += content;
  wire::finish_reply(message, {.request_id = 5, .checksum = (flags & wire::kChecksumPresent) != 0});
  return message;
}

Buffer some_query() {
  Buffer message(wire::kHeaderSize, '\0');
  append_le(message, std::int32_t{0});
  message.append("admin.$cmd", 11);
  append_le(message, std::int32_t{0});
  append_le(message, std::int32_t{-1});
  DocumentBuilder(&message).append("isMaster", 1);
  store_le(message.data(), static_cast<std::int32_t>(message.size()));
  store_le(message.data() + 12, std::int32_t{wire::kOpQuery});
  return message;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> seeds{some_message(0), some_message(wire::kChecksumPresent),
                                 some_query()};
  for (const std::uint8_t compressor : {1, 2, 3}) {
    Buffer packed;
    FUZZ_CHECK(wire::compress_message(host(), compressor, some_message(0), packed));
    seeds.push_back(packed);
  }
  return seeds;
}

}  // namespace multifora

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace multifora;
  const Bytes bytes(reinterpret_cast<const char*>(data), size);
  // The length field rarely survives a mutation: what framing says is checked, then all is parsed.
  const auto length = wire::message_length(bytes);
  if (length) FUZZ_CHECK(*length <= limits::kMessageSizeMax);
  if (size < wire::kHeaderSize) return 0;
  if (wire::parse_header(bytes).op_code != wire::kOpCompressed) {
    parse(bytes);
    return 0;
  }
  Buffer unpacked;
  std::uint8_t compressor = 0;
  if (wire::decompress_message(host(), bytes, unpacked, &compressor).ok()) parse(unpacked);
  return 0;
}
