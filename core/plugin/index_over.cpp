#include "core/plugin/index_over.h"

#include <algorithm>

#include "core/bson/builder.h"
#include "core/plugin/host.h"

namespace multifora {
namespace {

// A specification that an ordered kind is sure to take.
OwnedDocument plain_spec(DocumentView pattern, std::string_view name) {
  DocumentBuilder spec;
  spec.append("v", std::int32_t{2});
  spec.append("key", pattern);
  spec.append("name", name);
  return std::move(spec).finish();
}

}  // namespace

Result<const IndexKind*> find_ordered_kind(const PluginHost& host, std::string_view what) {
  DocumentBuilder pattern;
  pattern.append("a", std::int32_t{1});
  const OwnedDocument key = std::move(pattern).finish();
  const OwnedDocument spec = plain_spec(key.view(), "a_1");
  const IndexKind* best = nullptr;
  int best_claim = 0;
  for (const IndexKind* kind : host.index_kinds()) {
    const int claim = kind->claims(spec.view());
    if (claim <= best_claim || (kind->capabilities & kIndexRange) == 0) continue;
    best = kind;
    best_claim = claim;
  }
  if (best == nullptr)
    return fail(ErrorCode::kCannotCreateIndex,
                std::string(what) + " indexes need an ordered index kind; load the plugin index-btree");
  return best;
}

Result<std::unique_ptr<Index>> IndexOver::open_inner(const PluginHost& host, Pager& pager,
                                                     const IndexSpec& spec, DocumentView pattern,
                                                     const IndexState& state,
                                                     std::string_view what) {
  MULTIFORA_ASSIGN_R(const IndexKind* kind, find_ordered_kind(host, what));
  IndexSpec plain;
  plain.spec = plain_spec(pattern, spec.name);
  plain.ns = spec.ns;
  plain.owner = spec.owner;
  plain.name = spec.name;
  plain.key_pattern = OwnedDocument(pattern);
  return kind->open(host, pager, std::move(plain), state);
}

void sort_index_keys(IndexKeySet& keys) {
  if (keys.keys.size() < 2) return;
  std::sort(keys.keys.begin(), keys.keys.end(),
            [](const IndexKey& a, const IndexKey& b) { return a.key < b.key; });
  const auto last = std::unique(keys.keys.begin(), keys.keys.end(),
                                [](const IndexKey& a, const IndexKey& b) { return a.key == b.key; });
  keys.keys.erase(last, keys.keys.end());
}

}  // namespace multifora
