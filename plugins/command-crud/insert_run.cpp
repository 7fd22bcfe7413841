#include "plugins/command-crud/insert_run.h"

#include <optional>

#include "core/base/limits.h"
#include "core/plugin/host.h"
#include "core/store/batch_bounds.h"

namespace multifora::crud {
namespace {

bool too_deep(DocumentView document, std::size_t depth) {
  if (depth > limits::kNestingDepthMax) return true;
  for (const Element& element : document)
    if ((element.type() == BsonType::kObject || element.type() == BsonType::kArray) &&
        too_deep(element->as_document(), depth + 1))
      return true;
  return false;
}

bool has_empty_timestamp(DocumentView document) {
  for (const Element& element : document)
    if (element.type() == BsonType::kTimestamp && element->as_timestamp() == 0 &&
        element.name() != "_id")
      return true;
  return false;
}

void fill_timestamps(Buffer& bytes, std::uint64_t cluster_time) {
  DocumentBuilder filled;
  for (const Element& element : DocumentView::assume_valid(Bytes(bytes))) {
    if (element.type() == BsonType::kTimestamp && element->as_timestamp() == 0 &&
        element.name() != "_id")
      filled.append_timestamp(element.name(), ++cluster_time);
    else
      filled.append(element);
  }
  bytes = std::move(filled).finish().take();
}

class Inserter {
 public:
  Inserter(CommandContext& context, const InsertJob& job, RetryableStatements& retry,
           const InsertDone& done)
      : context_(context), job_(job), retry_(retry), done_(done) {}

  Status run() {
    for (std::size_t i = 0; i < job_.documents.size(); ++i) {
      MULTIFORA_TRY(context_.interrupt().check());
      Status status = insert(i);
      while (must_wait(context_, status)) {
        MULTIFORA_TRY(commit());
        MULTIFORA_TRY(wait_for_writers(context_));
        status = insert(i);
      }
      if (!status.ok() && ends_command(context_, status.code())) {
        static_cast<void>(commit());
        return status;
      }
      done_(i, status);
      if (!status.ok() && (aborts_transaction(context_) || job_.ordered)) break;
      if (writer_ && bounds_->full_after(*writer_)) MULTIFORA_TRY(commit());
    }
    return commit();
  }

 private:
  Status insert(std::size_t index) {
    const std::size_t statement = job_.first_statement + index;
    if (retry_.enabled()) {
      MULTIFORA_ASSIGN(const auto before, retry_.find(statement));
      if (before) return {};
    }
    MULTIFORA_ASSIGN(const DocumentView document,
                     prepare_insert(job_.documents[index], context_.store().last_position(), buffer_));
    MULTIFORA_TRY(open());
    MULTIFORA_TRY(status_of(writer_->insert(document)));
    if (const auto id = retry_.id(statement)) {
      DocumentBuilder result;
      result.append("n", std::int32_t{1});
      const OwnedDocument stored = std::move(result).finish();
      writer_->set_statement_result(*id, stored.view());
    }
    return {};
  }

  Status open() {
    if (writer_) return {};
    MULTIFORA_ASSIGN(writer_, context_.store().write(job_.ns, true));
    writer_->bypass_validation(job_.bypass_validation);
    bounds_.emplace(context_.host().clock());
    return {};
  }

  Status commit() {
    if (!writer_) return {};
    MULTIFORA_ASSIGN(const LogPosition position, writer_->commit());
    writer_.reset();
    context_.note_write(position);
    return {};
  }

  CommandContext& context_;
  const InsertJob& job_;
  RetryableStatements& retry_;
  const InsertDone& done_;
  std::unique_ptr<CollectionWriter> writer_;
  std::optional<BatchBounds> bounds_;  // of writer_'s batch
  Buffer buffer_;
};

}  // namespace

Result<DocumentView> prepare_insert(DocumentView document, std::uint64_t cluster_time, Buffer& out) {
  if (document.size_bytes() > limits::kDocumentSizeMax)
    return fail(ErrorCode::kBadValue,
                "object to insert too large. size in bytes: " +
                    std::to_string(document.size_bytes()) +
                    ", max size: " + std::to_string(limits::kDocumentSizeMax));
  if (too_deep(document, 1))
    return fail(ErrorCode::kOverflow, "cannot insert document because it exceeds " +
                                          std::to_string(limits::kNestingDepthMax) +
                                          " levels of nesting");
  MULTIFORA_TRY_R(status_of(ensure_id(document, out)));
  if (has_empty_timestamp(document)) fill_timestamps(out, cluster_time);
  return DocumentView::assume_valid(Bytes(out));
}

Status run_insert(CommandContext& context, const InsertJob& job, RetryableStatements& retry,
                  const InsertDone& done) {
  return Inserter(context, job, retry, done).run();
}

}  // namespace multifora::crud
