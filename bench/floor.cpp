// The floor of a durable insert: append + fdatasync of the same bytes to a zero-written file, with no
// engine and no network. Prints one JSON line.
//   bench_floor --path FILE --size BYTES --count N
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/payload.h"
#include "bench/report.h"

namespace {

std::string argument(int argc, char** argv, const char* name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  return otherwise;
}

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace multifora::bench;
  refuse_unoptimised();
  const std::string path = argument(argc, argv, "--path", "floor.bin");
  const std::size_t size = std::strtoull(argument(argc, argv, "--size", "16384").c_str(), nullptr, 10);
  const std::size_t count = std::strtoull(argument(argc, argv, "--count", "500").c_str(), nullptr, 10);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) die("open");
  // Zero-written, so that a sync touches no file metadata: as the log's segments are.
  const std::string zeros(1 << 20, '\0');
  for (std::size_t at = 0; at < size * count + zeros.size(); at += zeros.size())
    if (pwrite(file, zeros.data(), zeros.size(), static_cast<off_t>(at)) < 0) die("write");
  if (fsync(file) != 0) die("fsync");
  Latencies latencies;
  for (std::size_t i = 0; i < count; ++i) {
    const auto document = make_document(static_cast<std::int64_t>(i), size);
    const std::int64_t start = now_ns();
    if (pwrite(file, document.bytes().data(), size, static_cast<off_t>(i * size)) < 0) die("write");
    if (fdatasync(file) != 0) die("fdatasync");
    latencies.add(now_ns() - start);
  }
  close(file);
  unlink(path.c_str());
  std::printf("{\"op\":\"append+fdatasync\",\"size\":%zu,\"count\":%zu,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
              size, count, latencies.at_us(0.5), latencies.at_us(0.99));
}
