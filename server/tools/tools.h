// Subcommands of multiforadb: `multiforadb NAME ...`. One row here, one file each. They print to
// standard output, what goes wrong and how far they are to standard error, and end with 0 (good), 1
// (damage was found, or it did not work) or 2 (wrong arguments).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace multifora::tools {

using Arguments = std::vector<std::string>;  // without the program's and the tool's name

struct Tool {
  std::string_view name;
  std::string_view usage;  // what follows the name
  std::string_view help;   // one line
  int (*run)(const Arguments& arguments);
};

std::span<const Tool> all();
// Null: there is none of that name.
const Tool* find(std::string_view name);
// For --help.
std::string help_text();
// Says that there is no such tool, and which one may be meant; returns 2.
int unknown(std::string_view name);

int run_check(const Arguments& arguments);
int run_inspect(const Arguments& arguments);
int run_backup(const Arguments& arguments);
int run_repair(const Arguments& arguments);

}  // namespace multifora::tools
