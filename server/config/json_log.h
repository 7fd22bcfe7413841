// The log: one JSON object a line, to standard output or a file. Any thread may write; a line is
// written with one system call. The newest lines are kept for getLog.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/status.h"

namespace multifora {

class JsonLog final : public LogSink {
 public:
  // `path` empty: standard output. FileStreamFailed where it cannot be opened.
  static Result<std::unique_ptr<JsonLog>> open(const std::string& path, LogLevel level);
  ~JsonLog() override;

  bool wants(LogLevel level) const override { return level >= level_; }
  void event(LogLevel level, std::string_view component, std::string_view message,
             std::initializer_list<LogField> fields) override;

  // Renames the file to path.<UTC time> and begins a new one; where somebody else has moved it
  // already, only begins the new one. Does nothing for standard output.
  Status rotate();
  std::vector<std::string> recent() const;
  // Of the file: for what must be written where nothing else is possible any more. The same for the
  // log's whole life.
  int descriptor() const { return fd_; }

 private:
  JsonLog(std::string path, int fd, LogLevel level) : path_(std::move(path)), fd_(fd), level_(level) {}
  void keep(const std::string& line);

  const std::string path_;
  int fd_;
  const LogLevel level_;
  mutable std::mutex mutex_;
  std::deque<std::string> recent_;
};

// Appends `text` as a JSON string; bytes that are not UTF-8 become \u00xx.
void append_json_text(std::string& out, std::string_view text);
// One event as a line without its end. `wall_ms` since 1970.
std::string json_log_line(std::int64_t wall_ms, LogLevel level, std::string_view component,
                          std::string_view message, std::initializer_list<LogField> fields);

}  // namespace multifora
