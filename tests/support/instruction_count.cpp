#include "tests/support/instruction_count.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace multifora::test {
namespace {

// Steps a stopped child until it stops itself again.
std::optional<std::uint64_t> step(pid_t child) {
  std::uint64_t count = 0;
  while (true) {
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) return std::nullopt;
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return std::nullopt;
    if (WSTOPSIG(status) == SIGSTOP) return count;
    if (WSTOPSIG(status) != SIGTRAP) return std::nullopt;
    ++count;
  }
}

}  // namespace

std::optional<std::uint64_t> count_instructions(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    work();  // once unseen: what is done only the first time does not count
    raise(SIGSTOP);
    work();
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  std::optional<std::uint64_t> count;
  if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) count = step(child);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return count;
}

}  // namespace multifora::test
