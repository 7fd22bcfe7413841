// Registers the index kind "hashed".
#include "core/plugin/plugin.h"

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "plugins/index-hashed/hashed_index.h"

namespace multifora {
namespace {

constexpr std::string_view kWord = "hashed";

bool is_hashed(const Element& field) {
  return field.type() == BsonType::kString && field->as_string() == kWord;
}

// Every pattern with the word in it and nothing but directions beside it.
int claims(DocumentView spec) {
  if (!spec["expireAfterSeconds"].missing()) return 0;
  bool found = false;
  for (const Element& field : spec["key"].as_document()) {
    if (is_hashed(field))
      found = true;
    else if (!field->is_number() || field.name().find("$**") != std::string_view::npos)
      return 0;
  }
  return found ? 20 : 0;
}

Result<OwnedDocument> normalize(const PluginHost&, DocumentView spec) {
  const DocumentView key = spec["key"].as_document();
  std::size_t hashed = 0;
  for (const Element& field : key) hashed += is_hashed(field) ? 1 : 0;
  if (hashed > 1)
    return fail(location_code(31303),
                "A maximum of one index field is allowed to be hashed but found " +
                    std::to_string(hashed) + " for 'key' " + to_extended_json(key));
  if (spec["unique"].truthy() || spec["prepareUnique"].truthy())
    return fail(location_code(16764),
                "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.");
  if (!spec["wildcardProjection"].missing())
    return fail(ErrorCode::kBadValue,
                "The field 'wildcardProjection' is only allowed in a wildcard index");
  return OwnedDocument(spec);
}

// As many fields, all of them ordered: a hash is kept as an ascending number.
OwnedDocument inner_pattern(DocumentView key) {
  DocumentBuilder pattern;
  for (const Element& field : key) {
    if (is_hashed(field))
      pattern.append(field.name(), std::int32_t{1});
    else
      pattern.append(field);
  }
  return std::move(pattern).finish();
}

Result<std::unique_ptr<Index>> open(const PluginHost& host, Pager& pager, IndexSpec spec,
                                    const IndexState& state) {
  const OwnedDocument pattern = inner_pattern(spec.key_pattern.view());
  MULTIFORA_ASSIGN_R(auto inner,
                     IndexOver::open_inner(host, pager, spec, pattern.view(), state, kWord));
  return std::make_unique<HashedIndex>(std::move(spec), std::move(inner));
}

const IndexKind kHashed{kWord, kIndexEquality | kIndexCount, claims, normalize, open};

Status register_plugin(PluginHost& host) { return host.add_index_kind(&kHashed); }

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(index_hashed, "index-hashed", "1.0.0", multifora::register_plugin)
