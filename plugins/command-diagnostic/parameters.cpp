// getParameter and setParameter. Parameters are rows; all are read-only: what can
// be configured is configured in the file, by the key that the row names.
#include "core/base/limits.h"
#include "core/base/version.h"
#include "core/plugin/generic_arguments.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

struct Parameter {
  std::string_view name;
  void (*append)(CommandContext& context, std::string_view name, DocumentBuilder& out);
  std::string_view key = {};  // of the configuration, that decides it; empty: it is fixed
};

// What a plugin says of itself as a metric.
void append_seconds(CommandContext& context, std::string_view name, std::string_view metric,
                    DocumentBuilder& out) {
  out.append(name, static_cast<std::int32_t>(context.host().metrics().value(metric)));
}

const Parameter kParameters[] = {
    {"authenticationMechanisms",
     [](CommandContext&, std::string_view name, DocumentBuilder& out) { out.array(name); }},
    {"enableTestCommands",
     [](CommandContext& context, std::string_view name, DocumentBuilder& out) {
       out.append(name,
                  context.host().config().integer("test_commands", "enabled").value_or(0) != 0);
     }},
    {"featureCompatibilityVersion",
     [](CommandContext&, std::string_view name, DocumentBuilder& out) {
       out.object(name).append("version", kFeatureCompatibilityVersion);
     }},
    {"localLogicalSessionTimeoutMinutes",
     [](CommandContext&, std::string_view name, DocumentBuilder& out) {
       out.append(name, static_cast<std::int32_t>(limits::kSessionIdleMinutes));
     }},
    {"logLevel",
     [](CommandContext&, std::string_view name, DocumentBuilder& out) { out.append(name, 0); },
     "log.level"},
    {"minSnapshotHistoryWindowInSeconds",
     [](CommandContext& context, std::string_view name, DocumentBuilder& out) {
       append_seconds(context, name, "snapshot_history_seconds", out);
     },
     "command-session.snapshot_history_secs"},
    {"quiet",
     [](CommandContext&, std::string_view name, DocumentBuilder& out) { out.append(name, false); }},
    {"requireApiVersion",
     [](CommandContext&, std::string_view name, DocumentBuilder& out) { out.append(name, false); }},
    {"transactionLifetimeLimitSeconds",
     [](CommandContext& context, std::string_view name, DocumentBuilder& out) {
       append_seconds(context, name, "transaction_lifetime_limit_seconds", out);
     },
     "command-session.transaction_lifetime_secs"},
    {"ttlMonitorSleepSecs",
     [](CommandContext& context, std::string_view name, DocumentBuilder& out) {
       append_seconds(context, name, "ttl_monitor_sleep_seconds", out);
     },
     "index-ttl.monitor_sleep_secs"},
};

Status run_get(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const ValueView target = request.target();
  const bool details = target.type() == BsonType::kObject &&
                       target.as_document()["showDetails"].truthy();
  const bool all = (target.type() == BsonType::kString && target.as_string() == "*") ||
                   (target.type() == BsonType::kObject &&
                    target.as_document()["allParameters"].truthy());
  bool any = false;
  for (const Parameter& parameter : kParameters) {
    if (!all && !request.has(parameter.name)) continue;
    any = true;
    if (!details) {
      parameter.append(context, parameter.name, reply);
      continue;
    }
    auto row = reply.object(parameter.name);
    parameter.append(context, "value", row);
    row.append("settableAtRuntime", false);
    row.append("settableAtStartup", !parameter.key.empty());
  }
  if (any) return {};
  return {ErrorCode::kInvalidOptions, "no option found to get"};
}

Status cannot_change(const Parameter& parameter) {
  const std::string refused = "not allowed to change [" + std::string(parameter.name) + "] at runtime";
  return {ErrorCode::kIllegalOperation,
          parameter.key.empty()
              ? refused + ": its value is fixed in this server"
              : refused + "; set " + std::string(parameter.key) +
                    " in the configuration file and restart"};
}

Status run_set(CommandContext&, const CommandRequest& request, DocumentBuilder&) {
  for (const Element& field : request.body()) {
    if (field.name() == "setParameter" || find_generic_argument(field.name()) != nullptr) continue;
    for (const Parameter& parameter : kParameters)
      if (parameter.name == field.name())
        return cannot_change(parameter);
    return {ErrorCode::kInvalidOptions,
            "attempted to set unrecognized parameter [" + std::string(field.name()) +
                "], use help:true to see options "};
  }
  return {ErrorCode::kInvalidOptions, "no option found to set, use help:true to see options "};
}

}  // namespace

const CommandRow kGetParameter{.name = "getParameter",
                               .aliases = {},
                               .help = "Values of parameters by name, or of all (\"*\").",
                               .privilege = "getParameter",
                               .flags = kAdminOnly | kAnyOptions,
                               .options = {},
                               .run = run_get};
const CommandRow kSetParameter{.name = "setParameter",
                               .aliases = {},
                               .help = "Refused, naming the key of the configuration file that decides a parameter.",
                               .privilege = "setParameter",
                               .flags = kAdminOnly | kAnyOptions,
                               .options = {},
                               .run = run_set};

}  // namespace multifora::diagnostic_commands
