// Events go to a sink; the core never prints. An event is one sentence and snake_case fields.
// Sinks are called from any thread and must not throw.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace multifora {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  std::string_view name;
  std::variant<std::int64_t, double, bool, std::string_view> value;
};

class LogSink {
 public:
  virtual ~LogSink() = default;
  // Is it worth building an event of this level? Cheap.
  virtual bool wants(LogLevel level) const = 0;
  // `component` is the layer: "storage", "store", "server", a plugin's name. Views live for the
  // call.
  virtual void event(LogLevel level, std::string_view component, std::string_view message,
                     std::initializer_list<LogField> fields) = 0;
};

// Drops everything. Lives for the whole process.
LogSink& null_log();

}  // namespace multifora
