// The network side of the server: listening sockets, connections, the threads that serve them.
//
// Threads: a few that serve (more while all of them are busy with long commands, up to a limit),
// and one control thread that accepts, keeps deadlines and sweeps. Requests run to completion on
// the thread that read them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/metrics.h"
#include "core/base/status.h"
#include "server/net/poller.h"
#include "server/net/timers.h"

namespace multifora {
class Dispatcher;
}

namespace multifora::net {

class Connection;

struct NetworkOptions {
  std::string bind_ip = "127.0.0.1";  // addresses or names, separated by commas
  int port = 27017;                   // 0: any free one
  int connections_max = 10'000;
  int threads = 0;        // serving threads; 0: one a processor, at least two
  int threads_max = 128;  // while long commands hold the others
  std::int64_t stall_ms = 30'000;     // a message or reply that does not move for so long
  struct Compressor {
    std::uint8_t wire_id;
    std::string name;  // of its counters
  };
  std::vector<Compressor> compressors;  // that replies may use
};

class Network {
 public:
  // Binds and listens; nothing is accepted before start(). Errors say which address and why.
  static Result<std::unique_ptr<Network>> open(const NetworkOptions& options, Clock& clock,
                                               LogSink& log, MetricsRegistry& metrics);
  ~Network();

  int port() const { return port_; }
  const std::vector<std::string>& addresses() const { return addresses_; }

  // `dispatcher` outlives the network's threads, i.e. drain().
  void start(Dispatcher& dispatcher);
  // Stops accepting, ends waits, lets running requests finish for `patience_ms`, then kills them.
  // Afterwards no thread of the network runs. False: some request would not end in twice that
  // time; its thread is still at work.
  bool drain(std::int64_t patience_ms);

  std::size_t connections() const;
  int connections_max() const { return options_.connections_max; }

 private:
  friend class Connection;
  struct Control;

  Network(const NetworkOptions& options, Clock& clock, LogSink& log, MetricsRegistry& metrics);
  Status bind();
  void accepted(int fd, std::string remote, std::string local);
  void remove(Connection* connection);
  void serve(bool extra);
  bool add_thread(bool extra);
  void supervise();
  void sweep();
  void reap_threads();
  void wake_for_timer();
  std::int64_t now_ms() const { return clock_.monotonic_us() / 1000; }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

  // Bytes before and after, of the messages that one compressor packed or unpacked.
  struct CompressionCounters {
    Counter &packed_in, &packed_out, &unpacked_in, &unpacked_out;
  };
  // Null: not one of options_.compressors.
  const CompressionCounters* compression(std::uint8_t wire_id) const;

  NetworkOptions options_;
  Clock& clock_;
  LogSink& log_;
  Dispatcher* dispatcher_ = nullptr;
  Poller poller_;
  TimerQueue timers_;
  std::unique_ptr<Control> control_;
  int port_ = 0;
  std::vector<std::string> addresses_;

  mutable std::mutex mutex_;  // guards connections_, threads_, ended_threads_
  std::unordered_set<Connection*> connections_;
  std::int64_t next_connection_id_ = 1;
  std::vector<std::thread> threads_;
  std::vector<std::thread::id> ended_threads_;
  std::atomic<int> thread_count_{0};
  std::atomic<int> free_threads_{0};
  std::atomic<bool> supervising_{false};
  std::atomic<bool> draining_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> last_refusal_ms_{0};

  Counter& bytes_in_;
  Counter& bytes_out_;
  Counter& requests_;
  Counter& created_;
  Counter& refused_;
  std::map<std::uint8_t, CompressionCounters> compression_;  // by wire id
  MetricsRegistry& metrics_;
  // Only from start() on: a network that never starts may outlive the registry.
  MetricsRegistry::Registration current_;
};

}  // namespace multifora::net
