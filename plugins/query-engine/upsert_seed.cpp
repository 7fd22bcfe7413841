// The document that an upsert starts from: what the filter says about equality.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/bson/compare.h"
#include "plugins/query-engine/match_node.h"
#include "plugins/query-engine/update.h"

namespace multifora {

namespace {

struct Equality {
  std::string_view path;
  ValueView value;
};
using Equalities = std::vector<Equality>;

bool is_prefix(std::string_view outer, std::string_view inner) {
  return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '.';
}

Status add_equality(Equalities& found, std::string_view path, const ValueView& value) {
  for (const Equality& other : found) {
    if (other.path == path)
      return Status(ErrorCode::kNotSingleValueField,
                    fmt::format("cannot infer query fields to set, path '{}' is matched twice",
                                path));
    if (is_prefix(other.path, path) || is_prefix(path, other.path))
      return Status(ErrorCode::kNotSingleValueField,
                    fmt::format("cannot infer query fields to set, both paths '{}' and '{}' are "
                                "matched",
                                other.path, path));
  }
  found.push_back({path, value});
  return {};
}

Status collect(const MatchNode& node, Equalities& found) {
  switch (node.kind()) {
    case MatchKind::kEq:
      return add_equality(found, node.path(), node.operand());
    case MatchKind::kIn: {
      const auto& in = static_cast<const InNode&>(node);
      if (in.values().size() != 1 || !in.children().empty()) return {};
      return add_equality(found, node.path(), in.values().front());
    }
    case MatchKind::kAnd:
      for (const MatchNode::Ptr& child : node.children()) MULTIFORA_TRY(collect(*child, found));
      return {};
    case MatchKind::kOr:
      if (node.children().size() == 1) return collect(*node.children()[0], found);
      return {};
    default:
      return {};
  }
}

// A document of these fields, those with a common first part nested in one.
void append_nested(const Equalities& list, DocumentBuilder& out) {
  std::vector<std::string_view> done;
  for (const Equality& equality : list) {
    const std::string_view name = equality.path.substr(0, equality.path.find('.'));
    if (std::ranges::find(done, name) != done.end()) continue;
    done.push_back(name);
    if (name.size() == equality.path.size()) {
      out.append(name, equality.value);
      continue;
    }
    Equalities inside;
    for (const Equality& other : list)
      if (is_prefix(name, other.path))
        inside.push_back({other.path.substr(name.size() + 1), other.value});
    DocumentBuilder nested = out.object(name);
    append_nested(inside, nested);
  }
}

}  // namespace

Result<OwnedDocument> upsert_seed(const Matcher& filter, bool replacement) {
  Equalities found;
  MULTIFORA_TRY_R(collect(filter.root(), found));
  if (replacement) std::erase_if(found, [](const Equality& e) { return e.path != "_id"; });
  // By name, as MongoDB's are; _id comes first.
  std::ranges::sort(found, {}, [](const Equality& e) {
    return std::pair(e.path != "_id" && !e.path.starts_with("_id."), e.path);
  });
  DocumentBuilder out;
  append_nested(found, out);
  return std::move(out).finish();
}

}  // namespace multifora
