// Index filters (planCacheSetFilter): for queries of one shape on one collection, the only indexes
// that the planner may look at. They live in memory and end with the process; those of a dropped
// collection are forgotten. A service of the PluginHost; any thread.
//
// A query's shape is its filter without the values, its sort, its projection and its collation.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/bson/view.h"
#include "core/storage/types.h"

namespace multifora {

class CompiledQuery;
class MatchNode;

struct IndexFilter {
  OwnedDocument query, sort, projection, collation;  // as they were given
  std::vector<OwnedDocument> patterns;               // of the allowed indexes
  std::vector<std::string> names;
  // In the order given: {"": pattern or name}.
  OwnedDocument indexes;
  bool allows(std::string_view name, DocumentView pattern) const;
};

// Two queries with one result have the same shape.
std::string query_shape(const MatchNode& filter, DocumentView sort, DocumentView projection,
                        DocumentView collation);

class IndexFilters {
 public:
  // Takes the place of one of the same shape.
  void set(CollectionId collection, std::string shape, IndexFilter filter);
  void clear(CollectionId collection);
  void clear(CollectionId collection, const std::string& shape);
  std::vector<std::shared_ptr<const IndexFilter>> list(CollectionId collection) const;
  // Null: any index. Cheap where no filter was ever set.
  std::shared_ptr<const IndexFilter> find(CollectionId collection, const CompiledQuery& query) const;

 private:
  using Shapes = std::map<std::string, std::shared_ptr<const IndexFilter>>;
  mutable std::mutex mutex_;
  std::map<CollectionId, Shapes> filters_;
  std::atomic<bool> any_{false};
};

}  // namespace multifora
