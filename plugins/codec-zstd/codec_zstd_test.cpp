#include "tests/support/codec_checks.h"

const multifora::PluginEntry* multifora_plugin_codec_zstd();

TEST_CASE("codec-zstd keeps the codec contract") {
  const multifora::Codec* codec =
      multifora::testing::load_codec(*multifora_plugin_codec_zstd(), "zstd");
  REQUIRE(codec != nullptr);
  CHECK(codec->wire_id == 3);
  multifora::testing::check_codec(*codec);
}
