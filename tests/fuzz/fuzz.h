// What a fuzz target may define besides LLVMFuzzerTestOneInput. One target a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Every target: must return 0 and end the process (assertion, sanitizer) on a bug.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace multifora::fuzz {

// Every target: well-formed inputs to start from, made in code.
std::vector<std::string> seeds();

}  // namespace multifora::fuzz

// Like an assertion, but on in every build.
#define FUZZ_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::multifora::fuzz::failed(#expression, __FILE__, __LINE__))

namespace multifora::fuzz {
[[noreturn]] void failed(const char* expression, const char* file, int line);
}
