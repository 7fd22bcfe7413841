// Internal to the projection: the tree that a specification is parsed to, and how it runs.
//
// A node stands for an object on the way; its children, in the order given, are nodes or leaves.
// Everything is immutable after parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/query-engine/projection.h"

namespace multifora::projection {

struct Leaf {
  enum class Kind : std::uint8_t {
    kInclude,
    kExclude,
    kExpression,
    kSlice,       // find's {$slice: n} or {$slice: [skip, limit]}
    kElemMatch,   // find's {$elemMatch: {...}}
    kPositional,  // find's "a.$": 1
  };
  Kind kind = Kind::kInclude;
  std::unique_ptr<Expression> expression;
  std::unique_ptr<const Matcher> elem_match;  // {field: {$elemMatch: ...}}
  // kSlice: `skip` below 0 counts from the end; a negative `limit` (without skip) takes the last.
  bool has_skip = false;
  std::int64_t skip = 0;
  std::int64_t limit = 0;

  // Does it make the field anew, at the end of an inclusion?
  bool computes() const { return kind == Kind::kExpression || kind == Kind::kElemMatch; }
};

struct Node {
  struct Child {
    std::string name;
    std::unique_ptr<Node> node;  // one of the two
    std::unique_ptr<Leaf> leaf;
  };
  std::vector<Child> children;  // changed by add and erase only
  bool computes = false;    // some leaf below does
  bool positional = false;  // some leaf below is one

  int find(std::string_view name) const;
  Child& add(Child child);
  void erase(int at);

 private:
  void fill_places();
  // Where each name is, once there are many.
  std::unordered_map<std::string, int> places_;
};

// Runs a tree on one document.
class Runner {
 public:
  // `keep_others`: fields that the tree does not name stay (exclusion, $addFields).
  Runner(bool keep_others, const ProjectionInput& input, EvalContext& context)
      : keep_others_(keep_others), input_(input), context_(context) {}
  Status run(const Node& root, DocumentBuilder& out);

 private:
  // `pick`: the positional operator has not yet met its array.
  Status apply_document(const Node& node, DocumentView document, bool pick, DocumentBuilder& out);
  Status apply_child(const Node::Child& child, const Element& element, bool pick,
                     DocumentBuilder& out, bool& done);
  Status apply_leaf(const Node::Child& child, const Element& element, bool pick,
                    DocumentBuilder& out, bool& done);
  Status apply_node(const Node& node, const Element& element, bool pick, DocumentBuilder& out);
  Status apply_array(const Node& node, DocumentView array, bool pick, ArrayBuilder& out);
  Status compute(const Node::Child& child, DocumentBuilder& out);
  Status compute_leaf(const Node::Child& child, DocumentBuilder& out);
  Status append_picked(const Element& element, DocumentBuilder& out);
  Result<ValueView> picked(DocumentView array);

  bool keep_others_;
  const ProjectionInput& input_;
  EvalContext& context_;
};

// The elements that find's $slice keeps.
void append_slice(const Leaf& slice, DocumentView array, ArrayBuilder& out);

}  // namespace multifora::projection
