#include "plugins/command-crud/write_batch.h"

#include "core/base/limits.h"
#include "core/plugin/host.h"

namespace multifora::crud {

Result<CollectionWriter*> WriteBatch::writer(const std::string& ns, bool create) {
  if (CollectionWriter* const open = open_writer(ns)) return open;
  MULTIFORA_TRY_R(flush());
  MULTIFORA_ASSIGN_R(writer_, context_.store().write(ns, create, &context_.interrupt()));
  ns_ = ns;
  bounds_.emplace(context_.host().clock());
  bytes_ = 0;
  return writer_.get();
}

CollectionWriter* WriteBatch::open_writer(const std::string& ns) const {
  return writer_ && ns_ == ns ? writer_.get() : nullptr;
}

Status WriteBatch::statement_done(std::size_t size_bytes) {
  if (!writer_) return {};
  // The log's batch may only refer to the documents.
  bytes_ += size_bytes;
  const bool full = bounds_->full_after(*writer_) || bytes_ >= limits::kLogBatchBytes;
  return full ? flush() : Status();
}

Status WriteBatch::flush() {
  if (!writer_) return {};
  const std::unique_ptr<CollectionWriter> ended = std::move(writer_);
  MULTIFORA_ASSIGN(const LogPosition position, ended->commit());
  context_.note_write(position);
  return {};
}

}  // namespace multifora::crud
