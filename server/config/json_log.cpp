#include "server/config/json_log.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/base/clock.h"
#include "core/bson/validate.h"

namespace multifora {
namespace {

constexpr std::size_t kRecentMax = 1024;  // as MongoDB's getLog
constexpr std::size_t kPendingMax = 1 << 20;
constexpr auto kFlushMax = std::chrono::seconds(1);
constexpr int kLookMs = 100;

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "error";
}

std::string utc_text(std::int64_t wall_ms, const char* format) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

void append_time(std::string& out, std::int64_t wall_ms) {
  out += utc_text(wall_ms, "%Y-%m-%dT%H:%M:%S.");
  const std::string ms = std::to_string(wall_ms % 1000);
  out.append(3 - ms.size(), '0').append(ms).push_back('Z');
}

void append_value(std::string& out, const LogField& field) {
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
    out += std::to_string(*number);
  } else if (const auto* flag = std::get_if<bool>(&field.value)) {
    out += *flag ? "true" : "false";
  } else if (const auto* real = std::get_if<double>(&field.value)) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, *real).ptr;
    out += std::isfinite(*real) ? std::string_view(text, static_cast<std::size_t>(end - text))
                                : std::string_view("null");
  } else {
    append_json_text(out, std::get<std::string_view>(field.value));
  }
}

void append_escape(std::string& out, unsigned char c) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u00";
  out += kDigits[c >> 4];
  out += kDigits[c & 15];
}

int open_file(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

Status cannot_open(const std::string& path) {
  return {ErrorCode::kFileStreamFailed, "cannot open the log file " + path + ": " +
                                            std::strerror(errno) + "; correct log.path"};
}

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  const bool utf8 = is_valid_utf8(text);
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f || (!utf8 && byte >= 0x80)) {
      append_escape(out, byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string json_log_line(std::int64_t wall_ms, LogLevel level, std::string_view component,
                          std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = "{\"time\":\"";
  append_time(line, wall_ms);
  line.append("\",\"level\":\"").append(level_name(level)).append("\",\"component\":");
  append_json_text(line, component);
  line += ",\"message\":";
  append_json_text(line, message);
  for (const LogField& field : fields) {
    line += ',';
    append_json_text(line, field.name);
    line += ':';
    append_value(line, field);
  }
  line += '}';
  return line;
}

Result<std::unique_ptr<JsonLog>> JsonLog::open(const std::string& path, LogLevel level) {
  const int fd = path.empty() ? STDOUT_FILENO : open_file(path);
  if (fd < 0) return fail(cannot_open(path));
  return std::unique_ptr<JsonLog>(new JsonLog(path, fd, level));
}

std::unique_ptr<JsonLog> JsonLog::to_descriptor(int fd, LogLevel level) {
  return std::unique_ptr<JsonLog>(new JsonLog("", fd, level));
}

JsonLog::JsonLog(std::string path, int fd, LogLevel level)
    : path_(std::move(path)), fd_(fd), level_(level) {
  struct stat status {};
  const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  chunk_max_ = regular ? kPendingMax : PIPE_BUF;
  writer_ = std::thread([this] { work(); });
}

JsonLog::~JsonLog() {
  {
    std::unique_lock lock(mutex_);
    flush_locked(lock);
    stopping_ = true;
    give_up_ = true;
    wake_.notify_all();
  }
  writer_.join();
  if (!path_.empty()) ::close(fd_);
}

void JsonLog::event(LogLevel level, std::string_view component, std::string_view message,
                    std::initializer_list<LogField> fields) {
  if (!wants(level)) return;
  const std::string line = json_log_line(system_clock().wall_ms(), level, component, message, fields);
  std::lock_guard lock(mutex_);
  if (dropped_ > 0 || pending_.size() + line.size() >= kPendingMax)
    ++dropped_;
  else
    pending_.append(line).push_back('\n');
  keep(line);
  wake_.notify_one();
}

void JsonLog::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !pending_.empty() || dropped_ > 0; });
    if (pending_.empty() && dropped_ == 0) return;
    std::string lines = std::exchange(pending_, {});
    if (const std::uint64_t dropped = std::exchange(dropped_, 0); dropped > 0)
      lines += json_log_line(system_clock().wall_ms(), LogLevel::kWarning, "log",
                             "Lines were dropped: the log's reader was too slow",
                             {{"lines", static_cast<std::int64_t>(dropped)}}) +
               '\n';
    writing_ = true;
    lock.unlock();
    write_all(lines);
    lock.lock();
    writing_ = false;
    written_.notify_all();
  }
}

// Nobody can be told when the log itself fails: what cannot be written is lost.
void JsonLog::write_all(std::string_view lines) {
  while (!lines.empty()) {
    pollfd ready{fd_, POLLOUT, 0};
    const int count = ::poll(&ready, 1, kLookMs);
    if (count == 0 && give_up_) return;
    if (count == 0 || (count < 0 && errno == EINTR)) continue;
    const ssize_t written = ::write(fd_, lines.data(), std::min(lines.size(), chunk_max_));
    if (written > 0)
      lines.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR && errno != EAGAIN)
      return;
  }
}

void JsonLog::flush() {
  std::unique_lock lock(mutex_);
  flush_locked(lock);
}

void JsonLog::flush_locked(std::unique_lock<std::mutex>& lock) {
  written_.wait_for(lock, kFlushMax,
                    [this] { return pending_.empty() && dropped_ == 0 && !writing_; });
}

void JsonLog::keep(const std::string& line) {
  if (recent_.size() == kRecentMax) recent_.pop_front();
  recent_.push_back(line);
}

std::vector<std::string> JsonLog::recent() const {
  std::lock_guard lock(mutex_);
  return {recent_.begin(), recent_.end()};
}

Status JsonLog::rotate() {
  if (path_.empty()) return {};
  std::unique_lock lock(mutex_);
  flush_locked(lock);
  const std::string stem = path_ + utc_text(system_clock().wall_ms(), ".%Y-%m-%dT%H-%M-%S");
  std::string old = stem;
  for (int i = 1; ::access(old.c_str(), F_OK) == 0; ++i) old = stem + "." + std::to_string(i);
  if (::access(path_.c_str(), F_OK) == 0 && ::rename(path_.c_str(), old.c_str()) != 0)
    return {ErrorCode::kFileStreamFailed, "cannot rename the log file to " + old + ": " +
                                              std::strerror(errno)};
  const int fd = open_file(path_);
  if (fd < 0) return cannot_open(path_);
  ::dup3(fd, fd_, O_CLOEXEC);  // descriptor() stays what it is
  ::close(fd);
  return {};
}

}  // namespace multifora
