#include "plugins/index-wildcard/wildcard_scope.h"

#include <algorithm>

#include "core/bson/types.h"

namespace multifora {
namespace {

constexpr std::string_view kId = "_id";

// The leaves of a projection, "a.b" for {a: {b: 1}} too.
class ProjectionReader {
 public:
  Status read(DocumentView projection, const std::string& prefix) {
    for (const Element& field : projection) {
      const std::string path = prefix.empty() ? std::string(field.name())
                                              : prefix + "." + std::string(field.name());
      MULTIFORA_TRY(check_path(path));
      if (field.type() == BsonType::kObject) {
        if (field->as_document().empty())
          return {location_code(51270), "An empty sub-projection is not a valid value. Found empty "
                                        "object at path"};
        MULTIFORA_TRY(read(field->as_document(), path));
        continue;
      }
      if (field.type() != BsonType::kBool && !field->is_number())
        return {location_code(51271), "Bad projection specification, cannot use computed fields in a "
                                      "wildcard projection: '" + path + "'"};
      MULTIFORA_TRY(take(path, field->truthy()));
    }
    return {};
  }

  std::vector<std::string> included, excluded;
  bool id_given = false, id_included = false;

 private:
  static Status check_path(std::string_view path) {
    if (path.empty())
      return {location_code(51270), "FieldPath cannot be constructed with empty string"};
    std::size_t start = 0;
    while (start <= path.size()) {
      const std::size_t dot = std::min(path.find('.', start), path.size());
      const std::string_view part = path.substr(start, dot - start);
      if (part.empty())
        return {location_code(15998), "FieldPath field names may not be empty strings."};
      if (part.front() == '$')
        return {location_code(16410), "FieldPath field names may not start with '$'."};
      start = dot + 1;
    }
    return {};
  }

  Status take(const std::string& path, bool include) {
    if (path == kId) {
      id_given = true;
      id_included = include;
      return {};
    }
    if (include && !excluded.empty())
      return {location_code(31253),
              "Cannot do inclusion on field " + path + " in exclusion projection"};
    if (!include && !included.empty())
      return {location_code(31254),
              "Cannot do exclusion on field " + path + " in inclusion projection"};
    for (const std::vector<std::string>* list : {&included, &excluded})
      for (const std::string& other : *list)
        if (is_path_prefix(other, path) || is_path_prefix(path, other))
          return {location_code(31249), "Path collision at " + path};
    (include ? included : excluded).push_back(path);
    return {};
  }
};

bool any_prefix_of(const std::vector<std::string>& prefixes, std::string_view path) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& prefix) {
    return is_path_prefix(prefix, path);
  });
}

bool any_below(const std::vector<std::string>& paths, std::string_view prefix) {
  return std::any_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return is_path_prefix(prefix, path); });
}

}  // namespace

bool is_path_prefix(std::string_view prefix, std::string_view path) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '.');
}

Result<WildcardScope> WildcardScope::make(std::string_view root, DocumentView projection) {
  WildcardScope scope;
  if (!root.empty()) {
    scope.included_.emplace_back(root);
    return scope;
  }
  ProjectionReader reader;
  MULTIFORA_TRY_R(reader.read(projection, ""));
  scope.included_ = std::move(reader.included);
  scope.excluded_ = std::move(reader.excluded);
  // {_id: 1} alone includes nothing else; {_id: 0} alone excludes nothing else.
  const bool only_id = scope.included_.empty() && scope.excluded_.empty() && reader.id_included;
  if (reader.id_included && (only_id || !scope.included_.empty()))
    scope.included_.emplace_back(kId);
  else if (!reader.id_included && scope.included_.empty())
    scope.excluded_.emplace_back(kId);
  return scope;
}

WildcardScope::Verdict WildcardScope::at(std::string_view path) const {
  if (any_prefix_of(excluded_, path)) return Verdict::kOutside;
  if (included_.empty() || any_prefix_of(included_, path)) return Verdict::kInside;
  return any_below(included_, path) ? Verdict::kLeads : Verdict::kOutside;
}

bool WildcardScope::whole(std::string_view path) const {
  return at(path) == Verdict::kInside && !any_below(excluded_, path);
}

}  // namespace multifora
