#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/file.h"

using namespace multifora;

namespace {

// A folder that goes with the test.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "multifora_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

FileSystem& files() {
  return posix_file_system();
}

std::unique_ptr<File> create(const std::string& path) {
  auto file = files().open(path, OpenMode::kCreate);
  REQUIRE_MESSAGE(file.has_value(), file.error().message());
  return std::move(*file);
}

std::string content(const File& file, std::uint64_t offset, std::size_t size) {
  std::string to(size, '?');
  const auto n = file.read(offset, to.data(), size);
  REQUIRE(n.has_value());
  return to.substr(0, *n);
}

}  // namespace

TEST_CASE("read and write at offsets; reads stop at the end") {
  const TempDir dir;
  const auto file = create(dir / "f");
  CHECK(file->size().value() == 0);
  CHECK(content(*file, 0, 10).empty());
  REQUIRE(file->write(4, "hello").ok());
  CHECK(file->size().value() == 9);
  CHECK(content(*file, 0, 100) == std::string("\0\0\0\0hello", 9));
  CHECK(content(*file, 6, 2) == "ll");
  CHECK(content(*file, 9, 1).empty());
  CHECK(content(*file, 1000, 1).empty());
  REQUIRE(file->write(0, "").ok());
  REQUIRE(file->sync().ok());
  REQUIRE(file->truncate(5).ok());
  CHECK(content(*file, 0, 100) == std::string("\0\0\0\0h", 5));
  REQUIRE(file->truncate(7).ok());
  CHECK(content(*file, 4, 10) == std::string("h\0\0", 3));
}

TEST_CASE("open modes") {
  const TempDir dir;
  const auto missing = files().open(dir / "f", OpenMode::kExisting);
  REQUIRE(!missing.has_value());
  CHECK(missing.error().code() == ErrorCode::kNoSuchKey);
  CHECK(missing.error().message().find(dir / "f") != std::string::npos);
  CHECK(missing.error().message().find("open") != std::string::npos);
  CHECK(missing.error().message().find("No such file") != std::string::npos);
  REQUIRE(create(dir / "f")->write(0, "x").ok());
  CHECK(content(*create(dir / "f"), 0, 2) == "x");  // kCreate keeps what is there
  const auto reader = files().open(dir / "f", OpenMode::kReadOnly);
  REQUIRE(reader.has_value());
  CHECK((*reader)->write(0, "y").code() == ErrorCode::kFileStreamFailed);
  CHECK(content(**reader, 0, 1) == "x");
}

TEST_CASE("allocate extends with zeros and keeps what is there; holes give blocks back") {
  const TempDir dir;
  const auto file = create(dir / "f");
  constexpr std::uint64_t kSize = 256 * 1024;
  REQUIRE(file->write(10, "data").ok());
  REQUIRE(file->allocate(0, kSize).ok());
  CHECK(file->size().value() == kSize);
  CHECK(content(*file, 9, 6) == std::string("\0data\0", 6));
  const auto before = file->allocated_size();
  REQUIRE(before.has_value());
  CHECK(*before >= kSize);
  REQUIRE(file->write(64 * 1024, std::string(64 * 1024, 'z')).ok());
  REQUIRE(file->punch_hole(64 * 1024, 64 * 1024).ok());
  CHECK(file->size().value() == kSize);
  CHECK(content(*file, 64 * 1024, 64 * 1024) == std::string(64 * 1024, '\0'));
  CHECK(content(*file, 10, 4) == "data");
  CHECK(file->allocated_size().value() <= *before);
  CHECK(file->punch_hole(kSize - 4096, 1 << 20).ok());  // past the end: nothing to extend
  CHECK(file->size().value() == kSize);
  CHECK(file->punch_hole(kSize * 2, 4096).ok());
  CHECK(file->allocate(0, 0).ok());
}

