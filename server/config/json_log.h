// The log: one JSON object a line, to standard output or a file. Any thread may log, and never waits for
// whoever reads: a thread of the log's own writes. Where the reader of a pipe stops reading, lines beyond
// 1 MiB are dropped, and their number is logged when it goes on. The newest lines are kept for getLog.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"

namespace multifora {

class JsonLog final : public LogSink {
 public:
  // `path` empty: standard output. FileStreamFailed where it cannot be opened.
  static Result<std::unique_ptr<JsonLog>> open(const std::string& path, LogLevel level);
  // To a descriptor that stays the caller's.
  static std::unique_ptr<JsonLog> to_descriptor(int fd, LogLevel level);
  // Writes what is left; gives up after a second if nobody reads.
  ~JsonLog() override;

  bool wants(LogLevel level) const override { return level >= level_; }
  void event(LogLevel level, std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields) override;

  // Renames the file to path.<UTC time> and begins a new one; where somebody else has moved it
  // already, only begins the new one. Does nothing for standard output.
  Status rotate();
  std::vector<std::string> recent() const;
  // Waits until what was logged before is written, at most a second.
  void flush();
  // Of the file: for what must be written where nothing else is possible any more. The same for the
  // log's whole life.
  int descriptor() const { return fd_; }

 private:
  JsonLog(std::string path, int fd, LogLevel level);
  void keep(const std::string& line);
  void flush_locked(std::unique_lock<std::mutex>& lock);
  void work();
  void write_all(std::string_view lines);

  const std::string path_;
  int fd_;
  const LogLevel level_;
  std::size_t chunk_max_;  // what a write may take without waiting, once the descriptor is ready
  mutable std::mutex mutex_;
  std::deque<std::string> recent_;
  std::condition_variable wake_, written_;
  std::string pending_;        // lines that are to be written
  std::uint64_t dropped_ = 0;  // lines after them
  bool writing_ = false, stopping_ = false;
  std::atomic<bool> give_up_{false};
  std::thread writer_;
};

// Appends `text` as a JSON string; bytes that are not UTF-8 become \u00xx.
void append_json_text(std::string& out, std::string_view text);
// One event as a line without its end. `wall_ms` since 1970.
std::string json_log_line(std::int64_t wall_ms, LogLevel level, std::string_view component,
                          std::string_view message, std::initializer_list<LogField> fields);

}  // namespace multifora
