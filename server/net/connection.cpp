#include "server/net/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/assert.h"
#include "server/net/network.h"
#include "server/wire/compression.h"

namespace multifora::net {
namespace {

constexpr std::size_t kScratchBytes = 64 * 1024;
// What a half-received message may take at once before its bytes have come.
constexpr std::size_t kFirstReserveBytes = 1024 * 1024;
// An idle connection's buffers are freed after this time.
constexpr std::int64_t kIdleBuffersMs = 5000;
constexpr std::size_t kScratchKeptBytes = 1024 * 1024;

// Buffers that a thread needs only while it works on one message.
struct Scratch {
  std::unique_ptr<char[]> received = std::make_unique_for_overwrite<char[]>(kScratchBytes);
  Buffer unpacked;
  Buffer packed;
};

Scratch& scratch() {
  static thread_local Scratch scratch;
  return scratch;
}

void shrink(Buffer& buffer) {
  if (buffer.capacity() > kScratchKeptBytes) Buffer().swap(buffer);
}

}  // namespace

// Joins the ends of a wait: the event's waker, the deadline, the drain and the set-up itself. The
// first of them to fire resumes the connection; the others find nothing to do, however late.
class Connection::WaitToken {
 public:
  // Copies what it needs: once it fires, the connection is another thread's.
  explicit WaitToken(Connection* connection)
      : arming_(connection->network_.poller_.arming()), fd_(connection->fd_), connection_(connection) {}

  void fire() {
    if (state_.exchange(kFired) == kReady) arming_.arm(fd_, connection_, Poller::Want::kWrite);
  }
  // The connection is parked. False: it fired already, go on at once.
  bool ready() {
    int expected = kSettingUp;
    return state_.compare_exchange_strong(expected, kReady);
  }

