// What update and delete have in common: a list of statements, parsed before any of them runs, then run
// in order; those of a retryable write that ran before are answered from their stored results.
#pragma once

#include <functional>
#include <string_view>

#include "plugins/command-crud/commands.h"
#include "plugins/command-crud/modify_run.h"

namespace multifora::crud {

struct StatementFamily {
  std::string_view option;         // "updates"
  std::string_view for_many;       // what makes a statement not retryable: "multi=true"
  std::string_view explain_stage;  // "UPDATE"
  // Fields of the right types: what fails here fails the command.
  Status (*parse)(DocumentView spec, const CommandRequest& request, ModifyStatement& out);
  // What a retry is answered with, and how the answer is read.
  OwnedDocument (*store)(const ModifyOutcome& outcome);
  ModifyOutcome (*load)(DocumentView stored);
};

// Runs the request's statements. `done` is called with each that succeeded; then `append_totals` for the
// reply's first fields, behind which the write errors and retried statements come. A failure ends the
// command (see ends_command).
Status run_statements(CommandContext& context, const CommandRequest& request,
                      const StatementFamily& family,
                      const std::function<void(std::size_t index, const ModifyOutcome&)>& done,
                      const std::function<void(DocumentBuilder&)>& append_totals,
                      DocumentBuilder& reply);

// The explain of its only statement; InvalidLength where there are more.
Status explain_statement(CommandContext& context, const CommandRequest& request,
                         const StatementFamily& family, ExplainVerbosity verbosity,
                         DocumentBuilder& reply);

}  // namespace multifora::crud
