// One client's connection: reads messages, has them dispatched, sends replies; one request at a
// time, in order.
//
// Ownership is passed, not shared: a connection is either armed in the poller, or worked on by the
// thread that the poller gave it to, or held by one callback (durability, a wait's waker). Whoever
// arms it or starts such a callback must not touch it afterwards. It deletes itself when it closes.
//
//   kRead --message--> (dispatch) --kReply--> kSend --sent--> kRead
//                          |--kDurable--> held  --on_durable()--> kSend
//                          '--kWait-----> parked --wake--> kResume --> (as after dispatch)
//   kSend with more_to_come --> kStream --> (as after dispatch)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "core/base/bytes.h"
#include "server/dispatch/dispatcher.h"
#include "server/net/timers.h"
#include "server/wire/message.h"

namespace multifora::net {

class Network;

class Connection {
 public:
  Connection(Network& network, int fd, std::int64_t id, std::string remote, std::string local);
  ~Connection();

  // Called with a connection that the poller reported.
  void on_ready();

  int fd() const { return fd_; }

  // --- for the control thread, while the registry's lock keeps the connection alive -------------
  // Closes what has stood still in the middle of a message or a reply for too long, ends the work
  // of a client that has gone, frees the buffers of an idle one.
  void sweep(std::int64_t now_ms);
  // Ends waits and makes an idle connection close; a busy one closes after its reply.
  void begin_drain();
  void kill(ErrorCode reason) { operation_.kill(reason); }

 private:
  class WaitToken;
  enum class Phase { kRead, kSend, kStream, kResume };
  enum class IO { kDone, kAgain, kClosed };

  void work();
  IO read_message(Bytes* message);
  IO receive_into_scratch(Bytes* message);
  IO receive_rest(Bytes* message);
  bool take_buffered(Bytes* message);
  void keep_partial(Bytes bytes, std::size_t expected);
  bool process(Bytes message);
  bool unwrap(Bytes* message);
  bool refuse(const Status& status);
  bool is_legacy_hello() const;
  // False: the connection is somebody else's now.
  bool handle(Dispatcher::Next next);
  void hold();
  void on_durable(const Status& status);
  void hold_until(std::int64_t deadline_us);
  void on_write_timeout();
  bool park();
  void end_wait();
  void begin_send();
  void finish_frame();
  IO flush();
  void after_reply();
  void arm(bool write);
  void arm_soon() { arm(true); }  // a socket is nearly always writable: reported at once
  void close(std::string_view why);

  Network& network_;
  const int fd_;
  ClientInfo client_;
  Operation operation_{client_};
  wire::Message message_;
  Phase phase_ = Phase::kRead;

  Buffer in_;               // the beginning of a message, or messages that came early
  std::size_t in_start_ = 0;
  std::size_t consumed_ = 0;  // bytes of in_ that the present message takes
  std::size_t sent_ = 0;    // bytes of the reply that are out
  std::int32_t next_reply_id_ = 1;
  std::int32_t response_to_ = 0;
  bool close_after_reply_ = false;

  std::mutex wait_mutex_;  // guards wait_ against the control thread
  std::shared_ptr<WaitToken> wait_;
  std::function<void()> unsubscribe_;
  TimerQueue::Id timer_{};

  // Read by the control thread.
  std::atomic<bool> at_work_{false};          // a small lock: held while a thread works on it
  std::atomic<std::int64_t> stalled_since_ms_{0};  // waiting for the rest of something; 0: not
  std::atomic<std::int64_t> idle_since_ms_{0};
};

}  // namespace multifora::net
