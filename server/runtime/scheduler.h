// Runs the plugins' background tasks (TTL sweeps, session expiry ...), one at a time, on one thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace multifora {

class BackgroundTask;
class PluginHost;
class Store;

class Scheduler {
 public:
  // Starts at once; each task runs first after its interval. Both outlive the scheduler.
  Scheduler(PluginHost& host, Store& store);
  // Waits for the task that runs.
  ~Scheduler();

 private:
  struct Entry {
    BackgroundTask* task;
    std::int64_t due_us;
    bool failing = false;  // a lasting failure is logged once
  };
  void loop();
  void run(Entry& entry);
  std::int64_t now_us() const;

  PluginHost& host_;
  Store& store_;
  std::vector<Entry> entries_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace multifora
