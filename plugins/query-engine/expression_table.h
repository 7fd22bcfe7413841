// The families' tables, each defined in its own file (expr_<family>.cpp) and collected in
// expression_table.cpp. Static data; any thread.
#pragma once

#include <span>

#include "plugins/query-engine/operator.h"

namespace multifora {

std::span<const OperatorRow> accumulator_operators();
std::span<const OperatorRow> arithmetic_operators();
std::span<const OperatorRow> array_operators();
std::span<const OperatorRow> bitwise_operators();
std::span<const OperatorRow> boolean_operators();
std::span<const OperatorRow> comparison_operators();
std::span<const OperatorRow> conditional_operators();
std::span<const OperatorRow> conversion_operators();
std::span<const OperatorRow> date_operators();
std::span<const OperatorRow> date_arithmetic_operators();
std::span<const OperatorRow> date_text_operators();
std::span<const OperatorRow> misc_operators();
std::span<const OperatorRow> object_operators();
std::span<const OperatorRow> regex_operators();
std::span<const OperatorRow> set_operators();
std::span<const OperatorRow> string_operators();
std::span<const OperatorRow> trigonometry_operators();
std::span<const OperatorRow> variable_operators();

}  // namespace multifora
