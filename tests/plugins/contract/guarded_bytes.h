// Memory that ends where an unmapped page begins: reading or writing one byte behind it is a crash,
// in every build. Before it stand bytes that must keep their value.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include <doctest/doctest.h>

namespace multifora::contract {

class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t size) : size_(size) {
    mapped_ = (size + kMargin + kPage - 1) / kPage * kPage + kPage;
    void* const at =
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    base_ = static_cast<char*>(at);
    REQUIRE(::mprotect(base_ + mapped_ - kPage, kPage, PROT_NONE) == 0);
    std::memset(data() - kMargin, kFill, kMargin);
  }
  explicit GuardedBytes(std::string_view content) : GuardedBytes(content.size()) {
    std::copy(content.begin(), content.end(), data());
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { ::munmap(base_, mapped_); }

  char* data() { return base_ + mapped_ - kPage - size_; }
  std::size_t size() const { return size_; }
  std::string_view view() { return {data(), size_}; }
  // Nothing was written before the first byte.
  bool margin_is_whole() {
    return std::all_of(data() - kMargin, data(), [](char c) { return c == kFill; });
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kMargin = 64;
  static constexpr char kFill = 0x5a;
  std::size_t size_;
  std::size_t mapped_;
  char* base_;
};

}  // namespace multifora::contract
