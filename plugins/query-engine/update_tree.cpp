// Merges operators into a tree of paths, and walks it with the document.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/limits.h"
#include "core/bson/path.h"
#include "plugins/query-engine/update_node.h"

namespace multifora::update {

namespace {

// As MongoDB: how far past its end an array may be written.
constexpr std::int64_t kPaddingMax = 1'500'000;

bool is_digits(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

// The index that `name` is, or -1. Leading zeros are of no account.
std::int64_t index_of(std::string_view name) {
  if (!is_digits(name) || name.size() > 9) return -1;
  std::int64_t index = 0;
  for (const char c : name) index = index * 10 + (c - '0');
  return index;
}

class Walk {
 public:
  explicit Walk(UpdateState& state) : state_(state) {}

  Status object(const Node& given, DocumentView document, DocumentBuilder& out) {
    std::shared_ptr<const Node> resolved;
    MULTIFORA_ASSIGN(const Node* node, resolve(given, resolved));
    if (node->array_updates) return not_an_array(as_value(document));
    std::vector<bool> seen(node->children.size());
    for (const Element& element : document) {
      const Node* child = node->find(element.name());
      if (child == nullptr) {
        out.append(element);
        continue;
      }
      seen[index_in(*node, element.name())] = true;
      MULTIFORA_TRY(field(*child, element.name(), element.value(), out));
    }
    for (std::size_t i = 0; i < node->children.size(); ++i) {
      if (seen[i] || !creates(*node->children[i].node)) continue;
      MULTIFORA_TRY(field(*node->children[i].node, node->children[i].name, {}, out));
    }
    return {};
  }

 private:
  static std::size_t index_in(const Node& node, std::string_view name) {
    return static_cast<std::size_t>(
        std::ranges::lower_bound(node.children, name, name_less, &Node::Child::name) -
        node.children.begin());
  }

  // The node with its $ child standing under the index that the query matched.
  Result<const Node*> resolve(const Node& node, std::shared_ptr<const Node>& keep) {
    if (!node.positional) return &node;
    const std::int64_t index = state_.input.match != nullptr ? state_.input.match->array_index : -1;
    if (index < 0)
      return fail(ErrorCode::kBadValue,
                  "The positional operator did not find the match needed from the query.");
    auto with_index = std::make_shared<Node>();
    auto rest = std::make_shared<Node>(node);
    const auto child = std::ranges::find(rest->children, "$", &Node::Child::name);
    with_index->children.push_back({std::to_string(index), child->node});
    rest->children.erase(child);
    rest->positional = false;
    MULTIFORA_ASSIGN_R(keep, merge(rest, with_index, state_));
    return keep.get();
  }

  bool creates(const Node& node) const {
    if (node.op != nullptr) return node.op->creates(state_);
    // $[] wants an array to be there: the walk will say so.
    return node.array_updates || std::ranges::any_of(node.children, [this](const auto& child) {
             return creates(*child.node);
           });
  }

  bool tolerates_scalars(const Node& node) const {
    if (node.op != nullptr) return node.op->tolerates_scalars() || !node.op->creates(state_);
    return std::ranges::all_of(
        node.children, [this](const auto& child) { return tolerates_scalars(*child.node); });
  }

  Status field(const Node& node, std::string_view name, const ValueView& current,
               DocumentBuilder& out, bool in_array = false) {
    state_.path.push_back(name);
    Status status = node.op != nullptr ? leaf(*node.op, name, current, out, in_array)
                                       : inner(node, name, current, out);
    if (status.ok()) state_.path.pop_back();
    return status;
  }

  // An array's element is not removed: the others would move. It becomes null.
  Status leaf(const Operator& op, std::string_view name, const ValueView& current,
              DocumentBuilder& out, bool in_array) {
    MULTIFORA_ASSIGN(const Value value, op.apply(current, state_));
    note_assigned(op, current, value);
    if (!value.missing())
      out.append(name, value.view());
    else if (in_array)
      out.append_null(name);
    return {};
  }

  // A difference looks into what stays an object or an array.
  void note_assigned(const Operator& op, const ValueView& current, const Value& value) {
    if (state_.input.assigned == nullptr || value.missing() || value.type() != current.type()) return;
    if (current.type() != BsonType::kObject && current.type() != BsonType::kArray) return;
    if (!op.changes_elements(current)) state_.input.assigned->push_back(state_.dotted_path());
  }

  Status inner(const Node& node, std::string_view name, const ValueView& current,
               DocumentBuilder& out) {
    switch (current.type()) {
      case BsonType::kObject: {
        DocumentBuilder inside = out.object(name);
        return object(node, current.as_document(), inside);
      }
      case BsonType::kArray: {
        ArrayBuilder inside = out.array(name);
        return array(node, current.as_document(), inside);
      }
      case BsonType::kEOO: {
        if (node.array_updates)
          return Status(ErrorCode::kBadValue,
                        fmt::format("The path '{}' must exist in the document in order to apply "
                                    "array updates.",
                                    state_.dotted_path()));
        DocumentBuilder inside = out.object(name);
        return object(node, DocumentView(), inside);
      }
      default:
        if (node.array_updates) return not_an_array(current);
        if (!tolerates_scalars(node)) return not_viable(first_name(node), name, current);
        out.append(name, current);
        return {};
    }
  }

  static std::string_view first_name(const Node& node) {
    return node.children.empty() ? std::string_view() : node.children.front().name;
  }

  Status not_viable(std::string_view child, std::string_view name, const ValueView& value) const {
    return Status(ErrorCode::kPathNotViable,
                  fmt::format("Cannot create field '{}' in element {{{}: {}}}", child, name,
                              describe(value)));
  }
  Status not_an_array(const ValueView& value) const {
    return Status(ErrorCode::kBadValue,
                  fmt::format("Cannot apply array updates to non-array element {}: {}",
                              state_.path.empty() ? std::string_view() : state_.path.back(),
                              describe(value)));
  }

  // ---- Arrays ----

  Status array(const Node& given, DocumentView elements, ArrayBuilder& out) {
    std::shared_ptr<const Node> resolved;
    MULTIFORA_ASSIGN(const Node* node, resolve(given, resolved));
    MULTIFORA_TRY(check_names(*node, elements));
    std::int64_t index = 0;
    for (const Element& element : elements) {
      MULTIFORA_ASSIGN(const auto child, node_for(*node, index, element.value()));
      ++index;
      if (child == nullptr) {
        out.append(element.value());
        continue;
      }
      const std::string_view name = out.next_name();
      MULTIFORA_TRY(field(*child, name, element.value(), out.raw(), true));
    }
    return node->array_updates ? Status() : extend(*node, index, out);
  }

  Status check_names(const Node& node, DocumentView elements) const {
    if (node.array_updates) return {};
    for (const Node::Child& child : node.children)
      if (index_of(child.name) < 0 && !tolerates_scalars(*child.node))
        return not_viable(child.name, state_.path.empty() ? "" : state_.path.back(),
                          as_value(elements, BsonType::kArray));
    return {};
  }

  // Everything that applies to one element, as one node; null: nothing does.
  Result<std::shared_ptr<const Node>> node_for(const Node& node, std::int64_t index,
                                               const ValueView& element) {
    std::shared_ptr<const Node> found;
    for (const Node::Child& child : node.children) {
      MULTIFORA_ASSIGN_R(const bool applies, node.array_updates
                                                 ? filter_matches(child.name, element)
                                                 : Result<bool>(index_of(child.name) == index));
      if (!applies) continue;
      if (found == nullptr) {
        found = child.node;
      } else {
        MULTIFORA_ASSIGN_R(found, merge(found, child.node, state_));
      }
    }
    return found;
  }

  Result<bool> filter_matches(std::string_view name, const ValueView& element) {
    const std::string_view identifier = name.substr(2, name.size() - 3);
    if (identifier.empty()) return true;
    for (const ArrayFilter& filter : state_.filters) {
      if (filter.identifier != identifier) continue;
      state_.scratch.clear();
      {
        DocumentBuilder wrapped(&state_.scratch);
        wrapped.append(identifier, element);
      }
      return filter.matcher->matches(DocumentView::assume_valid(Bytes(state_.scratch)),
                                     &state_.context);
    }
    return false;
  }

  // Elements past the end, with nulls in between. Children come in the order of their numbers.
  Status extend(const Node& node, std::int64_t size, ArrayBuilder& out) {
    for (const Node::Child& child : node.children) {
      const std::int64_t index = index_of(child.name);
      if (index < size || !creates(*child.node)) continue;
      if (index - size > kPaddingMax)
        return Status(ErrorCode::kCannotBackfillArray,
                      fmt::format("Updates can only add up to {} elements to an array at a time",
                                  kPaddingMax));
      for (; size < index; ++size) out.append_null();
      ++size;
      const std::string_view name = out.next_name();
      MULTIFORA_TRY(field(*child.node, name, {}, out.raw(), true));
    }
    return {};
  }

  UpdateState& state_;
};

}  // namespace

const Node* Node::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(children, name, name_less, &Child::name);
  return at != children.end() && at->name == name ? at->node.get() : nullptr;
}

bool name_less(std::string_view a, std::string_view b) {
  const bool number = is_digits(a);
  if (number != is_digits(b)) return number;
  if (number) {
    const auto strip = [](std::string_view text) {
      const std::size_t at = text.find_first_not_of('0');
      return at == std::string_view::npos ? std::string_view() : text.substr(at);
    };
    const std::string_view x = strip(a);
    const std::string_view y = strip(b);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  return a < b;
}

Result<std::shared_ptr<const Node>> merge(const std::shared_ptr<const Node>& a,
                                          const std::shared_ptr<const Node>& b,
                                          const UpdateState& state) {
  if (a->op != nullptr || b->op != nullptr || a->array_updates != b->array_updates)
    return fail(ErrorCode::kConflictingUpdateOperators,
                fmt::format("Update created a conflict at '{}'", state.dotted_path()));
  auto merged = std::make_shared<Node>(*a);
  merged->positional |= b->positional;
  for (const Node::Child& child : b->children) {
    const auto at =
        std::ranges::lower_bound(merged->children, child.name, name_less, &Node::Child::name);
    if (at == merged->children.end() || at->name != child.name) {
      merged->children.insert(at, child);
    } else {
      MULTIFORA_ASSIGN_R(at->node, merge(at->node, child.node, state));
    }
  }
  return merged;
}

Status apply_tree(const Node& root, DocumentView document, UpdateState& state, Buffer& out) {
  DocumentBuilder builder(&out);
  return Walk(state).object(root, document, builder);
}

std::string UpdateState::dotted_path() const {
  return fmt::format("{}", fmt::join(path, "."));
}

std::string UpdateState::describe_id() const {
  const ValueView id = input.document["_id"];
  return id.missing() ? "{no id}" : fmt::format("{{_id: {}}}", describe(id));
}

}  // namespace multifora::update
