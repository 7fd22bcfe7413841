// Stages that need what this server does not have: each answers as MongoDB does where the feature is
// not there.
#include <fmt/format.h>

#include "plugins/query-engine/stage.h"

namespace multifora {
namespace {

constexpr int kSearchNotEnabled = 31082;

Status no_search(const StageRow& row, const ValueView&, PipelineContext&, StageList&) {
  return {location_code(kSearchNotEnabled),
          fmt::format("Using Atlas Search Database Commands and the {} aggregation stage requires additional configuration. "
                      "Please connect to Atlas or an AtlasCLI local deployment to enable.", row.name)};
}

Status no_geo_index(const StageRow&, const ValueView& spec, PipelineContext&, StageList&) {
  if (spec.type() != BsonType::kObject)
    return {location_code(10065), "$geoNear requires an object"};
  return {ErrorCode::kIndexNotFound, "$geoNear requires a 2d or 2dsphere index, but none were found"};
}

Status no_sharding(const StageRow& row, const ValueView&, PipelineContext&, StageList&) {
  return {location_code(6789101), fmt::format("The {} stage can only be run on mongoS", row.name)};
}

constexpr StageRow kRows[] = {
    {"$geoNear", no_geo_index, kMustBeFirst | kNotInFacet},
    {"$listSampledQueries", no_sharding, kMustBeFirst | kNotInFacet},
    {"$listSearchIndexes", no_search, kMustBeFirst | kNotInFacet},
    {"$rankFusion", no_search, kMustBeFirst | kNotInFacet},
    {"$rerank", no_search},
    {"$score", no_search},
    {"$scoreFusion", no_search, kMustBeFirst | kNotInFacet},
    {"$search", no_search, kMustBeFirst | kNotInFacet},
    {"$searchMeta", no_search, kMustBeFirst | kNotInFacet},
    {"$shardedDataDistribution", no_sharding, kMustBeFirst | kNotInFacet},
    {"$vectorSearch", no_search, kMustBeFirst | kNotInFacet},
};

}  // namespace

std::span<const StageRow> unsupported_stages() { return kRows; }

}  // namespace multifora
