// Changing and deleting documents: one statement of update, delete, findAndModify or bulkWrite.
//
// A statement for one document by its _id runs in the command's batch, beside those before and after it.
// One whose plan looks at few documents runs wholly under the collection's exclusive lock. Others look for their documents under the shared lock, giving way to writers, and
// look again (does it still match?) at what they found under the exclusive one. Statements for many
// documents first collect all record ids, so that what they change cannot come up again (the
// Halloween problem), and then change them in bounded batches.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plugins/command-crud/statement.h"
#include "plugins/command-crud/write_batch.h"
#include "plugins/query-engine/read_source.h"
#include "plugins/query-engine/update.h"

namespace multifora::crud {

struct ModifyStatement {
  std::string ns;
  QueryArguments query;
  ValueView update;  // missing: delete
  DocumentView array_filters, constants;
  bool multi = false;
  bool upsert = false;
  bool bypass_validation = false;
  enum class Image { kNone, kBefore, kAfter };
  Image image = Image::kNone;  // the document that findAndModify returns
  std::optional<StatementId> id;
};

struct ModifyOutcome {
  std::int64_t matched = 0;
  std::int64_t modified = 0;  // or deleted
  bool upserted = false;
  OwnedDocument upserted_id;  // {_id: ...}
  bool has_image = false;
  OwnedDocument image;
};

// What a retry of the statement is answered with.
using MakeResult = std::function<OwnedDocument(const ModifyOutcome& outcome)>;

// `batch` may stay open; what it held for others than this statement's collection is committed first.
Result<ModifyOutcome> run_modify(CommandContext& context, const ModifyStatement& statement,
                                 WriteBatch& batch, const MakeResult& make_result);

// The same query, for explain.
Result<std::unique_ptr<CompiledQuery>> compile_modify(CommandContext& context,
                                                      const ModifyStatement& statement);

}  // namespace multifora::crud
