#include "tests/support/codec_checks.h"

const multifora::PluginEntry* multifora_plugin_codec_lz4();

TEST_CASE("codec-lz4 keeps the codec contract") {
  const multifora::Codec* codec =
      multifora::testing::load_codec(*multifora_plugin_codec_lz4(), "lz4");
  REQUIRE(codec != nullptr);
  CHECK(codec->wire_id == 0);
  multifora::testing::check_codec(*codec);
}
