#include "plugins/query-engine/operator_names.h"

#include <algorithm>
#include <map>

#include "plugins/query-engine/accumulator.h"
#include "plugins/query-engine/expression.h"
#include "plugins/query-engine/match_parse.h"
#include "plugins/query-engine/pipeline.h"
#include "plugins/query-engine/stage.h"
#include "plugins/query-engine/update_node.h"

namespace multifora {
namespace {

using Names = std::map<std::string_view, bool>;

template <class Rows>
void add(const Rows& rows, bool works, Names& names) {
  for (const auto& row : rows) names.emplace(row.name, works);
}

OperatorFamily family(std::string_view title, const Names& names) {
  OperatorFamily made{title, {}};
  for (const auto& [name, works] : names) made.operators.push_back({name, works});
  return made;
}

Names query_names() {
  Names names;
  for (const auto rows : {match::logic_rows(), match::document_rows(), match::json_schema_rows()})
    add(rows, true, names);
  for (const auto rows : {match::compare_rows(), match::array_rows(), match::element_rows(),
                          match::bits_rows(), match::regex_rows(), match::logic_path_rows()})
    add(rows, true, names);
  add(match::unsupported_rows(), false, names);
  add(match::unsupported_path_rows(), false, names);
  return names;
}

Names update_names() {
  Names names;
  for (const auto rows : {update::set_rows(), update::arithmetic_rows(), update::push_rows(),
                          update::pull_rows()})
    add(rows, true, names);
  return names;
}

// What needs JavaScript, or an index that is not there, is registered to say so.
bool works(std::string_view name) {
  return name != "$function" && name != "$accumulator" && name != "$meta";
}

Names plain(const std::vector<std::string_view>& all) {
  Names names;
  for (const std::string_view name : all) names.emplace(name, works(name));
  return names;
}

Names stages() {
  Names names;
  for (const std::string_view name : stage_names()) names.emplace(name, true);
  for (const StageRow& row : unsupported_stages()) names[row.name] = false;
  return names;
}

}  // namespace

std::vector<OperatorFamily> operator_families() {
  return {family("Query", query_names()), family("Update", update_names()),
          family("Expression", plain(expression_names())),
          family("Accumulator and window", plain(accumulator_names())),
          family("Stage", stages())};
}

std::string operators_page() {
  std::string page =
      "# Operators\n\n"
      "Made from the query engine's tables by `operator_names_test.cpp` (`MULTIFORA_WRITE_DOCS=1`), which also\n"
      "checks it. What an operator does is MongoDB's manual.\n";
  for (const OperatorFamily& one : operator_families()) {
    page += "\n## " + std::string(one.title) + "\n\n";
    std::string refused;
    std::size_t column = 0;
    for (const OperatorName& op : one.operators) {
      if (!op.works) {
        refused += (refused.empty() ? "`" : ", `") + std::string(op.name) + "`";
        continue;
      }
      const std::string cell = "`" + std::string(op.name) + "`";
      if (column != 0 && column + cell.size() + 1 > 110) {
        page += '\n';
        column = 0;
      }
      if (column != 0) page += ' ', ++column;
      page += cell;
      column += cell.size();
    }
    page += '\n';
    if (!refused.empty())
      page += "\nKnown, and answered with MongoDB's error for a server without the feature: " + refused + ".\n";
  }
  return page;
}

}  // namespace multifora
