#include "plugins/command-crud/insert_run.h"

#include <algorithm>

#include "core/base/limits.h"
#include "core/store/bulk_insert.h"

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

OwnedDocument fill_timestamps(DocumentView document, std::uint64_t cluster_time) {
  DocumentBuilder filled;
  for (const Element& element : document) {
    if (element.type() == BsonType::kTimestamp && element->as_timestamp() == 0 &&
        element.name() != "_id")
      filled.append_timestamp(element.name(), ++cluster_time);
    else
      filled.append(element);
  }
  return std::move(filled).finish();
}

class Inserter {
 public:
  Inserter(CommandContext& context, const InsertJob& job, RetryableStatements& retry,
           WriteBatch& batch, const InsertDone& done)
      : context_(context), job_(job), retry_(retry), batch_(batch), done_(done) {}

  Status run() {
    for (const DocumentView document : job_.documents) bytes_left_ += document.size_bytes();
    for (std::size_t i = 0; i < job_.documents.size(); ++i) {
      MULTIFORA_TRY(context_.interrupt().check());
      Status status = insert(i);
      while (must_wait(context_, status)) {
        MULTIFORA_TRY(batch_.flush());
        MULTIFORA_TRY(wait_for_writers(context_));
        status = insert(i);
      }
      if (!status.ok() && ends_command(context_, status.code())) return status;
      done_(i, status);
      const std::size_t size = job_.documents[i].size_bytes();
      bytes_left_ -= size;
      if (!status.ok() && (aborts_transaction(context_) || job_.ordered)) break;
      MULTIFORA_TRY(batch_.statement_done(size));
    }
    return {};
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
    MULTIFORA_ASSIGN(CollectionWriter* const writer, open());
    MULTIFORA_TRY(status_of(writer->insert(document)));
    if (const auto id = retry_.id(statement)) {
      DocumentBuilder result;
      result.append("n", std::int32_t{1});
      const OwnedDocument stored = std::move(result).finish();
      writer->set_statement_result(*id, stored.view());
    }
    return {};
  }

  Result<CollectionWriter*> open() {
    CollectionWriter* writer = batch_.open_writer(job_.ns);
    if (writer == nullptr) {
      MULTIFORA_ASSIGN_R(writer, batch_.writer(job_.ns, true));
      expect_inserts(*writer, std::min(bytes_left_, limits::kLogBatchBytes));
    }
    writer->bypass_validation(job_.bypass_validation);
    return writer;
  }

  CommandContext& context_;
  const InsertJob& job_;
  RetryableStatements& retry_;
  WriteBatch& batch_;
  const InsertDone& done_;
  std::size_t bytes_left_ = 0;  // of the documents not yet inserted
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
  MULTIFORA_ASSIGN_R(const DocumentView stored, ensure_id(document, out));
  if (!has_empty_timestamp(stored)) return stored;
  out = fill_timestamps(stored, cluster_time).take();
  return DocumentView::assume_valid(Bytes(out));
}

Status run_insert(CommandContext& context, const InsertJob& job, RetryableStatements& retry,
                  WriteBatch& batch, const InsertDone& done) {
  return Inserter(context, job, retry, batch, done).run();
}

}  // namespace multifora::crud
