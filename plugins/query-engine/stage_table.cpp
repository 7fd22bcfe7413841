// The stages' tables, collected.
#include <algorithm>
#include <unordered_map>

#include "core/plugin/host.h"
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

Status StageRegistry::add(const StageRow* row) {
  if (find_stage(row->name, nullptr) != nullptr || find(row->name) != nullptr)
    return {ErrorCode::kAlreadyInitialized,
            "a stage named '" + std::string(row->name) + "' is registered already"};
  rows_.push_back(row);
  return {};
}

const StageRow* StageRegistry::find(std::string_view name) const {
  for (const StageRow* row : rows_)
    if (row->name == name) return row;
  return nullptr;
}

const StageRow* find_stage(std::string_view name, const PluginHost* host) {
  if (const auto it = table().find(name); it != table().end()) return it->second;
  const auto* others = host != nullptr ? host->service<StageRegistry>() : nullptr;
  return others != nullptr ? others->find(name) : nullptr;
}

std::vector<std::string_view> stage_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : table()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace multifora
