// Registers the ordered index kind "btree".
#include "core/plugin/plugin.h"

#include "plugins/index-btree/btree_index.h"

namespace multifora {
namespace {

constexpr std::uint32_t kCapabilities = kIndexEquality | kIndexRange | kIndexOrder | kIndexCovered |
                                        kIndexCount | kIndexUnique;

// Every pattern of directions only. Not of documents that expire: without the kind that sees to it,
// such an index must be refused, not made into one that keeps them.
int claims(DocumentView spec) {
  if (!spec["expireAfterSeconds"].missing()) return 0;
  for (const Element& field : spec["key"].as_document())
    if (!field->is_number() || field.name().find("$**") != std::string_view::npos) return 0;
  return 10;
}

Result<OwnedDocument> normalize(const PluginHost&, DocumentView spec) {
  if (!spec["wildcardProjection"].missing())
    return fail(ErrorCode::kBadValue,
                "The field 'wildcardProjection' is only allowed in a wildcard index");
  return OwnedDocument(spec);
}

Result<std::unique_ptr<Index>> open(const PluginHost&, Pager& pager, IndexSpec spec,
                                    const IndexState& state) {
  return std::make_unique<BtreeIndex>(pager, std::move(spec), kCapabilities, state);
}

const IndexKind kBtree{"btree", kCapabilities, claims, normalize, open};

Status register_plugin(PluginHost& host) { return host.add_index_kind(&kBtree); }

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(index_btree, "index-btree", "1.0.0", multifora::register_plugin)
