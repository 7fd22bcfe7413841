#include "core/base/bus_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace multifora {

namespace {

std::atomic<bool> installed{false};
std::atomic<int> log_descriptor{-1};
constinit thread_local sigjmp_buf* landing = nullptr;

constexpr char kText[] =
    "multiforadb: a mapped page of the data file cannot be read: the disk has failed there, or the "
    "file was cut short. The process ends; acknowledged writes are safe in the log. Check the "
    "system's log and the disk, run 'multiforadb check' on the directory, and restore a backup if "
    "it reports damage.\n";
constexpr char kLine[] =
    "{\"level\":\"error\",\"component\":\"storage\",\"message\":\"a mapped page of the data file "
    "cannot be read: the disk has failed there, or the file was cut short; the process ends, "
    "acknowledged writes are safe in the log; run multiforadb check on the directory\",\"time_s\":";

// Only what may be called in a signal handler.
void write_all(int fd, const char* text, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, text, size);
    if (n <= 0) return;
    text += n;
    size -= static_cast<size_t>(n);
  }
}

void write_log_line(int fd) {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  char digits[24];
  size_t at = sizeof digits;
  digits[--at] = '\n';
  digits[--at] = '}';
  auto seconds = static_cast<unsigned long long>(now.tv_sec);
  do digits[--at] = static_cast<char>('0' + seconds % 10);
  while ((seconds /= 10) > 0);
  write_all(fd, kLine, sizeof kLine - 1);
  write_all(fd, digits + at, sizeof digits - at);
}

void on_fault(int number, siginfo_t* info, void*) {
  if (info->si_code <= 0) {  // sent by a process: not a fault of memory
    ::signal(number, SIG_DFL);
    ::raise(number);
    return;
  }
  if (landing != nullptr) siglongjmp(*landing, 1);
  write_all(STDERR_FILENO, kText, sizeof kText - 1);
  if (const int fd = log_descriptor; fd >= 0) write_log_line(fd);
  ::_exit(kBusExitStatus);
}

}  // namespace

void BusGuard::install(int log_fd) {
  log_descriptor = log_fd;
  if (installed.exchange(true)) return;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  // Not blocked inside the handler, which may not return.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

bool BusGuard::run(void (*call)(void*), void* argument) {
  if (!installed.load(std::memory_order_relaxed)) {
    call(argument);
    return true;
  }
  sigjmp_buf here;
  sigjmp_buf* const outer = landing;
  if (sigsetjmp(here, 0) != 0) {
    landing = outer;
    return false;
  }
  landing = &here;
  call(argument);
  landing = outer;
  return true;
}

}  // namespace multifora
