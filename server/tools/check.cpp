// multiforadb check: recovery and Store::check on a database that nobody has open.
#include <iostream>

#include "server/tools/offline.h"

namespace multifora::tools {

int run_check(const Arguments& arguments) {
  const auto parsed = parse_offline("check", arguments, {});
  if (!parsed) return 2;
  auto database = OfflineDatabase::prepare(parsed->path, parsed->config);
  Status opened = database ? (*database)->open() : database.error();
  if (!opened.ok()) {
    std::cerr << "multiforadb check: " << opened.message() << "\n";
    return 1;
  }
  const OpenReport& report = (*database)->report();
  std::cerr << "opened, " << report.recovered_batches << " batches of the log replayed in memory\n";
  std::uint64_t records = 0, collections = 0;
  const auto errors = (*database)->store().check(
      [&](const CollectionInfo& info, std::uint64_t count, std::size_t done, std::size_t total) {
        std::cerr << "[" << done + 1 << "/" << total << "] " << info.ns << ": " << count
                  << " records\n";
        records += count;
        ++collections;
      });
  for (const std::string& error : errors) std::cout << "damaged: " << error << "\n";
  if (!errors.empty()) {
    std::cout << errors.size() << " errors in " << parsed->path
              << "; multiforadb repair says what to do\n";
    return 1;
  }
  std::cout << parsed->path << " is clean: " << collections << " collections, " << records
            << " records\n";
  return 0;
}

}  // namespace multifora::tools