TEST_CASE("mappings are views of the same bytes and grow with the file") {
  const TempDir dir;
  const auto file = create(dir / "f");
  constexpr std::uint64_t kReserve = std::uint64_t{1} << 30;
  REQUIRE(file->allocate(0, 8192).ok());
  const auto writable = file->map(kReserve, true);
  const auto reader = file->map(kReserve, false);
  REQUIRE(writable.has_value());
  REQUIRE(reader.has_value());
  CHECK(*writable != *reader);
  (*writable)[5000] = 'A';
  CHECK((*reader)[5000] == 'A');
  CHECK(content(*file, 5000, 1) == "A");
  REQUIRE(file->write(1, "B").ok());
  CHECK((*reader)[1] == 'B');
  REQUIRE(file->sync().ok());
  REQUIRE(file->allocate(8192, 1 << 20).ok());
  (*writable)[1 << 20] = 'C';
  CHECK((*reader)[1 << 20] == 'C');
  file->release(0, 1 << 21);  // advice: more than the file, dirty pages too
  CHECK((*reader)[1 << 20] == 'C');
  CHECK((*writable)[5000] == 'A');
}

TEST_CASE("a store through a read-only mapping traps") {
  const TempDir dir;
  const auto file = create(dir / "f");
  REQUIRE(file->allocate(0, 4096).ok());
  const auto reader = file->map(4096, false);
  REQUIRE(reader.has_value());
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    *static_cast<volatile char*>(*reader) = 'x';
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(content(*file, 0, 1) == std::string(1, '\0'));
}

TEST_CASE("names: create, list, rename, remove") {
  const TempDir dir;
  REQUIRE(files().create_directory(dir / "a/b/c").ok());
  REQUIRE(files().create_directory(dir / "a/b/c").ok());
  create(dir / "a/2");
  create(dir / "a/1");
  CHECK(files().list(dir / "a").value() == std::vector<std::string>{"1", "2", "b"});
  CHECK(files().list(dir / "zz").error().code() == ErrorCode::kNoSuchKey);
  REQUIRE(files().rename(dir / "a/1", dir / "a/3").ok());
  CHECK(!files().exists(dir / "a/1"));
  CHECK(files().exists(dir / "a/3"));
  CHECK(files().rename(dir / "a/1", dir / "a/4").code() == ErrorCode::kNoSuchKey);
  REQUIRE(files().sync_directory(dir / "a").ok());
  CHECK(files().sync_directory(dir / "zz").code() == ErrorCode::kNoSuchKey);
  REQUIRE(files().remove(dir / "a/3").ok());
  CHECK(files().remove(dir / "a/3").code() == ErrorCode::kNoSuchKey);
  CHECK(files().remove(dir / "a/b").code() == ErrorCode::kFileStreamFailed);  // not empty
  REQUIRE(files().remove(dir / "a/b/c").ok());
  CHECK(files().create_directory(dir / "a/2").code() == ErrorCode::kFileStreamFailed);  // a file
  CHECK(files().create_directory(dir / "a/2/x").code() == ErrorCode::kFileStreamFailed);
  CHECK(files().free_space(dir.path()).value() > 0);
  CHECK(!files().free_space(dir / "zz").has_value());
}

TEST_CASE("a lock is held by one and dies with its holder") {
  const TempDir dir;
  auto first = files().lock(dir / "lock", "pid 1\n");
  REQUIRE(first.has_value());
  CHECK(content(**first, 0, 100) == "pid 1\n");
  const auto second = files().lock(dir / "lock", "pid 2 and more\n");
  REQUIRE(!second.has_value());
  CHECK(second.error().code() == ErrorCode::kLockBusy);
  CHECK(content(**first, 0, 100) == "pid 1\n");  // the loser wrote nothing
  first->reset();
  const auto third = files().lock(dir / "lock", "p3");
  REQUIRE(third.has_value());
  CHECK(content(**third, 0, 100) == "p3");

  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = files().lock(dir / "other", "child");
    ::_exit(held.has_value() ? 0 : 1);  // no destructor runs, as in a crash
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(files().lock(dir / "other", "parent").has_value());
}

TEST_CASE("a full disk is told from other failures") {
  const auto full = files().open("/dev/full", OpenMode::kExisting);
  if (!full.has_value()) {
    MESSAGE("skipped: there is no /dev/full here");
    return;
  }
  const Status status = (*full)->write(0, "x");
  CHECK(status.code() == ErrorCode::kOutOfDiskSpace);
  CHECK(status.message().find("/dev/full") != std::string::npos);
}
