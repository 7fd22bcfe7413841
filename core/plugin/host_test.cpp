#include "core/plugin/host.h"

#include <doctest/doctest.h>

#include "core/plugin/codec.h"
#include "core/plugin/command.h"
#include "core/plugin/plugin.h"

namespace multifora {
namespace {

const Codec kFirst{.name = "one", .wire_id = 7, .bound = nullptr, .compress = nullptr, .decompress = nullptr};
const Codec kSameName{.name = "one", .bound = nullptr, .compress = nullptr, .decompress = nullptr};
const Codec kSameWire{.name = "two", .wire_id = 7, .bound = nullptr, .compress = nullptr, .decompress = nullptr};

Status register_first(PluginHost& host) { return host.add_codec(&kFirst); }
Status register_same(PluginHost& host) { return host.add_codec(&kSameName); }

const PluginEntry kPluginOne{kPluginAbiStamp, "codec-one", "1.2", register_first};
const PluginEntry kPluginTwo{kPluginAbiStamp, "codec-uno", "3.4", register_same};
const PluginEntry kOldPlugin{"multifora-abi-0;old", "codec-old", "0.1", register_first};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a registered name is found, another is not") {
  PluginHost host;
  REQUIRE(host.load(kPluginOne, "").ok());
  CHECK(host.codec("one") == &kFirst);
  CHECK(host.wire_codec(7) == &kFirst);
  CHECK(host.codec("two") == nullptr);
  CHECK(host.index_kind("btree") == nullptr);
  CHECK(host.loaded().size() == 1);
}

TEST_CASE("a duplicate name is refused, naming both plugins and versions") {
  PluginHost host;
  REQUIRE(host.load(kPluginOne, "").ok());
  const Status status = host.load(kPluginTwo, "/x/codec-uno.so");
  REQUIRE(!status.ok());
  CHECK(contains(status.message(), "/x/codec-uno.so"));
  CHECK(contains(status.message(), "'one'"));
  CHECK(contains(status.message(), "codec-one 1.2"));
  CHECK(contains(status.message(), "codec-uno 3.4"));
}

TEST_CASE("a plugin loaded twice is refused") {
  PluginHost host;
  REQUIRE(host.load(kPluginOne, "").ok());
  CHECK(contains(host.load(kPluginOne, "/x/again.so").message(), "loaded already"));
}

TEST_CASE("a wire id belongs to one codec") {
  PluginHost host;
  REQUIRE(host.add_codec(&kFirst).ok());
  CHECK(!host.add_codec(&kSameWire).ok());
}

TEST_CASE("another ABI stamp is refused before the plugin's code runs") {
  PluginHost host;
  const Status status = host.load(kOldPlugin, "/x/old.so");
  CHECK(status.code() == ErrorCode::kUnsupportedFormat);
  CHECK(contains(status.message(), "/x/old.so"));
  CHECK(contains(status.message(), "codec-old 0.1"));
  CHECK(contains(status.message(), "multifora-abi-0;old"));
  CHECK(contains(status.message(), kPluginAbiStamp));
  CHECK(host.codecs().empty());
}

TEST_CASE("a missing shared object names the file") {
  PluginHost host;
  CHECK(contains(host.load_shared("/no/such/plugin.so").message(), "/no/such/plugin.so"));
  // Not searched for among the system's libraries, where this one would be found.
  CHECK(contains(host.load_shared("libc.so.6").message(), "cannot load plugin libc.so.6"));
}

TEST_CASE("services are found by type") {
  PluginHost host;
  CHECK(host.service<int>() == nullptr);
  REQUIRE(host.add_service(std::make_shared<int>(5)).ok());
  REQUIRE(host.service<int>() != nullptr);
  CHECK(*host.service<int>() == 5);
  CHECK(!host.add_service(std::make_shared<int>(6)).ok());
}

}  // namespace
}  // namespace multifora
