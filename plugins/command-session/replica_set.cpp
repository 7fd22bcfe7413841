// The commands of a replica set's administration, as its only member answers them.
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "plugins/command-session/rows.h"

namespace multifora::session {
namespace {

constexpr std::int64_t kTerm = 1;

Status check_replica_set(const ServerControl* control) {
  if (control != nullptr && !control->set_name().empty()) return {};
  return {ErrorCode::kNoReplicationEnabled, "not running with --replSet"};
}

std::string own_address(CommandContext& context, const ServerControl& control) {
  const std::string advertised = control.advertised_address();
  return advertised.empty() ? context.client().local : advertised;
}

void append_op_time(DocumentBuilder& out, std::string_view name, std::uint64_t position) {
  DocumentBuilder time = out.object(name);
  time.append_timestamp("ts", position);
  time.append("t", kTerm);
}

std::int64_t date_ms(std::uint64_t position) {
  return static_cast<std::int64_t>(position >> 32) * 1000;
}

Status run_status(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  const auto* control = context.host().service<ServerControl>();
  MULTIFORA_TRY(check_replica_set(control));
  const std::uint64_t applied = context.store().last_position();
  const std::uint64_t durable = std::min(applied, context.store().durable_position());
  const std::int64_t now_ms = context.host().clock().wall_ms();
  reply.append("set", control->set_name());
  reply.append_date_ms("date", now_ms);
  reply.append("myState", 1).append("term", kTerm);
  reply.append("syncSourceHost", "").append("syncSourceId", -1);
  reply.append("heartbeatIntervalMillis", std::int64_t{2000});
  reply.append("majorityVoteCount", 1).append("writeMajorityCount", 1);
  reply.append("votingMembersCount", 1).append("writableVotingMembersCount", 1);
  {
    DocumentBuilder times = reply.object("optimes");
    append_op_time(times, "lastCommittedOpTime", durable);
    times.append_date_ms("lastCommittedWallTime", date_ms(durable));
    append_op_time(times, "readConcernMajorityOpTime", durable);
    append_op_time(times, "appliedOpTime", applied);
    append_op_time(times, "durableOpTime", durable);
    times.append_date_ms("lastAppliedWallTime", date_ms(applied));
    times.append_date_ms("lastDurableWallTime", date_ms(durable));
  }
  ArrayBuilder members = reply.array("members");
  DocumentBuilder me = members.object();
  me.append("_id", 0).append("name", own_address(context, *control));
  me.append("health", 1.0).append("state", 1).append("stateStr", "PRIMARY");
  me.append("uptime", static_cast<std::int32_t>((now_ms - control->start_wall_ms()) / 1000));
  append_op_time(me, "optime", applied);
  me.append_date_ms("optimeDate", date_ms(applied));
  me.append("syncSourceHost", "").append("syncSourceId", -1).append("infoMessage", "");
  me.append_timestamp("electionTime",
                      static_cast<std::uint64_t>(control->start_wall_ms() / 1000) << 32 | 1);
  me.append_date_ms("electionDate", control->start_wall_ms());
  me.append("configVersion", 1).append("configTerm", kTerm);
  me.append("self", true).append("lastHeartbeatMessage", "");
  return {};
}

Status run_config(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  const auto* control = context.host().service<ServerControl>();
  MULTIFORA_TRY(check_replica_set(control));
  DocumentBuilder config = reply.object("config");
  config.append("_id", control->set_name()).append("version", 1).append("term", kTerm);
  {
    ArrayBuilder members = config.array("members");
    DocumentBuilder me = members.object();
    me.append("_id", 0).append("host", own_address(context, *control));
    me.append("arbiterOnly", false).append("buildIndexes", true).append("hidden", false);
    me.append("priority", 1.0);
    me.object("tags");
    me.append("secondaryDelaySecs", std::int64_t{0}).append("votes", 1);
  }
  config.append("protocolVersion", std::int64_t{1});
  config.append("writeConcernMajorityJournalDefault", true);
  DocumentBuilder settings = config.object("settings");
  settings.append("chainingAllowed", true).append("heartbeatIntervalMillis", 2000);
  settings.append("heartbeatTimeoutSecs", 10).append("electionTimeoutMillis", 10000);
  settings.append("catchUpTimeoutMillis", -1).append("catchUpTakeoverDelayMillis", 30000);
  settings.object("getLastErrorModes");
  {
    DocumentBuilder defaults = settings.object("getLastErrorDefaults");
    defaults.append("w", 1).append("wtimeout", 0);
  }
  return {};
}

Status run_initiate(CommandContext& context, const CommandRequest&, DocumentBuilder&) {
  MULTIFORA_TRY(check_replica_set(context.host().service<ServerControl>()));
  return {ErrorCode::kAlreadyInitialized, "already initialized"};
}

Status run_step_down(CommandContext& context, const CommandRequest&, DocumentBuilder&) {
  MULTIFORA_TRY(check_replica_set(context.host().service<ServerControl>()));
  return {ErrorCode::kCommandNotSupported,
          "the only member of a replica set stays its primary: there is none to take over"};
}

CommandRow row_of(std::string_view name, std::string_view help, decltype(CommandRow::run) run) {
  CommandRow row;
  row.name = name;
  row.help = help;
  row.privilege = name;
  row.flags = kAdminOnly | kAnyOptions;
  row.run = run;
  return row;
}

}  // namespace

const CommandRow kReplSetGetStatus =
    row_of("replSetGetStatus", "state of the replica set's members", run_status);
const CommandRow kReplSetGetConfig =
    row_of("replSetGetConfig", "configuration of the replica set", run_config);
const CommandRow kReplSetInitiate =
    row_of("replSetInitiate", "refused: the set exists from the first start", run_initiate);
const CommandRow kReplSetStepDown =
    row_of("replSetStepDown", "refused: there is no other member", run_step_down);

}  // namespace multifora::session
