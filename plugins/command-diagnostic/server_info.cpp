// What the server is: ping, buildInfo, hostInfo, whatsmyuri, listCommands, getCmdLineOpts,
// connectionStatus; and usersInfo/rolesInfo of a server without users.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "core/base/limits.h"
#include "core/base/version.h"
#include "core/plugin/host.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

Status run_ping(CommandContext&, const CommandRequest&, DocumentBuilder&) { return {}; }

// Drivers and ODMs choose their features by this version; `multifora` is the product's own.
Status run_build_info(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  reply.append("version", kMongoVersion);
  reply.append("gitVersion", "multiforadb");
  reply.array("modules");
  reply.append("allocator", "system");
  reply.append("javascriptEngine", "none");
  reply.append("sysInfo", "deprecated");
  {
    auto version = reply.array("versionArray");
    for (const std::int32_t part : kMongoVersionParts) version.append(part);
  }
  {
    auto environment = reply.object("buildEnvironment");
    environment.append("cxx", __VERSION__);
    environment.append("target_arch", "x86_64");
    environment.append("target_os", "linux");
  }
  reply.append("bits", 64);
#ifdef NDEBUG
  reply.append("debug", false);
#else
  reply.append("debug", true);
#endif
  reply.append("maxBsonObjectSize", static_cast<std::int32_t>(limits::kDocumentSizeMax));
  reply.array("storageEngines").append("multifora");
  auto own = reply.object("multifora");
  own.append("version", kServerVersion);
  auto plugins = own.array("plugins");
  for (const PluginHost::Loaded& plugin : context.host().loaded())
    plugins.object().append("name", plugin.name).append("version", plugin.version);
  return {};
}

std::string first_line_with(const char* path, std::string_view start) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(start)) continue;
    const std::size_t at = line.find_first_of(":=");
    std::string value = at == std::string::npos ? line : line.substr(at + 1);
    std::erase(value, '"');
    value.erase(0, value.find_first_not_of(" \t"));
    return value;
  }
  return "";
}

Status run_host_info(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  utsname names{};
  uname(&names);
  const std::int64_t page_size = sysconf(_SC_PAGESIZE);
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
  {
    auto system = reply.object("system");
    system.append_date_ms("currentTime", context.host().clock().wall_ms());
    system.append("hostname", names.nodename);
    system.append("cpuAddrSize", 64);
    system.append("memSizeMB", page_size * pages / (1024 * 1024));
    system.append("memLimitMB", page_size * pages / (1024 * 1024));
    system.append("numCores", static_cast<std::int32_t>(sysconf(_SC_NPROCESSORS_ONLN)));
    system.append("cpuArch", names.machine);
    system.append("numaEnabled", false);
  }
  {
    auto os = reply.object("os");
    os.append("type", "Linux");
    os.append("name", first_line_with("/etc/os-release", "PRETTY_NAME"));
    os.append("version", std::string("Kernel ") + names.release);
  }
  auto extra = reply.object("extra");
  extra.append("versionString", names.version);
  extra.append("kernelVersion", names.release);
  extra.append("cpuString", first_line_with("/proc/cpuinfo", "model name"));
  extra.append("pageSize", page_size);
  extra.append("numPages", pages);
  return {};
}

Status run_whats_my_uri(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  reply.append("you", context.client().remote);
  return {};
}

Status run_list_commands(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  std::vector<const CommandRow*> rows = context.host().commands();
  std::sort(rows.begin(), rows.end(),
            [](const CommandRow* a, const CommandRow* b) { return a->name < b->name; });
  auto commands = reply.object("commands");
  for (const CommandRow* row : rows) {
    auto entry = commands.object(row->name);
    entry.append("help", row->help);
    entry.append("requiresAuth", (row->flags & kAllowedBeforeAuth) == 0);
    entry.append("adminOnly", (row->flags & kAdminOnly) != 0);
    {
      auto versions = entry.array("apiVersions");
      if ((row->flags & kAllowedInStrictApi) != 0) versions.append("1");
    }
    entry.array("deprecatedApiVersions");
  }
  return {};
}

