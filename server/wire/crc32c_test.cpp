#include "server/wire/crc32c.h"

#include <doctest/doctest.h>

using multifora::Bytes;
using multifora::wire::crc32c;

TEST_CASE("crc32c gives the published check values") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283u);
  // RFC 3720, appendix B.4.
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAu);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  CHECK(crc32c(rising) == 0x46DD794Eu);
}
