#include "server/config/flags.h"

#include <boost/program_options.hpp>
#include <iomanip>
#include <sstream>

#include "server/config/schema.h"
#include "server/config/version.h"

namespace multifora {
namespace {

namespace po = boost::program_options;

// Flags for keys of plugins' sections; the plugin that owns the section checks the value.
struct PluginFlag {
  std::string_view flag, key, help;
};
constexpr PluginFlag kPluginFlags[] = {
    {"ttl-sweep-secs", "index-ttl.monitor_sleep_secs",
     "seconds between sweeps of expired documents"},
};

bool is_switch(const ConfigKey& key) {
  ServerConfig config;
  return std::holds_alternative<bool*>(key.slot(config));
}

po::options_description make_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("help", "print this");
  add("version", "print the version");
  add("config", po::value<std::string>(), "configuration file (JSON)");
  add("set", po::value<std::vector<std::string>>()->composing(),
      "section.key=value: any key of the configuration; may be repeated");
  for (const ConfigKey& key : config_keys())
    if (!key.flag.empty()) {
      auto* value = po::value<std::string>();
      // A switch needs no value.
      if (is_switch(key)) value->implicit_value("true", "");
      add(std::string(key.flag).c_str(), value,
          (std::string(key.help) + " [" + std::string(key.name) + "]").c_str());
    }
  for (const PluginFlag& flag : kPluginFlags)
    add(std::string(flag.flag).c_str(), po::value<std::string>(),
        (std::string(flag.help) + " [" + std::string(flag.key) + "]").c_str());
  add("db", po::value<std::string>(), "the same as --dbpath");
  return options;
}

std::string help_text(const po::options_description& options) {
  std::ostringstream out;
  out << "multiforadb: a document database for MongoDB's clients\n\n"
      << "Usage: multiforadb [--config FILE] [options]\n\n"
      << options << "\nKeys of the configuration, with their defaults:\n";
  const auto values = config_values(ServerConfig());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ConfigKey& key = config_keys()[i];
    out << "  " << std::left << std::setw(32) << values[i].first << std::setw(20)
        << (values[i].second.empty() ? "\"\"" : values[i].second) << key.help << "\n";
  }
  out << "A plugin's keys stand in a section with its name: codec-zstd.level=3; see its README.\n";
  return out.str();
}

std::string unknown_flag(const std::string& given, const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back("--" + option->long_name());
  return "unknown option " + given + nearest(given, names) + "; see --help";
}

Status apply_set(const std::string& assignment, ServerConfig& config) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    return {ErrorCode::kBadValue, "--set " + assignment + ": expected section.key=value"};
  return set_config_value(std::string_view(assignment).substr(0, equals),
                          std::string_view(assignment).substr(equals + 1), config);
}

Status apply_flags(const po::variables_map& given, ServerConfig& config) {
  if (given.count("set") > 0)
    for (const std::string& one : given["set"].as<std::vector<std::string>>())
      MULTIFORA_TRY(apply_set(one, config));
  for (const ConfigKey& key : config_keys()) {
    const std::string flag(key.flag);
    if (!flag.empty() && given.count(flag) > 0)
      if (Status status = set_config_value(key.name, given[flag].as<std::string>(), config);
          !status.ok())
        return std::move(status).with_context("--" + flag);
  }
  for (const PluginFlag& known : kPluginFlags) {
    const std::string flag(known.flag);
    if (given.count(flag) > 0)
      MULTIFORA_TRY(set_config_value(known.key, given[flag].as<std::string>(), config));
  }
  if (given.count("db") == 0) return {};
  if (given.count("dbpath") > 0)
    return {ErrorCode::kBadValue, "--db and --dbpath are the same option: give one of them"};
  return set_config_value("storage.dbpath", given["db"].as<std::string>(), config);
}

Result<po::variables_map> parse(const std::vector<std::string>& arguments,
                                const po::options_description& options) {
  // No guessing of shortened names: a later option could change what they mean.
  constexpr int kStyle = po::command_line_style::unix_style ^ po::command_line_style::allow_guessing;
  po::variables_map given;
  try {
    const po::positional_options_description nothing_positional;
    po::store(po::command_line_parser(arguments)
                  .options(options)
                  .positional(nothing_positional)
                  .style(kStyle)
                  .run(),
              given);
  } catch (const po::unknown_option& error) {
    return fail(ErrorCode::kBadValue, unknown_flag(error.get_option_name(), options));
  } catch (const po::error& error) {
    return fail(ErrorCode::kBadValue, std::string(error.what()) + "; see --help");
  }
  return given;
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments) {
  const po::options_description options = make_options();
  MULTIFORA_ASSIGN_R(const po::variables_map given, parse(arguments, options));
  CommandLine line;
  if (given.count("help") > 0 || given.count("version") > 0) {
    line.only_print = true;
    line.help = given.count("help") > 0;
    line.text = given.count("help") > 0 ? help_text(options) : version_text();
    return line;
  }
  if (given.count("config") > 0)
    MULTIFORA_TRY_R(read_config_file(given["config"].as<std::string>(), line.config));
  MULTIFORA_TRY_R(apply_flags(given, line.config));
  return line;
}

}  // namespace multifora