 private:
  enum State { kSettingUp, kReady, kFired };
  const Poller::Arming arming_;
  const int fd_;
  Connection* const connection_;
  std::atomic<int> state_{kSettingUp};
};

Connection::Connection(Network& network, int fd, std::int64_t id, std::string remote,
                       std::string local)
    : network_(network), fd_(fd) {
  client_.connection_id = id;
  client_.remote = std::move(remote);
  client_.local = std::move(local);
  idle_since_ms_ = network.now_ms();
  network_.dispatcher_->operations().attach(&operation_);
}

Connection::~Connection() {
  network_.dispatcher_->operations().detach(&operation_);
  ::close(fd_);
}

// ---------------------------------------------------------------- the state machine

void Connection::on_ready() {
  // Only a sweep, for a moment, can hold it.
  while (at_work_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  stalled_since_ms_.store(0, std::memory_order_relaxed);
  work();
}

// Each turn of the loop ends in a next phase, or gives the connection away and returns.
void Connection::work() {
  while (true) {
    switch (phase_) {
      case Phase::kRead: {
        Bytes message;
        const IO io = read_message(&message);
        if (io == IO::kClosed) return close("closed by the client");
        if (io == IO::kAgain) {
          if (network_.draining()) return close("the server shuts down");
          return arm(false);
        }
        if (!process(message)) return;
        break;
      }
      case Phase::kResume:
        end_wait();
        if (!handle(network_.dispatcher_->resume(operation_))) return;
        break;
      case Phase::kStream:
        if (!handle(network_.dispatcher_->again(operation_))) return;
        break;
      case Phase::kSend: {
        const IO io = flush();
        if (io == IO::kClosed) return close("closed by the client");
        if (io == IO::kAgain) return arm(true);
        after_reply();
        if (close_after_reply_) return close("after an error");
        // The rest of a stream waits for its turn among the other connections.
        if (phase_ == Phase::kStream) return arm_soon();
        if (in_start_ + consumed_ == in_.size()) {
          if (network_.draining()) return close("the server shuts down");
          return arm(false);
        }
        break;
      }
    }
  }
}

// ---------------------------------------------------------------- reading

Connection::IO Connection::read_message(Bytes* message) {
  if (take_buffered(message)) return IO::kDone;
  if (close_after_reply_) return IO::kClosed;  // what is buffered cannot be followed
  return in_.empty() ? receive_into_scratch(message) : receive_rest(message);
}

// A whole message in in_? Also finds streams that cannot be followed.
bool Connection::take_buffered(Bytes* message) {
  // What the last message took is free now.
  in_start_ += std::exchange(consumed_, 0);
  if (in_start_ == in_.size()) {
    in_.clear();
    in_start_ = 0;
    return false;
  }
  const Bytes left = Bytes(in_).substr(in_start_);
  const auto length = wire::message_length(left);
  if (!length) {
    network_.log_.event(LogLevel::kInfo, "network", length.error().message(),
                        {{"connection", client_.connection_id},
                         {"remote", std::string_view(client_.remote)}});
    close_after_reply_ = true;
    return false;
  }
  if (*length == 0 || left.size() < *length) return false;
  *message = left.substr(0, *length);
  consumed_ = *length;
  return true;
}

// The usual case: a small message arrives whole and is worked on where it was received.
Connection::IO Connection::receive_into_scratch(Bytes* message) {
  char* buffer = scratch().received.get();
  ssize_t count;
  do {
    count = ::recv(fd_, buffer, kScratchBytes, 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? IO::kAgain : IO::kClosed;
  if (count == 0) return IO::kClosed;
  const Bytes received(buffer, static_cast<std::size_t>(count));
  network_.bytes_in_.add(received.size());
  const auto length = wire::message_length(received);
  if (length && *length != 0 && *length <= received.size()) {
    *message = received.substr(0, *length);
    if (*length < received.size()) in_.assign(received.substr(*length));
    return IO::kDone;
  }
  keep_partial(received, length ? *length : 0);
  if (take_buffered(message)) return IO::kDone;
  if (close_after_reply_) return IO::kClosed;
  return receive_rest(message);
}

void Connection::keep_partial(Bytes bytes, std::size_t expected) {
  // A stated length is believed step by step: as much as has come, and some more.
  in_.reserve(std::min(std::max(expected, bytes.size()), kFirstReserveBytes));
  in_.assign(bytes);
  in_start_ = 0;
}

Connection::IO Connection::receive_rest(Bytes* message) {
  if (in_start_ > 0) {
    in_.erase(0, in_start_);
    in_start_ = 0;
  }
  while (true) {
    const std::size_t had = in_.size();
    const auto length = wire::message_length(in_);
    const std::size_t expected = length && *length != 0 ? *length : had + 4096;
    const std::size_t room =
        std::min(expected, std::max({kFirstReserveBytes, had * 2, in_.capacity()}));
    ssize_t count = 0;
    in_.resize_and_overwrite(std::max(room, had + 1), [&](char* data, std::size_t size) {
      do {
        count = ::recv(fd_, data + had, size - had, 0);
      } while (count < 0 && errno == EINTR);
      return had + static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    });
    if (count == 0) return IO::kClosed;
    if (count < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) return IO::kClosed;
      stalled_since_ms_.store(network_.now_ms(), std::memory_order_relaxed);
      return IO::kAgain;
    }
    network_.bytes_in_.add(static_cast<std::uint64_t>(count));
    if (take_buffered(message)) return IO::kDone;
    if (close_after_reply_) return IO::kClosed;
  }
}

// ---------------------------------------------------------------- requests

bool Connection::process(Bytes message) {
  network_.requests_.add();
  message_.compressor = 0;
  if (wire::parse_header(message).op_code == wire::kOpCompressed && !unwrap(&message)) return false;
  const Status parsed = wire::parse_message(message, message_);
  response_to_ = message_.request_id;
  wire::begin_reply(operation_.reply,
                    message_.legacy ? wire::ReplyKind::kLegacy : wire::ReplyKind::kMsg);
  if (!parsed.ok()) return refuse(parsed);
  RequestTraits traits;
  traits.exhaust_allowed = message_.exhaust_allowed();
  if (message_.legacy) {
    if (!is_legacy_hello())
      return refuse({ErrorCode::kUnsupportedOpQueryCommand,
                     "Unsupported OP_QUERY command: " +
                         std::string(message_.body.first().name()) +
                         ". The client driver may require an upgrade. For more details see "
                         "https://dochub.mongodb.org/core/legacy-opcode-removal"});
    traits.db = "admin";
  }
  return handle(network_.dispatcher_->start(operation_, message_.body,
                                            std::move(message_.sequences), traits));
}

bool Connection::unwrap(Bytes* message) {
  Buffer& unpacked = scratch().unpacked;
  const Status status = wire::decompress_message(network_.dispatcher_->host(), *message, unpacked,
                                                 &message_.compressor);
  if (status.ok()) {
    if (const auto* counters = network_.compression(message_.compressor)) {
      counters->unpacked_in.add(message->size());
      counters->unpacked_out.add(unpacked.size());
    }
    *message = unpacked;
    return true;
  }
  network_.log_.event(LogLevel::kInfo, "network", status.message(),
                      {{"connection", client_.connection_id}});
  close("malformed compressed message");
  return false;
}

// The message was framed but is no request: an error reply, and what cannot be trusted further ends.
bool Connection::refuse(const Status& status) {
  network_.dispatcher_->refuse(operation_, status);
  close_after_reply_ = status.code() == ErrorCode::kProtocolError ||
                       status.code() == ErrorCode::kChecksumMismatch;
  return handle(Dispatcher::Next::kReply);
}

bool Connection::is_legacy_hello() const {
  if (!message_.legacy_ns.ends_with(".$cmd")) return false;
  const std::string_view name = message_.body.first().name();
  return name == "isMaster" || name == "ismaster" || name == "hello";
}

bool Connection::handle(Dispatcher::Next next) {
  if (next == Dispatcher::Next::kClose) {
    close("as a fail point asked for");
    return false;
  }
  const bool unacknowledged = message_.more_to_come();
  if (unacknowledged && next != Dispatcher::Next::kWait) {
    if (next == Dispatcher::Next::kDurable) network_.dispatcher_->durable(operation_, {});
    network_.dispatcher_->finish(operation_);
    shrink(scratch().unpacked);
    if (close_after_reply_) {
      close("after an error");
      return false;
    }
    phase_ = Phase::kRead;
    return true;
  }
  switch (next) {
    case Dispatcher::Next::kReply:
      begin_send();
      return true;
    case Dispatcher::Next::kDurable:
      hold();
      return false;
    case Dispatcher::Next::kWait:
      return park();
    case Dispatcher::Next::kClose:
      break;  // above
  }
  return true;
}

// ---------------------------------------------------------------- replies that wait

void Connection::hold() {
  shrink(scratch().unpacked);
  if (const std::int64_t timeout_ms = operation_.durable_timeout_ms(); timeout_ms > 0)
    return hold_until(network_.clock_.monotonic_us() + timeout_ms * 1000);
  Durability* durability = network_.dispatcher_->durability();
  // The callback may run before this returns, and the connection be gone.
  durability->when_durable(operation_.durable_position(),
                           [this](const Status& status) { on_durable(status); });
}

// The log or the timer, whichever comes first; the other one finds that it is late, and touches nothing.
void Connection::hold_until(std::int64_t deadline_us) {
  auto over = std::make_shared<std::atomic<bool>>(false);
  // Once the timer is set, the connection may be gone at any time.
  Network& network = network_;
  const std::uint64_t position = operation_.durable_position();
  if (network.timers_.add(
          deadline_us,
          [this, over] {
            if (!over->exchange(true)) on_write_timeout();
          },
          &timer_))
    network.wake_for_timer();
  network.dispatcher_->durability()->when_durable(
      position, [this, over](const Status& status) {
        if (over->exchange(true)) return;
        network_.timers_.cancel(timer_);
        on_durable(status);
      });
}

// On the control thread: a serving one sends.
void Connection::on_write_timeout() {
  network_.dispatcher_->write_timed_out(operation_);
  begin_send();
  arm(true);
}

// On the log's thread, or on the one that leads a sync: short, and nothing is written here.
void Connection::on_durable(const Status& status) {
  network_.dispatcher_->durable(operation_, status);
  begin_send();
  const IO io = flush();
  if (io == IO::kClosed) return close("closed by the client");
  if (io == IO::kAgain) return arm(true);
  after_reply();
  if (close_after_reply_) return close("after an error");
  // Buffered messages, a stream's next reply and the drain are for a serving thread.
  const bool more = phase_ != Phase::kRead || in_start_ + consumed_ < in_.size();
  arm(more || network_.draining());
}

// True: the wait is over already. False: parked, somebody else's.
bool Connection::park() {
  network_.dispatcher_->keep_request(operation_);
  shrink(scratch().unpacked);
  const std::unique_ptr<Wait> wait = operation_.take_wait();
  auto token = std::make_shared<WaitToken>(this);
  {
    std::lock_guard lock(wait_mutex_);
    wait_ = token;
  }
  operation_.set_waker([token] { token->fire(); });
  unsubscribe_ = wait->subscribe([token] { token->fire(); });
  if (network_.timers_.add(wait->deadline_us, [token] { token->fire(); }, &timer_))
    network_.wake_for_timer();
  phase_ = Phase::kResume;
  if (network_.draining()) token->fire();
  at_work_.store(false, std::memory_order_release);
  if (token->ready()) return false;
  while (at_work_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  return true;
}

void Connection::end_wait() {
  {
    std::lock_guard lock(wait_mutex_);
    wait_.reset();
  }
  operation_.set_waker({});
  network_.timers_.cancel(timer_);
  if (unsubscribe_) unsubscribe_();
  unsubscribe_ = nullptr;
  // resume() appends a reply after the frame that the first attempt left.
}

// ---------------------------------------------------------------- sending

// From here on the message's bytes may go: sending can take more than one turn.
void Connection::begin_send() {
  finish_frame();
  phase_ = Phase::kSend;
  if (operation_.more_to_come())
    network_.dispatcher_->keep_request(operation_);
  else
    network_.dispatcher_->finish(operation_);
  shrink(scratch().unpacked);
}

void Connection::finish_frame() {
  wire::ReplyFrame frame;
  frame.kind = message_.legacy ? wire::ReplyKind::kLegacy : wire::ReplyKind::kMsg;
  frame.request_id = next_reply_id_;
  frame.response_to = response_to_;
  frame.more_to_come = operation_.more_to_come();
  frame.checksum = message_.has_checksum() && message_.compressor == 0;
  next_reply_id_ = next_reply_id_ == INT32_MAX ? 1 : next_reply_id_ + 1;
  response_to_ = frame.request_id;  // of a stream's next reply
  wire::finish_reply(operation_.reply, frame);
  sent_ = 0;
  const auto* counters = network_.compression(message_.compressor);
  if (counters == nullptr) return;
  Buffer& packed = scratch().packed;
  if (wire::compress_message(network_.dispatcher_->host(), message_.compressor, operation_.reply,
                             packed)) {
    counters->packed_in.add(operation_.reply.size());
    counters->packed_out.add(packed.size());
    operation_.reply.assign(packed);
  }
  shrink(packed);
}

Connection::IO Connection::flush() {
  const Buffer& reply = operation_.reply;
  while (sent_ < reply.size()) {
    const ssize_t count = ::send(fd_, reply.data() + sent_, reply.size() - sent_, MSG_NOSIGNAL);
    if (count >= 0) {
      sent_ += static_cast<std::size_t>(count);
      network_.bytes_out_.add(static_cast<std::uint64_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return IO::kClosed;
    stalled_since_ms_.store(network_.now_ms(), std::memory_order_relaxed);
    return IO::kAgain;
  }
  return IO::kDone;
}

void Connection::after_reply() {
  if (operation_.more_to_come() && !network_.draining()) {
    wire::begin_reply(operation_.reply, wire::ReplyKind::kMsg);
    phase_ = Phase::kStream;
    return;
  }
  // A stream that is cut short by the drain must not leave its client waiting for the rest.
  if (operation_.more_to_come()) close_after_reply_ = true;
  phase_ = Phase::kRead;
}

void Connection::arm(bool write) {
  if (phase_ == Phase::kRead)
    idle_since_ms_.store(network_.now_ms(), std::memory_order_relaxed);
  // From the store on, nothing of this connection is touched here.
  const Poller::Arming arming = network_.poller_.arming();
  const int fd = fd_;
  at_work_.store(false, std::memory_order_release);
  arming.arm(fd, this, write ? Poller::Want::kWrite : Poller::Want::kRead);
}

void Connection::close(std::string_view why) {
  if (network_.log_.wants(LogLevel::kDebug))
    network_.log_.event(LogLevel::kDebug, "network", "connection ended",
                        {{"connection", client_.connection_id},
                         {"remote", std::string_view(client_.remote)},
                         {"reason", why}});
  network_.dispatcher_->finish(operation_);
  network_.remove(this);
  delete this;
}

// ---------------------------------------------------------------- the control thread

namespace {

bool peer_has_gone(int fd) {
  pollfd entry{fd, POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

void Connection::sweep(std::int64_t now_ms) {
  const std::int64_t stalled = stalled_since_ms_.load(std::memory_order_relaxed);
  if (stalled != 0 && now_ms - stalled > network_.options_.stall_ms) {
    network_.log_.event(LogLevel::kInfo, "network", "connection stalled inside a message: closed",
                        {{"connection", client_.connection_id}});
    ::shutdown(fd_, SHUT_RDWR);
    return;
  }
  constexpr std::int64_t kLongMs = 1000;
  if (operation_.running_ms(network_.clock_) > kLongMs && peer_has_gone(fd_)) {
    operation_.kill(ErrorCode::kClientDisconnect);
    std::lock_guard lock(wait_mutex_);
    if (wait_) wait_->fire();
    return;
  }
  const bool idle = now_ms - idle_since_ms_.load(std::memory_order_relaxed) > kIdleBuffersMs;
  if (!idle || at_work_.exchange(true, std::memory_order_acquire)) return;
  if (phase_ == Phase::kRead && in_start_ + consumed_ >= in_.size()) {
    Buffer().swap(in_);
    in_start_ = consumed_ = 0;
    Buffer().swap(operation_.reply);
  }
  at_work_.store(false, std::memory_order_release);
}

void Connection::begin_drain() {
  {
    std::lock_guard lock(wait_mutex_);
    if (wait_) wait_->fire();
  }
  // An armed connection becomes readable, at its end; bytes that came before are still served.
  ::shutdown(fd_, SHUT_RD);
}

}  // namespace multifora::net
