// Which operators there are, for reports: every row of every family's table, and whether it works or
// only says, as MongoDB would without the feature, that it does not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace multifora {

struct OperatorName {
  std::string_view name;
  bool works = true;
};
struct OperatorFamily {
  std::string_view title;
  std::vector<OperatorName> operators;  // by name
};
// Query, update, expression, accumulator (and window), stage.
std::vector<OperatorFamily> operator_families();

// docs/operators.md: the families as a page.
std::string operators_page();

}  // namespace multifora
