// Registers the index kind "wildcard".
#include "core/plugin/plugin.h"

#include "core/bson/extended_json.h"
#include "plugins/index-wildcard/wildcard_index.h"

namespace multifora {
namespace {


// Every pattern with a wildcard term, so that what may not stand beside one is refused here; but not
// the wildcard of another kind ({"$**": "text"}).
int claims(DocumentView spec) {
  for (const Element& field : spec["key"].as_document())
    if (WildcardPattern::is_term(field.name()) && field->is_number()) return 30;
  return 0;
}

Status cannot_create(std::string message) {
  return {ErrorCode::kCannotCreateIndex, std::move(message)};
}

Status check_options(DocumentView spec) {
  for (const std::string_view option : {"sparse", "unique", "prepareUnique"})
    if (spec[option].truthy())
      return cannot_create("Index type 'wildcard' does not support the " + std::string(option) +
                           " option");
  if (!spec["expireAfterSeconds"].missing())
    return cannot_create("Index type 'wildcard' does not support the expireAfterSeconds option");
  if (spec["v"].number_as_int64() < 2)
    return cannot_create("Index type 'wildcard' is not supported with index version v:1");
  return {};
}

Status check_key(DocumentView key) {
  std::size_t terms = 0;
  for (const Element& field : key) {
    if (WildcardPattern::is_term(field.name())) ++terms;
    if (!field->is_number())
      return cannot_create("wildcard indexes do not allow compounding with other special index types: " +
                           to_extended_json(key));
  }
  if (terms > 1)
    return cannot_create("wildcard indexes do not allow more than one wildcard term: " +
                         to_extended_json(key));
  return {};
}

DocumentView projection_of(DocumentView spec) {
  const ValueView projection = spec["wildcardProjection"];
  return projection.type() == BsonType::kObject ? projection.as_document() : DocumentView();
}

// The ordered fields may be no part of what the wildcard is about.
Status check_overlap(const WildcardPattern& pattern, const WildcardScope& scope, DocumentView key) {
  for (const auto* fields : {&pattern.before, &pattern.after})
    for (const WildcardPattern::Field& field : *fields)
      if (scope.at(field.path.dotted()) != WildcardScope::Verdict::kOutside)
        return cannot_create(
            "compound wildcard indexes do not allow a field both by its name and by the wildcard; "
            "leave '" + std::string(field.path.dotted()) +
            "' out with wildcardProjection: " + to_extended_json(key));
  return {};
}

Result<OwnedDocument> normalize(const PluginHost&, DocumentView spec) {
  const DocumentView key = spec["key"].as_document();
  MULTIFORA_TRY_R(check_options(spec));
  MULTIFORA_TRY_R(check_key(key));
  const WildcardPattern pattern = WildcardPattern::of(key);
  if (!spec["wildcardProjection"].missing()) {
    if (!pattern.root.empty())
      return fail(ErrorCode::kFailedToParse,
                  "The field 'wildcardProjection' is only allowed when 'key' has the wildcard term "
                  "'$**', not " + to_extended_json(key));
    if (projection_of(spec).empty())
      return fail(ErrorCode::kFailedToParse,
                  "The 'wildcardProjection' field can't be an empty object");
  }
  MULTIFORA_ASSIGN_R(const WildcardScope scope,
                     WildcardScope::make(pattern.root, projection_of(spec)));
  MULTIFORA_TRY_R(check_overlap(pattern, scope, key));
  return OwnedDocument(spec);
}

Result<std::unique_ptr<Index>> open(const PluginHost& host, Pager& pager, IndexSpec spec,
                                    const IndexState& state) {
  const OwnedDocument inner_pattern = wildcard_inner_pattern(spec.key_pattern.view());
  MULTIFORA_ASSIGN_R(auto inner, IndexOver::open_inner(host, pager, spec, inner_pattern.view(),
                                                       state, "wildcard"));
  const WildcardPattern pattern = WildcardPattern::of(spec.key_pattern.view());
  MULTIFORA_ASSIGN_R(WildcardScope scope,
                     WildcardScope::make(pattern.root, projection_of(spec.spec.view())));
  return std::make_unique<WildcardIndex>(std::move(spec), std::move(inner), std::move(scope));
}

constexpr std::uint32_t kCapabilities =
    kIndexEquality | kIndexRange | kIndexOrder | kIndexCount | kIndexPaths;
const IndexKind kWildcard{"wildcard", kCapabilities, claims, normalize, open};

Status register_plugin(PluginHost& host) { return host.add_index_kind(&kWildcard); }

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(index_wildcard, "index-wildcard", "1.0.0", multifora::register_plugin)
