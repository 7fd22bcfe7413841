// The log batch that a command's statements share: the collection's writer stays open from one to the
// next, so that many small statements cost one batch and not one each. Bounded in size and time, so
// that others get at the collection in between.
//
// While a writer is open this thread holds its collection's exclusive lock: it must not ask the store
// for any collection. Who has to calls flush() first. One command's; one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/plugin/command.h"
#include "core/store/batch_bounds.h"
#include "core/store/store.h"

namespace multifora::crud {

class WriteBatch {
 public:
  explicit WriteBatch(CommandContext& context) : context_(context) {}
  WriteBatch(const WriteBatch&) = delete;
  ~WriteBatch() { static_cast<void>(flush()); }

  // The writer of `ns`: the open one, or a new one. Null: there is no such collection and `create` is
  // false. What was open for another collection is committed.
  Result<CollectionWriter*> writer(const std::string& ns, bool create);
  // The open writer of `ns`; null: none is open for it.
  CollectionWriter* open_writer(const std::string& ns) const;

  // A statement is done, with so many bytes of documents: commits where the batch is full.
  Status statement_done(std::size_t size_bytes);
  // Commits what is open; the command's reply then waits for it. Ends in any case.
  Status flush();

 private:
  CommandContext& context_;
  std::string ns_;
  std::unique_ptr<CollectionWriter> writer_;
  std::optional<BatchBounds> bounds_;  // of writer_'s batch
  std::size_t bytes_ = 0;
};

}  // namespace multifora::crud
