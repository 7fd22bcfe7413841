#include "core/plugin/generic_arguments.h"

#include <iterator>

namespace multifora {
namespace {

const GenericRow kGenericRows[] = {
    {{"$db", kOptString}, GenericArgument::kDb},
    {{"lsid", kOptObject}, GenericArgument::kLsid},
    {{"$clusterTime", kOptObject}, GenericArgument::kClusterTime},
    {{"txnNumber", kOptInt64}, GenericArgument::kTxnNumber},
    {{"$readPreference", kOptObject}, GenericArgument::kReadPreference},
    {{"writeConcern", kOptObject}, GenericArgument::kWriteConcern},
    {{"readConcern", kOptObject}, GenericArgument::kReadConcern},
    {{"maxTimeMS", kOptNumber, kNonNegative}, GenericArgument::kMaxTimeMs},
    {{"comment", kOptAny}, GenericArgument::kIgnored},
    {{"apiVersion", kOptString}, GenericArgument::kApiVersion},
    {{"apiStrict", kOptBool}, GenericArgument::kApiStrict},
    {{"apiDeprecationErrors", kOptBool}, GenericArgument::kApiDeprecationErrors},
    {{"autocommit", kOptBool}, GenericArgument::kAutocommit},
    {{"startTransaction", kOptBool}, GenericArgument::kStartTransaction},
    {{"mayBypassWriteBlocking", kOptBool}, GenericArgument::kIgnored},
    {{"maxTimeMSOpOnly", kOptNumber}, GenericArgument::kIgnored},
    {{"clientOperationKey", kOptBinary}, GenericArgument::kIgnored},
    {{"databaseVersion", kOptObject}, GenericArgument::kIgnored},
    {{"shardVersion", kOptAny}, GenericArgument::kIgnored},
    {{"coordinator", kOptBool}, GenericArgument::kIgnored},
    {{"expectPrefix", kOptBool}, GenericArgument::kIgnored},
    {{"rawData", kOptBool}, GenericArgument::kIgnored},
    {{"$client", kOptObject}, GenericArgument::kIgnored},
    {{"$audit", kOptObject}, GenericArgument::kIgnored},
    {{"$configServerState", kOptObject}, GenericArgument::kIgnored},
    {{"$configTime", kOptTimestamp}, GenericArgument::kIgnored},
    {{"$topologyTime", kOptTimestamp}, GenericArgument::kIgnored},
    {{"$oplogQueryData", kOptAny}, GenericArgument::kIgnored},
    {{"$queryOptions", kOptObject}, GenericArgument::kIgnored},
    {{"$replData", kOptAny}, GenericArgument::kIgnored},
};
static_assert(std::size(kGenericRows) <= 64, "the dispatcher keeps one bit for each");

}  // namespace

std::span<const GenericRow> generic_arguments() { return kGenericRows; }

const GenericRow* find_generic_argument(std::string_view name) {
  for (const GenericRow& row : kGenericRows)
    if (row.option.name == name) return &row;
  return nullptr;
}

}  // namespace multifora
