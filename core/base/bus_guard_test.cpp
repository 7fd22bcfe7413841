#include "core/base/bus_guard.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace multifora {
namespace {

// A mapping of two pages of which the second lies behind the end of the file.
struct CutFile {
  CutFile() : fd(::memfd_create("cut", MFD_CLOEXEC)) {
    REQUIRE(::ftruncate(fd, 4096) == 0);
    bytes = static_cast<volatile char*>(
        ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    REQUIRE(bytes[0] == 0);
  }
  ~CutFile() {
    ::munmap(const_cast<char*>(bytes), 8192);
    ::close(fd);
  }
  int fd;
  volatile char* bytes;
};

TEST_CASE("a fault of a mapped page ends a guarded read, again and again, and nested") {
  BusGuard::install(-1);
  CutFile file;
  char got = 1;
  CHECK(BusGuard::guarded([&] { got = file.bytes[0]; }));
  CHECK(got == 0);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(BusGuard::guarded([&] { got = file.bytes[5000]; }));
  bool inner = true;
  CHECK(BusGuard::guarded(
      [&] { inner = BusGuard::guarded([&] { got = file.bytes[5000]; }); }));
  CHECK_FALSE(inner);
  REQUIRE(::ftruncate(file.fd, 8192) == 0);
  CHECK(BusGuard::guarded([&] { got = file.bytes[5000]; }));
}

TEST_CASE("a fault elsewhere ends the process with a message, in the log too") {
  CutFile file;
  int out[2], log[2];
  REQUIRE(::pipe(out) == 0);
  REQUIRE(::pipe(log) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDERR_FILENO);
    BusGuard::install(log[1]);
    file.bytes[5000] = 1;
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kBusExitStatus);
  for (const int fd : {out[0], log[0]}) {
    char text[2000];
    const ssize_t size = ::read(fd, text, sizeof text);
    REQUIRE(size > 0);
    CHECK(std::string(text, static_cast<std::size_t>(size)).find("cannot be read") !=
          std::string::npos);
  }
  for (const int fd : {out[0], out[1], log[0], log[1]}) ::close(fd);
}

}  // namespace
}  // namespace multifora
