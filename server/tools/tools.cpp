#include "server/tools/tools.h"

#include <iostream>

#include "server/config/schema.h"

namespace multifora::tools {
namespace {

const Tool kTools[] = {
    {"check", "PATH [--config FILE]",
     "walks a whole database that no server has open, and changes nothing", run_check},
    {"inspect", "PATH [--json] [--blocks] [--config FILE]",
     "shows what is in a database's files, for bug reports; changes nothing", run_inspect},
    {"backup", "--out DIR [--host HOST] [--port PORT]",
     "copies the database of a running server; to restore, start on the copy", run_backup},
    {"repair", "", "is not offered; says what to do instead", run_repair},
};

}  // namespace

std::span<const Tool> all() { return kTools; }

const Tool* find(std::string_view name) {
  for (const Tool& tool : kTools)
    if (tool.name == name) return &tool;
  return nullptr;
}

std::string help_text() {
  std::string text = "Tools:\n";
  for (const Tool& tool : kTools)
    text.append("  multiforadb ")
        .append(tool.name)
        .append(tool.usage.empty() ? "" : " ")
        .append(tool.usage)
        .append("\n      ")
        .append(tool.help)
        .append("\n");
  return text;
}

int unknown(std::string_view name) {
  std::vector<std::string> names;
  for (const Tool& tool : kTools) names.emplace_back(tool.name);
  std::cerr << "multiforadb: there is no tool '" << name << "'" << nearest(name, names)
            << "; see --help\n";
  return 2;
}

int run_repair(const Arguments&) {
  std::cerr <<
      "multiforadb repair is not offered: a program cannot know what damaged bytes meant, and a\n"
      "database that was \"repaired\" is one that has silently lost something. Instead:\n"
      "  1. Stop the server and copy the whole directory away as it is.\n"
      "  2. Look for the cause first: the system's log, the disk's health (smartctl), memory.\n"
      "  3. multiforadb check PATH says what is damaged, and whether anything is.\n"
      "  4. Restore the newest backup (multiforadb backup): start the server on it.\n"
      "  5. Without a backup: start the server. What is damaged is never returned as data, all\n"
      "     other documents can be read: copy them with mongodump, or collection by collection.\n"
      "     An index that is damaged is dropped and built again; a damaged collection can be\n"
      "     dropped.\n"
      "  6. multiforadb inspect PATH --json belongs into a bug report.\n";
  return 2;
}

}  // namespace multifora::tools