Status run_get_cmd_line_opts(CommandContext& context, const CommandRequest&,
                             DocumentBuilder& reply) {
  if (const auto* server = context.host().service<ServerControl>()) {
    const OwnedDocument options = server->command_line();
    reply.append_all(options.view());
    return {};
  }
  reply.array("argv");
  reply.object("parsed");
  return {};
}

Status run_connection_status(CommandContext&, const CommandRequest& request,
                             DocumentBuilder& reply) {
  auto info = reply.object("authInfo");
  info.array("authenticatedUsers");
  info.array("authenticatedUserRoles");
  if (request.flag("showPrivileges", false)) info.array("authenticatedUserPrivileges");
  return {};
}

Status run_users_info(CommandContext&, const CommandRequest&, DocumentBuilder& reply) {
  reply.array("users");
  return {};
}

Status run_roles_info(CommandContext&, const CommandRequest&, DocumentBuilder& reply) {
  reply.array("roles");
  return {};
}

}  // namespace

const CommandRow kPing{.name = "ping",
                       .aliases = {},
                       .help = "Answers.",
                       .privilege = "",
                       .flags = kAllowedBeforeAuth | kAllowedInStrictApi,
                       .options = {},
                       .run = run_ping};
const CommandRow kBuildInfo{.name = "buildInfo",
                            .aliases = {"buildinfo"},
                            .help = "Version and build of the server.",
                            .privilege = "",
                            .flags = kAllowedBeforeAuth,
                            .options = {},
                            .run = run_build_info};
const CommandRow kHostInfo{.name = "hostInfo",
                           .aliases = {},
                           .help = "The machine that the server runs on.",
                           .privilege = "hostInfo",
                           .flags = 0,
                           .options = {},
                           .run = run_host_info};
const CommandRow kWhatsMyUri{.name = "whatsmyuri",
                             .aliases = {},
                             .help = "The client's address as the server sees it.",
                             .privilege = "",
                             .flags = kAllowedBeforeAuth,
                             .options = {},
                             .run = run_whats_my_uri};
const CommandRow kListCommands{.name = "listCommands",
                               .aliases = {},
                               .help = "All commands with their help.",
                               .privilege = "",
                               .flags = kAllowedBeforeAuth,
                               .options = {},
                               .run = run_list_commands};
const CommandRow kGetCmdLineOpts{.name = "getCmdLineOpts",
                                 .aliases = {},
                                 .help = "The arguments and options that the server was started with.",
                                 .privilege = "getCmdLineOpts",
                                 .flags = kAdminOnly,
                                 .options = {},
                                 .run = run_get_cmd_line_opts};
const CommandRow kConnectionStatus{.name = "connectionStatus",
                                   .aliases = {},
                                   .help = "The users of this connection.",
                                   .privilege = "",
                                   .flags = kAllowedBeforeAuth | kAllowedInStrictApi,
                                   .options = {{"showPrivileges", kOptBoolish}},
                                   .run = run_connection_status};
const CommandRow kUsersInfo{.name = "usersInfo",
                            .aliases = {},
                            .help = "Users: this server has none.",
                            .privilege = "viewUser",
                            .flags = 0,
                            // There is no user of whom to show more, or whom to leave out.
                            .options = {{"showCredentials", kOptBoolish, kNoEffect},
                                        {"showCustomData", kOptBoolish, kNoEffect},
                                        {"showPrivileges", kOptBoolish, kNoEffect},
                                        {"showAuthenticationRestrictions", kOptBoolish, kNoEffect},
                                        {"filter", kOptObject, kNoEffect}},
                            .run = run_users_info};
const CommandRow kRolesInfo{.name = "rolesInfo",
                            .aliases = {},
                            .help = "Roles: this server has none of its own.",
                            .privilege = "viewRole",
                            .flags = 0,
                            // There is no role of which to show more.
                            .options = {{"showAuthenticationRestrictions", kOptBoolish, kNoEffect},
                                        {"showBuiltinRoles", kOptBoolish, kNoEffect},
                                        {"showPrivileges", kOptAny, kNoEffect}},
                            .run = run_roles_info};

}  // namespace multifora::diagnostic_commands
