#include "server/net/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace multifora::net {
namespace {

epoll_event event_for(Connection* owner, Poller::Want want) {
  epoll_event event{};
  event.events = EPOLLONESHOT;
  event.events |= want == Poller::Want::kRead ? EPOLLIN | EPOLLRDHUP : EPOLLOUT;
  event.data.ptr = owner;
  return event;
}

Status system_failure(const char* what) {
  return {ErrorCode::kInternalError, std::string(what) + ": " + std::strerror(errno)};
}

}  // namespace

Poller::~Poller() {
  if (epoll_ >= 0) ::close(epoll_);
  if (wake_ >= 0) ::close(wake_);
}

Status Poller::open() {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || wake_ < 0) return system_failure("cannot make a poller");
  epoll_event event{};
  event.events = EPOLLIN;  // level-triggered: once set, it wakes every thread again and again
  event.data.ptr = nullptr;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0)
    return system_failure("cannot make a poller");
  return {};
}

Status Poller::add(int fd, Connection* owner, Want want) {
  epoll_event event = event_for(owner, want);
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return system_failure("cannot watch a connection");
}

void Poller::Arming::arm(int fd, Connection* owner, Want want) const {
  epoll_event event = event_for(owner, want);
  // Once the kernel has it, another thread may close the socket while this one is still on its way
  // back; ThreadSanitizer's wrapper of epoll_ctl takes that for a race, so it is not asked.
  ::syscall(SYS_epoll_ctl, epoll_, EPOLL_CTL_MOD, fd, &event);
}

Connection* Poller::wait(int timeout_ms) {
  epoll_event event{};
  const int count = ::epoll_wait(epoll_, &event, 1, timeout_ms);
  return count == 1 ? static_cast<Connection*>(event.data.ptr) : nullptr;
}

void Poller::wake_all() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

}  // namespace multifora::net
