// Runs a projection's tree over a document's bytes.
#include <algorithm>
#include <bitset>

#include "core/base/limits.h"
#include "plugins/query-engine/projection_node.h"

namespace multifora::projection {

namespace {

// Which children were dealt with in place. Few in all but odd cases, so bits come first.
class Seen {
 public:
  explicit Seen(std::size_t count) {
    if (count > 64) many_.resize(count);
  }
  void set(std::size_t i) {
    if (many_.empty()) few_ |= std::uint64_t{1} << i;
    else many_[i] = true;
  }
  bool test(std::size_t i) const {
    return many_.empty() ? ((few_ >> i) & 1) != 0 : static_cast<bool>(many_[i]);
  }

 private:
  std::uint64_t few_ = 0;
  std::vector<bool> many_;
};

}  // namespace

constexpr std::size_t kFewChildren = 16;

Node::Child& Node::add(Child child) {
  children.push_back(std::move(child));
  if (!places_.empty())
    places_.emplace(children.back().name, static_cast<int>(children.size()) - 1);
  else if (children.size() > kFewChildren)
    fill_places();
  return children.back();
}

void Node::erase(int at) {
  children.erase(children.begin() + at);
  places_.clear();
  if (children.size() > kFewChildren) fill_places();
}

void Node::fill_places() {
  for (std::size_t i = 0; i < children.size(); ++i)
    places_.emplace(children[i].name, static_cast<int>(i));
}

int Node::find(std::string_view name) const {
  if (!places_.empty()) {
    const auto place = places_.find(std::string(name));
    return place == places_.end() ? -1 : place->second;
  }
  for (std::size_t i = 0; i < children.size(); ++i)
    if (children[i].name == name) return static_cast<int>(i);
  return -1;
}

void append_slice(const Leaf& slice, DocumentView array, ArrayBuilder& out) {
  const auto count = static_cast<std::int64_t>(array.count());
  std::int64_t begin = 0;
  std::int64_t end = count;
  if (slice.has_skip) {
    begin = slice.skip < 0 ? std::max<std::int64_t>(0, count + slice.skip)
                           : std::min(slice.skip, count);
    end = begin + std::min(slice.limit, count - begin);
  } else if (slice.limit >= 0) {
    end = std::min(slice.limit, count);
  } else {
    begin = std::max<std::int64_t>(0, count + slice.limit);
  }
  std::int64_t index = 0;
  for (const Element& element : array) {
    if (index >= end) break;
    if (index++ >= begin) out.append(element.value());
  }
}

Status Runner::run(const Node& root, DocumentBuilder& out) {
  return apply_document(root, input_.document, true, out);
}

Status Runner::apply_document(const Node& node, DocumentView document, bool pick,
                              DocumentBuilder& out) {
  Seen seen(node.children.size());
  for (const Element& element : document) {
    const int index = node.find(element.name());
    if (index < 0) {
      if (keep_others_) out.append(element);
      continue;
    }
    bool done = true;
    MULTIFORA_TRY(apply_child(node.children[static_cast<std::size_t>(index)], element, pick, out,
                              done));
    if (done) seen.set(static_cast<std::size_t>(index));
  }
  if (!node.computes) return {};
  for (std::size_t i = 0; i < node.children.size(); ++i)
    if (!seen.test(i)) MULTIFORA_TRY(compute(node.children[i], out));
  return {};
}

Status Runner::apply_child(const Node::Child& child, const Element& element, bool pick,
                           DocumentBuilder& out, bool& done) {
  if (child.node == nullptr) return apply_leaf(child, element, pick, out, done);
  return apply_node(*child.node, element, pick && child.node->positional, out);
}

Status Runner::apply_leaf(const Node::Child& child, const Element& element, bool pick,
                          DocumentBuilder& out, bool& done) {
  switch (child.leaf->kind) {
    case Leaf::Kind::kExclude:
      return {};
    case Leaf::Kind::kExpression:
    case Leaf::Kind::kElemMatch:
      // An inclusion puts what it computes behind what it keeps.
      if (keep_others_) return compute_leaf(child, out);
      done = false;
      return {};
    case Leaf::Kind::kSlice:
      if (element.type() == BsonType::kArray) {
        ArrayBuilder array = out.array(element.name());
        append_slice(*child.leaf, element->as_document(), array);
        return {};
      }
      break;
    case Leaf::Kind::kPositional:
      if (pick && element.type() == BsonType::kArray) return append_picked(element, out);
      break;
    case Leaf::Kind::kInclude:
      break;
  }
  out.append(element);
  return {};
}

Result<ValueView> Runner::picked(DocumentView array) {
  const std::int64_t index = input_.match != nullptr ? input_.match->array_index : -1;
  if (index < 0)
    return fail(location_code(51246), "positional operator '.$' couldn't find a matching element "
                                      "in the array");
  std::int64_t at = 0;
  for (const Element& element : array)
    if (at++ == index) return element.value();
  return fail(location_code(51247), "positional operator '.$' element mismatch");
}

Status Runner::append_picked(const Element& element, DocumentBuilder& out) {
  MULTIFORA_ASSIGN(const ValueView value, picked(element->as_document()));
  out.array(element.name()).append(value);
  return {};
}

Status Runner::apply_node(const Node& node, const Element& element, bool pick,
                          DocumentBuilder& out) {
  if (element.type() == BsonType::kObject) {
    DocumentBuilder inner = out.object(element.name());
    return apply_document(node, element->as_document(), pick, inner);
  }
  if (element.type() == BsonType::kArray) {
    ArrayBuilder inner = out.array(element.name());
    return apply_array(node, element->as_document(), pick, inner);
  }
  if (node.computes) {
    DocumentBuilder inner = out.object(element.name());
    return apply_document(node, DocumentView(), pick, inner);
  }
  if (keep_others_) out.append(element);
  return {};
}

Status Runner::apply_array(const Node& node, DocumentView array, bool pick, ArrayBuilder& out) {
  ValueView only;
  if (pick) {
    MULTIFORA_ASSIGN(only, picked(array));
  }
  for (const Element& element : array) {
    if (pick && element->data() != only.data()) continue;
    if (element.type() == BsonType::kObject) {
      DocumentBuilder inner = out.object();
      MULTIFORA_TRY(apply_document(node, element->as_document(), false, inner));
    } else if (element.type() == BsonType::kArray) {
      ArrayBuilder inner = out.array();
      MULTIFORA_TRY(apply_array(node, element->as_document(), false, inner));
    } else if (node.computes) {
      DocumentBuilder inner = out.object();
      MULTIFORA_TRY(apply_document(node, DocumentView(), false, inner));
    } else if (keep_others_) {
      out.append(element.value());
    }
  }
  return {};
}

Status Runner::compute(const Node::Child& child, DocumentBuilder& out) {
  if (child.leaf != nullptr) return child.leaf->computes() ? compute_leaf(child, out) : Status();
  if (!child.node->computes) return {};
  DocumentBuilder inner = out.object(child.name);
  return apply_document(*child.node, DocumentView(), false, inner);
}

Status Runner::compute_leaf(const Node::Child& child, DocumentBuilder& out) {
  if (child.leaf->kind == Leaf::Kind::kExpression) {
    MULTIFORA_ASSIGN(const Value value, child.leaf->expression->evaluate(context_));
    if (!value.missing()) out.append(child.name, value.view());
    return {};
  }
  MatchDetails details;
  MULTIFORA_ASSIGN(const bool found,
                   child.leaf->elem_match->matches(input_.document, &context_, &details));
  if (!found) return {};
  std::int64_t index = 0;
  for (const Element& element : input_.document[child.name].as_document()) {
    if (index++ != details.array_index) continue;
    out.array(child.name).append(element.value());
  }
  return {};
}

}  // namespace multifora::projection
