#include "plugins/query-engine/index_filters.h"

#include <algorithm>

#include "core/bson/compare.h"
#include "plugins/query-engine/read_source.h"

namespace multifora {
namespace {

// Parts end with a byte that no name has.
void append_part(std::string_view part, std::string& out) {
  out += part;
  out += '\0';
}

void append_node(const MatchNode& node, std::string& out) {
  out += static_cast<char>('A' + static_cast<int>(node.kind()));
  append_part(node.path(), out);
  // The order of conditions is no part of the shape, nor are the members of an $in.
  if (node.kind() == MatchKind::kIn) return;
  std::vector<std::string> children;
  for (const MatchNode::Ptr& child : node.children()) append_node(*child, children.emplace_back());
  if (node.kind() == MatchKind::kAnd || node.kind() == MatchKind::kOr ||
      node.kind() == MatchKind::kNor)
    std::sort(children.begin(), children.end());
  out += '(';
  for (const std::string& child : children) out += child;
  out += ')';
}

}  // namespace

bool IndexFilter::allows(std::string_view name, DocumentView pattern) const {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& allowed) { return allowed == name; }) ||
         std::any_of(patterns.begin(), patterns.end(), [&](const OwnedDocument& allowed) {
           return compare_documents(allowed.view(), pattern) == 0;
         });
}

std::string query_shape(const MatchNode& filter, DocumentView sort, DocumentView projection,
                        DocumentView collation) {
  std::string shape;
  append_node(filter, shape);
  for (const DocumentView part : {sort, projection, collation}) shape += part.bytes();
  return shape;
}

void IndexFilters::set(CollectionId collection, std::string shape, IndexFilter filter) {
  const std::lock_guard lock(mutex_);
  filters_[collection][std::move(shape)] = std::make_shared<const IndexFilter>(std::move(filter));
  any_ = true;
}

void IndexFilters::clear(CollectionId collection) {
  const std::lock_guard lock(mutex_);
  filters_.erase(collection);
}

void IndexFilters::clear(CollectionId collection, const std::string& shape) {
  const std::lock_guard lock(mutex_);
  const auto at = filters_.find(collection);
  if (at == filters_.end()) return;
  at->second.erase(shape);
  if (at->second.empty()) filters_.erase(at);
}

std::vector<std::shared_ptr<const IndexFilter>> IndexFilters::list(CollectionId collection) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const IndexFilter>> all;
  if (const auto at = filters_.find(collection); at != filters_.end())
    for (const auto& [shape, filter] : at->second) all.push_back(filter);
  return all;
}

std::shared_ptr<const IndexFilter> IndexFilters::find(CollectionId collection,
                                                      const CompiledQuery& query) const {
  if (!any_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto at = filters_.find(collection);
  if (at == filters_.end()) return nullptr;
  const QueryArguments& arguments = query.arguments();
  const auto filter = at->second.find(query_shape(query.matcher().root(), arguments.sort,
                                                  arguments.projection, query.collation_spec()));
  return filter == at->second.end() ? nullptr : filter->second;
}

}  // namespace multifora
