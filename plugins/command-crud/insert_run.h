// Inserting documents: for insert and bulkWrite.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugins/command-crud/statement.h"
#include "plugins/command-crud/write_batch.h"

namespace multifora::crud {

struct InsertJob {
  std::string ns;
  std::vector<DocumentView> documents;
  bool ordered = true;
  bool bypass_validation = false;
  std::size_t first_statement = 0;  // number of documents[0] among the command's statements
};

// What became of each document: OK, or why not.
using InsertDone = std::function<void(std::size_t index, const Status& status)>;

// Inserts through `batch`, which may stay open. Returns only failures that end the command; what was
// done before stays.
Status run_insert(CommandContext& context, const InsertJob& job, RetryableStatements& retry,
                  WriteBatch& batch, const InsertDone& done);

// The document as it is stored, itself or made in `out`: _id first, empty timestamps filled in. Fails where it is too
// deep, too large, or its _id is impossible.
Result<DocumentView> prepare_insert(DocumentView document, std::uint64_t cluster_time, Buffer& out);

}  // namespace multifora::crud
