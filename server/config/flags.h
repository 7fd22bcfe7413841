// The command line.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "server/config/config.h"

namespace multifora {

struct CommandLine {
  ServerConfig config;
  // --help or --version was given: `text` is to be printed, nothing else done.
  bool only_print = false;
  bool help = false;  // of the two, this one
  std::string text;
};

// Reads the file that --config names, then lets the flags override it. BadValue says which flag or
// key is wrong, and what is near to it.
Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

}  // namespace multifora
