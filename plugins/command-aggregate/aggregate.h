// The aggregate command.
#pragma once

#include "core/plugin/command.h"
#include "plugins/query-engine/explain.h"

namespace multifora {

extern const CommandRow kAggregate;
extern const CommandRow kMapReduce;

Status explain_aggregate(CommandContext& context, const CommandRequest& request,
                         ExplainVerbosity verbosity, DocumentBuilder& reply);

}  // namespace multifora
