// Registers the hello family, the session commands, transactions, and the replica set's own commands.
#include "core/plugin/plugin.h"

#include "plugins/command-session/rows.h"
#include "plugins/command-session/session_ids.h"
#include "plugins/command-session/session_table.h"

namespace {

using namespace multifora;
using namespace multifora::session;

// Ends transactions past their time and sessions that nobody uses.
class SessionSweeper final : public BackgroundTask {
 public:
  SessionSweeper(PluginHost& host, std::shared_ptr<SessionTable> table)
      : host_(host), table_(std::move(table)) {}
  std::string_view name() const override { return "session-timeout"; }
  std::int64_t interval_ms() const override { return 1000; }
  Status run(Store&) override {
    const auto over = table_->sweep();
    if (!over.empty()) end_cursors(host_, over);
    return {};
  }

 private:
  PluginHost& host_;
  std::shared_ptr<SessionTable> table_;
};

Status register_plugin(PluginHost& host) {
  for (const CommandRow* row :
       {&kHello, &kIsMaster, &kStartSession, &kEndSessions, &kRefreshSessions, &kKillSessions,
        &kKillAllSessions, &kKillAllSessionsByPattern, &kCommitTransaction, &kAbortTransaction,
        &kReplSetGetStatus, &kReplSetGetConfig, &kReplSetInitiate, &kReplSetStepDown})
    MULTIFORA_TRY(host.add_command(row));
  auto table = std::make_shared<SessionTable>(host);
  MULTIFORA_TRY(host.add_service<SessionTable>(table));
  MULTIFORA_TRY(host.add_service<SessionGate>(table));
  return host.add_background(std::make_unique<SessionSweeper>(host, table));
}

}  // namespace

MULTIFORA_PLUGIN(command_session, "command-session", "1.0.0", register_plugin)
