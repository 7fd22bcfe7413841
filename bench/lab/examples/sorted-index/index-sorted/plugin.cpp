// Registers the index kind "sorted".
#include "core/plugin/plugin.h"

#include "sorted_index.h"

namespace multifora {
namespace {

// Patterns of one top-level field, below the rank of the stock ordered kind: where both are linked, that
// one is used. Not of documents that expire, and not of all fields ("$**").
int claims(DocumentView spec) {
  if (!spec["expireAfterSeconds"].missing()) return 0;
  const DocumentView pattern = spec["key"].as_document();
  if (pattern.count() != 1) return 0;
  const Element field = pattern.first();
  const bool plain = field.name().find('.') == std::string_view::npos && !field.name().starts_with('$');
  return field->is_number() && plain ? 6 : 0;
}

Result<OwnedDocument> normalize(const PluginHost&, DocumentView spec) {
  if (!spec["wildcardProjection"].missing())
    return fail(ErrorCode::kBadValue,
                "The field 'wildcardProjection' is only allowed in a wildcard index");
  return OwnedDocument(spec);
}

Result<std::unique_ptr<Index>> open(const PluginHost&, Pager& pager, IndexSpec spec,
                                    const IndexState& state) {
  return open_sorted_index(pager, std::move(spec), state);
}

const IndexKind kSorted{"sorted", kSortedCapabilities, claims, normalize, open};

Status register_plugin(PluginHost& host) { return host.add_index_kind(&kSorted); }

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(index_sorted, "index-sorted", "1.0.0", multifora::register_plugin)
