#include "tests/support/codec_checks.h"

const multifora::PluginEntry* multifora_plugin_codec_snappy();

TEST_CASE("codec-snappy keeps the codec contract") {
  const multifora::Codec* codec =
      multifora::testing::load_codec(*multifora_plugin_codec_snappy(), "snappy");
  REQUIRE(codec != nullptr);
  CHECK(codec->wire_id == 1);
  multifora::testing::check_codec(*codec);
}
