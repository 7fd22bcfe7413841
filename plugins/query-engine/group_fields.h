// The computed fields of $group and $bucketAuto.
#pragma once

#include <string>
#include <vector>

#include "plugins/query-engine/accumulator.h"

namespace multifora {

struct GroupField {
  std::string name;
  SpecPtr spec;
};

// {name: {$accumulator: argument}}; 40234, 40235, 40236, 40238 for a wrong shape.
Status parse_group_field(const Element& e, VariableScope& scope, std::vector<GroupField>& out);
// One for each field. Arguments such as n see `key` as their document where it is one.
Result<std::vector<AccumulatorPtr>> make_accumulators(const std::vector<GroupField>& fields,
                                                      const ValueView& key, EvalContext& eval);

}  // namespace multifora
