#include "core/base/log.h"

namespace multifora {

namespace {

class NullLog final : public LogSink {
 public:
  bool wants(LogLevel) const override { return false; }
  void event(LogLevel, std::string_view, std::string_view,
             std::initializer_list<LogField>) override {}
};

}  // namespace

LogSink& null_log() {
  static NullLog& log = *new NullLog();
  return log;
}

}  // namespace multifora
