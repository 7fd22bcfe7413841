#include "core/base/file_overlay.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

namespace multifora {
namespace {

std::string content(FileSystem& files, const std::string& path) {
  const auto file = files.open(path, OpenMode::kReadOnly);
  REQUIRE(file);
  std::string bytes((*file)->size().value(), '\0');
  REQUIRE((*file)->read(0, bytes.data(), bytes.size()).value() == bytes.size());
  return bytes;
}

struct Directory {
  Directory()
      : path((std::filesystem::temp_directory_path() /
              ("multifora_overlay_" + std::to_string(::getpid())))
                 .string()) {
    std::filesystem::remove_all(path);
    REQUIRE(below.create_directory(path).ok());
    for (const char* name : {"a", "b"}) {
      const auto file = below.open(path + "/" + name, OpenMode::kCreate);
      REQUIRE((*file)->write(0, std::string(10'000, *name)).ok());
    }
  }
  ~Directory() { std::filesystem::remove_all(path); }
  FileSystem& below = posix_file_system();
  std::string path;
};

TEST_CASE("changes over a file are seen above and not below") {
  Directory directory;
  const std::string a = directory.path + "/a";
  OverlayFileSystem files;
  {
    const auto file = files.open(a, OpenMode::kExisting);
    REQUIRE(file);
    char* const mapped = (*file)->map(std::uint64_t{1} << 40, true).value();
    CHECK(mapped[9'999] == 'a');
    CHECK((*file)->map(std::uint64_t{1} << 40, false).value() == mapped);
    REQUIRE((*file)->write(5'000, "XY").ok());
    CHECK(mapped[5'001] == 'Y');
    mapped[0] = 'Z';
    REQUIRE((*file)->allocate(0, 20'000).ok());
    CHECK(mapped[15'000] == 0);
    REQUIRE((*file)->write(30'000, "end").ok());
    CHECK((*file)->size().value() == 30'003);
    REQUIRE((*file)->sync().ok());
  }
  {
    // Changes made before the mapping are in it.
    OverlayFileSystem others;
    const auto file = others.open(a, OpenMode::kExisting);
    REQUIRE((*file)->write(7'000, "before").ok());
    char* const mapped = (*file)->map(std::uint64_t{1} << 40, true).value();
    CHECK(std::string(mapped + 6'999, 8) == "abeforea");
  }
  const std::string above = content(files, a);  // after the file was closed, too
  CHECK(above.size() == 30'003);
  CHECK(above.substr(0, 2) == "Za");
  CHECK(above.substr(4'999, 4) == "aXYa");
  {
    const auto file = files.open(a, OpenMode::kExisting);
    REQUIRE((*file)->truncate(6'000).ok());
    REQUIRE((*file)->truncate(7'000).ok());
    REQUIRE((*file)->punch_hole(0, 100).ok());
  }
  CHECK(content(files, a).substr(5'998) == "aa" + std::string(1'000, '\0'));
  CHECK(content(files, a)[50] == 0);
  CHECK(content(directory.below, a) == std::string(10'000, 'a'));
}

TEST_CASE("names change above only") {
  Directory directory;
  const auto in = [&](const char* name) { return directory.path + "/" + name; };
  OverlayFileSystem files;
  REQUIRE(files.open(in("new"), OpenMode::kCreate));
  REQUIRE(files.remove(in("b")).ok());
  REQUIRE(files.rename(in("a"), in("c")).ok());
  CHECK(files.list(directory.path).value() == std::vector<std::string>{"c", "new"});
  CHECK(content(files, in("c")) == std::string(10'000, 'a'));
  CHECK_FALSE(files.exists(in("a")));
  CHECK(files.open(in("b"), OpenMode::kExisting).error().code() == ErrorCode::kNoSuchKey);
  CHECK(files.remove(in("b")).code() == ErrorCode::kNoSuchKey);
  CHECK(files.list(in("sub")).error().code() == ErrorCode::kNoSuchKey);
  REQUIRE(files.create_directory(in("sub")).ok());
  CHECK(files.list(in("sub")).value().empty());
  CHECK(directory.below.list(directory.path).value() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("an exclusive lock below is respected, and kept out") {
  Directory directory;
  const std::string path = directory.path + "/lock";
  OverlayFileSystem files;
  REQUIRE(files.lock(path, "x"));  // nothing to lock
  CHECK_FALSE(directory.below.exists(path));
  {
    const auto held = directory.below.lock(path, "1");
    REQUIRE(held);
    CHECK(files.lock(path, "x").error().code() == ErrorCode::kLockBusy);
  }
  const auto shared = files.lock(path, "x");
  REQUIRE(shared);
  CHECK(files.lock(path, "x"));
  CHECK(directory.below.lock(path, "2").error().code() == ErrorCode::kLockBusy);
  CHECK(content(directory.below, path) == "1");
}

}  // namespace
}  // namespace multifora
