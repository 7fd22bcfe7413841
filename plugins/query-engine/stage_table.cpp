// The stages' tables, collected.
#include <algorithm>
#include <unordered_map>

#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

using Table = std::unordered_map<std::string_view, const StageRow*>;

const Table& table() {
  static const Table kTable = [] {
    Table t;
    for (const auto family :
         {streaming_stages(), sort_stages(), group_stages(), bucket_stages(), lookup_stages(),
          graph_lookup_stages(), union_stages(), redact_stages(), window_stages(), densify_stages(),
          write_stages(), source_stages(), unsupported_stages()})
      for (const StageRow& row : family) t.emplace(row.name, &row);
    return t;
  }();
  return kTable;
}

}  // namespace

const StageRow* find_stage(std::string_view name) {
  const auto it = table().find(name);
  return it == table().end() ? nullptr : it->second;
}

std::vector<std::string_view> stage_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : table()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace multifora
