#include "core/base/file_private.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace multifora {
namespace {

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "multifora_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  void put(const std::string& name, const std::string& content) const {
    std::ofstream(path + "/" + name, std::ios::binary) << content;
  }
  std::string on_disk(const std::string& name) const {
    std::ifstream in(path + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string path;
};

std::string content(File& file) {
  std::string text(*file.size(), '\0');
  REQUIRE(*file.read(0, text.data(), text.size()) == text.size());
  return text;
}

TEST_CASE("changes are seen through every view, and never by the disk") {
  const Folder folder;
  const std::string old(10'000, 'a');
  folder.put("f", old);
  const auto files = make_private_file_system();
  auto file = files->open(folder / "f", OpenMode::kExisting);
  REQUIRE(file);
  CHECK(content(**file) == old);
  char* const base = *(*file)->map(1 << 30, true);
  CHECK(Bytes(base, old.size()) == old);
  REQUIRE((*file)->write(5000, "xyz").ok());
  CHECK(Bytes(base + 5000, 3) == "xyz");
  CHECK(*(*file)->map(1 << 30, false) == base);
  // Growth: zeros first, then what is stored through the mapping.
  REQUIRE((*file)->allocate(0, 50'000).ok());
  CHECK(base[49'999] == 0);
  base[49'999] = 'z';
  CHECK(content(**file).back() == 'z');
  REQUIRE((*file)->punch_hole(0, 4096).ok());
  CHECK(base[0] == 0);
  REQUIRE((*file)->truncate(6000).ok());
  REQUIRE((*file)->truncate(7000).ok());
  CHECK(content(**file) == std::string(4096, '\0') + std::string(904, 'a') + "xyz" +
                               std::string(997, 'a') + std::string(1000, '\0'));
  REQUIRE((*file)->sync().ok());
  file->reset();
  // Another File of the same path sees them too.
  auto again = files->open(folder / "f", OpenMode::kReadOnly);
  REQUIRE(again);
  CHECK(*(*again)->size() == 7000);
  CHECK(folder.on_disk("f") == old);
}

TEST_CASE("names are made, moved and removed in memory only") {
  const Folder folder;
  folder.put("old", "1");
  folder.put("gone", "2");
  const auto files = make_private_file_system();
  CHECK(files->open(folder / "none", OpenMode::kExisting).error().code() == ErrorCode::kNoSuchKey);
  {
    auto made = files->open(folder / "new", OpenMode::kCreate);
    REQUIRE(made);
    REQUIRE((*made)->write(3, "abc").ok());
    CHECK(content(**made) == std::string("\0\0\0abc", 6));
  }
  REQUIRE(files->rename(folder / "new", folder / "old").ok());
  REQUIRE(files->remove(folder / "gone").ok());
  CHECK(!files->remove(folder / "gone").ok());
  REQUIRE(files->create_directory(folder / "sub").ok());
  CHECK(files->exists(folder / "sub"));
  REQUIRE(files->open(folder / "sub/x", OpenMode::kCreate));
  CHECK(*files->list(folder.path) == std::vector<std::string>{"old"});
  CHECK(*files->list(folder / "sub") == std::vector<std::string>{"x"});
  auto moved = files->open(folder / "old", OpenMode::kExisting);
  CHECK(content(**moved) == std::string("\0\0\0abc", 6));
  CHECK(!files->exists(folder / "gone"));
  auto anew = files->open(folder / "gone", OpenMode::kCreate);
  CHECK(*(*anew)->size() == 0);
  CHECK(folder.on_disk("old") == "1");
  CHECK(folder.on_disk("gone") == "2");
  CHECK(!std::filesystem::exists(folder / "new"));
  CHECK(!std::filesystem::exists(folder / "sub"));
}

TEST_CASE("readers share a lock, a writer excludes them") {
  const Folder folder;
  const auto one = make_private_file_system();
  const auto two = make_private_file_system();
  CHECK(one->lock(folder / "lock", "").error().code() == ErrorCode::kNoSuchKey);
  {
    auto writer = posix_file_system().lock(folder / "lock", "7");
    REQUIRE(writer);
    CHECK(one->lock(folder / "lock", "8").error().code() == ErrorCode::kLockBusy);
  }
  auto first = one->lock(folder / "lock", "8");
  auto second = two->lock(folder / "lock", "9");
  CHECK(first);
  CHECK(second);
  CHECK(posix_file_system().lock(folder / "lock", "10").error().code() == ErrorCode::kLockBusy);
  CHECK(folder.on_disk("lock") == "7");
}

}  // namespace
}  // namespace multifora
