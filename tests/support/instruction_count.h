// How many instructions a piece of code executes: the same on every machine and in every run, unlike
// time. A child process is stepped through it, some hundred thousand instructions a second.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace multifora::test {

// Instructions of user code that `work` takes, in a copy of this process (what it changes is not seen
// here). It starts no threads, and other threads of this process do not run for it. nullopt where
// processes may not be traced; then a test should say that it was skipped.
std::optional<std::uint64_t> count_instructions(const std::function<void()>& work);

}  // namespace multifora::test
