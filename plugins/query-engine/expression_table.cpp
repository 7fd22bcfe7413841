#include "plugins/query-engine/expression_table.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace multifora {
namespace {

using Table = std::unordered_map<std::string_view, const OperatorRow*>;

const Table& table() {
  static const Table kTable = [] {
    Table t;
    for (const auto family :
         {accumulator_operators(), arithmetic_operators(), array_operators(), bitwise_operators(),
          boolean_operators(), comparison_operators(), conditional_operators(),
          conversion_operators(), date_operators(), date_arithmetic_operators(),
          date_text_operators(), misc_operators(), object_operators(), regex_operators(),
          set_operators(), string_operators(), trigonometry_operators(), variable_operators()})
      for (const OperatorRow& row : family) t.emplace(row.name, &row);
    return t;
  }();
  return kTable;
}

}  // namespace

const OperatorRow* find_operator(std::string_view name) {
  const auto it = table().find(name);
  return it == table().end() ? nullptr : it->second;
}

std::vector<std::string_view> expression_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : table()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace multifora
