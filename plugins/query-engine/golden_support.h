// Tests only: runs cases of the golden corpus (requests and the replies of a real server) on vectors
// of documents, without a server: filter, sort, projection, update, over memory.
//
// The corpus is read in place, from $MULTIFORA_SHARED_DIR/golden (default: ../shared beside the
// sources); it is no part of this repository.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora::golden {

struct Outcome {
  int passed = 0;
  int skipped = 0;  // needs commands or options that this runner does not have
  std::vector<std::string> failures;
};

// Thrown for what a runner does not do; the case is then skipped.
struct Skip {
  std::string what;
};

// The documents of a case's database, by collection.
using Collections = std::map<std::string, std::vector<OwnedDocument>>;
// Answers `aggregate` with the fields of the reply that count. Without one the few stages that need
// no pipeline are run here.
using AggregateRunner = Result<OwnedDocument> (*)(DocumentView command, Collections& collections);
void use_aggregate_runner(AggregateRunner runner);

// Runs every case of the groups but those that `except` names.
Outcome run_groups(const std::vector<std::string>& groups,
                   const std::set<std::string>& except = {});

}  // namespace multifora::golden
