// The rows of this plugin, one a file, and what several of them share on the reading side.
#pragma once

#include <string>

#include "core/plugin/command.h"
#include "core/store/store.h"
#include "plugins/query-engine/explain.h"
#include "plugins/query-engine/find_source.h"
#include "plugins/query-engine/read_source.h"

namespace multifora::crud {

extern const CommandRow kFind;
extern const CommandRow kGetMore;
extern const CommandRow kKillCursors;
extern const CommandRow kInsert;
extern const CommandRow kUpdate;
extern const CommandRow kDelete;
extern const CommandRow kFindAndModify;
extern const CommandRow kCount;
extern const CommandRow kDistinct;
extern const CommandRow kExplain;
extern const CommandRow kBulkWrite;

// How each explains itself.
Status explain_find(CommandContext&, const CommandRequest&, ExplainVerbosity, DocumentBuilder&);
Status explain_count(CommandContext&, const CommandRequest&, ExplainVerbosity, DocumentBuilder&);
Status explain_distinct(CommandContext&, const CommandRequest&, ExplainVerbosity, DocumentBuilder&);
Status explain_update(CommandContext&, const CommandRequest&, ExplainVerbosity, DocumentBuilder&);
Status explain_delete(CommandContext&, const CommandRequest&, ExplainVerbosity, DocumentBuilder&);
Status explain_find_and_modify(CommandContext&, const CommandRequest&, ExplainVerbosity,
                               DocumentBuilder&);

// Fail points of this plugin.
inline constexpr std::string_view kOnPrimaryTransactionalWrite = "onPrimaryTransactionalWrite";
inline constexpr std::string_view kFailGetMore = "failGetMoreAfterCursorCheckout";

// hint: a string or a document, otherwise FailedToParse.
Status check_hint(const ValueView& hint);

// The pipeline that a read on a view comes to.
Result<std::unique_ptr<PipelineRun>> open_on_view(CommandContext& context,
                                                  const CommandRequest& request,
                                                  const QueryArguments& arguments,
                                                  const std::vector<OwnedDocument>& stages);

// Runs `query` over its collection for explain, as far as the verbosity says.
// `outer_stage` with its statistics' names: COUNT, UPDATE ...
Status explain_query(CommandContext& context, const CommandRequest& request, const std::string& ns,
                     std::unique_ptr<CompiledQuery> query, ExplainVerbosity verbosity,
                     std::string_view outer_stage, DocumentBuilder& reply);

// The explain of a read on a view, as the pipeline that it comes to.
Status explain_view(CommandContext& context, const CommandRequest& request,
                    const std::vector<OwnedDocument>& stages, ExplainVerbosity verbosity,
                    DocumentBuilder& reply);

}  // namespace multifora::crud
