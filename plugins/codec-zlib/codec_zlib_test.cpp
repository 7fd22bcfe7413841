#include "tests/support/codec_checks.h"

const multifora::PluginEntry* multifora_plugin_codec_zlib();

TEST_CASE("codec-zlib keeps the codec contract") {
  const multifora::Codec* codec =
      multifora::testing::load_codec(*multifora_plugin_codec_zlib(), "zlib");
  REQUIRE(codec != nullptr);
  CHECK(codec->wire_id == 2);
  multifora::testing::check_codec(*codec);
}
