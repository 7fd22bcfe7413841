// The rows of this plugin, one a file, and what several of them share.
#pragma once

#include <string>
#include <vector>

#include "core/plugin/command.h"
#include "core/store/store.h"

namespace multifora::catalog_commands {

extern const CommandRow kCreate;
extern const CommandRow kDrop;
extern const CommandRow kDropDatabase;
extern const CommandRow kRenameCollection;
extern const CommandRow kListCollections;
extern const CommandRow kListDatabases;
extern const CommandRow kCreateIndexes;
extern const CommandRow kDropIndexes;
extern const CommandRow kListIndexes;
extern const CommandRow kCollMod;
extern const CommandRow kConvertToCapped;
extern const CommandRow kCloneCollectionAsCapped;
extern const CommandRow kCreateSearchIndexes;
extern const CommandRow kDropSearchIndex;
extern const CommandRow kListSearchIndexes;
extern const CommandRow kUpdateSearchIndex;

// A reply with a cursor over documents that are all at hand; `cursor: {batchSize}` of the request.
Status reply_with_cursor(CommandContext& context, const CommandRequest& request,
                         const std::string& ns, std::vector<OwnedDocument> documents,
                         DocumentBuilder& reply);

// Does `document` match the request's `filter` option? Compiles once.
class ListFilter {
 public:
  static Result<ListFilter> make(const CommandRequest& request);
  Result<bool> matches(DocumentView document) const;

 private:
  std::shared_ptr<const class FilterHolder> holder_;  // null: no filter
};

// A view's pipeline: stages parse, none writes; the chain of views that it would make has no cycle
// and is not too deep. GraphContainsCycle, ViewDepthLimitExceeded, OptionNotSupportedOnView.
Status check_view(CommandContext& context, const std::string& ns, std::string_view view_on,
                  DocumentView pipeline, const Collator* collator);

// validator, validationLevel and validationAction of `create` and `collMod`.
Status check_validation_options(CommandContext& context, const CommandRequest& request);

}  // namespace multifora::catalog_commands
