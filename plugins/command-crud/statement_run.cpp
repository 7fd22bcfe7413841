#include "plugins/command-crud/statement_run.h"

namespace multifora::crud {
namespace {

Result<std::vector<ModifyStatement>> parse_all(const CommandRequest& request,
                                               const StatementFamily& family,
                                               const std::vector<DocumentView>& specs,
                                               bool retryable) {
  std::vector<ModifyStatement> statements(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    MULTIFORA_TRY_R(family.parse(specs[i], request, statements[i]));
    if (statements[i].multi && retryable)
      return fail(ErrorCode::kInvalidOptions, "Cannot use (or request) retryable writes with " +
                                                  std::string(family.for_many));
  }
  return statements;
}

Result<ModifyOutcome> run_one(CommandContext& context, const StatementFamily& family,
                              ModifyStatement& statement, RetryableStatements& retry,
                              WriteBatch& batch, std::size_t index) {
  MULTIFORA_ASSIGN_R(const auto before, retry.find(index));
  if (before) return family.load(before->view());
  statement.id = retry.id(index);
  return run_modify(context, statement, batch, family.store);
}

}  // namespace

Status run_statements(CommandContext& context, const CommandRequest& request,
                      const StatementFamily& family,
                      const std::function<void(std::size_t, const ModifyOutcome&)>& done,
                      const std::function<void(DocumentBuilder&)>& append_totals,
                      DocumentBuilder& reply) {
  const std::vector<DocumentView> specs = request.documents(family.option);
  MULTIFORA_TRY(check_batch_size(specs.size()));
  MULTIFORA_TRY(check_writable(request.ns()));
  MULTIFORA_ASSIGN(auto retry, RetryableStatements::make(context, request, specs.size()));
  MULTIFORA_ASSIGN(auto statements, parse_all(request, family, specs, retry.enabled()));
  const bool ordered = request.flag("ordered", true);
  WriteErrors errors;
  WriteBatch batch(context);
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const auto outcome = run_one(context, family, statements[i], retry, batch, i);
    if (outcome) {
      done(i, *outcome);
      continue;
    }
    if (ends_command(context, outcome.error().code())) return outcome.error();
    errors.add(i, outcome.error());
    if (aborts_transaction(context) || ordered) break;
  }
  MULTIFORA_TRY(batch.flush());
  append_totals(reply);
  errors.append_to(reply);
  retry.append_to(reply);
  return {};
}

Status explain_statement(CommandContext& context, const CommandRequest& request,
                         const StatementFamily& family, ExplainVerbosity verbosity,
                         DocumentBuilder& reply) {
  const std::vector<DocumentView> specs = request.documents(family.option);
  if (specs.size() != 1)
    return {ErrorCode::kInvalidLength,
            "explained write batches must be of size 1, but the batch size is " +
                std::to_string(specs.size())};
  ModifyStatement statement;
  MULTIFORA_TRY(family.parse(specs[0], request, statement));
  MULTIFORA_ASSIGN(auto query, compile_modify(context, statement));
  return explain_query(context, request, request.ns(), std::move(query), verbosity,
                       family.explain_stage, reply);
}

}  // namespace multifora::crud
