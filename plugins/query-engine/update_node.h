// Internal to updates: operators on a path, merged into one tree that is walked with the document.
//
// Operators are rows, in one table a family (update_set.cpp, update_arithmetic.cpp, update_push.cpp,
// update_pull.cpp). A compiled tree is immutable; an UpdateState belongs to one apply.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/query-engine/update.h"

namespace multifora::update {

struct ArrayFilter {
  std::string identifier;
  std::unique_ptr<const Matcher> matcher;
};

struct UpdateState {
  const UpdateInput& input;
  EvalContext& context;
  const std::vector<ArrayFilter>& filters;
  std::vector<ValueView> renamed;       // by number of the $rename; missing: nothing to do
  std::vector<std::string_view> path;   // where the walk is, for messages
  Buffer scratch;                       // an array filter's {identifier: element}
  bool modified = false;                // counts as a change even where the bytes are the same

  std::string dotted_path() const;
  std::string describe_id() const;      // "{_id: 1}"
};

// What happens at the end of a path.
class Operator {
 public:
  virtual ~Operator() = default;
  // The new value, of a field that now has `current` (missing: it is not there). `current` itself
  // leaves it as it is; missing removes it.
  virtual Result<Value> apply(const ValueView& current, UpdateState& state) const = 0;
  // Does it make a field that is not there, and the objects on the way?
  virtual bool creates(const UpdateState&) const { return true; }
  // Has it changed some elements of `current`, and not the array as a whole?
  virtual bool changes_elements(const ValueView&) const { return false; }
  // Where a scalar stands on the way: nothing to do, or PathNotViable?
  virtual bool tolerates_scalars() const { return false; }
};

struct Node {
  struct Child {
    std::string name;  // a field, an index, "$", "$[]" or "$[identifier]"
    std::shared_ptr<const Node> node;
  };
  std::shared_ptr<const Operator> op;  // a leaf's; else null
  std::vector<Child> children;         // in the order in which new fields are made
  bool array_updates = false;          // the children are $[] and $[identifier]
  bool positional = false;             // a child is $

  const Node* find(std::string_view name) const;
};

// Orders field names as updates make them: numbers by value, then everything else as text.
bool name_less(std::string_view a, std::string_view b);

// What the operators' parse functions work with.
class Parser {
 public:
  Parser(const UpdateOptions& options, VariableScope& scope);
  Status parse(DocumentView spec, const std::vector<ArrayFilter>& filters);

  // Puts `op` at the end of `path`; ConflictingUpdateOperators where another is in the way.
  // `value_depth`: of documents inside what it writes.
  Status add(std::string_view path, std::shared_ptr<const Operator> op);
  void note_value(std::string_view path, const ValueView& value);

  MatcherOptions matcher_options() const;
  const Collator* collator() const { return options_.collator; }

  struct Rename {
    std::string from;
    std::string to;
  };
  std::size_t add_rename(std::string_view from, std::string_view to);
  std::vector<Rename> take_renames() { return std::move(renames_); }
  std::shared_ptr<const Node> root() const { return root_; }
  bool needs_match_details() const { return needs_match_details_; }
  // The result may be nested deeper than what it was made from.
  bool may_nest_deeply() const { return may_nest_deeply_; }

 private:
  Status check_path(std::string_view path);
  Node& child_of(Node& node, std::string_view name);
  Status check_filters_used(DocumentView spec) const;

  const UpdateOptions& options_;
  VariableScope& scope_;
  const std::vector<ArrayFilter>* filters_ = nullptr;
  std::vector<std::string> used_filters_;
  std::shared_ptr<Node> root_ = std::make_shared<Node>();
  // Children by parent and name: while parsing they are in the order in which they came.
  std::map<std::pair<const Node*, std::string>, Node*> made_;
  std::vector<Rename> renames_;
  bool needs_match_details_ = false;
  bool may_nest_deeply_ = false;
};

struct OperatorRow {
  std::string_view name;
  // `field`: one member of the operator's document, path and argument.
  Status (*parse)(Parser& parser, const Element& field);
};
std::span<const OperatorRow> set_rows();
std::span<const OperatorRow> arithmetic_rows();
std::span<const OperatorRow> push_rows();
std::span<const OperatorRow> pull_rows();

// Walks `root` and the document together. Appends the new document to `out`.
Status apply_tree(const Node& root, DocumentView document, UpdateState& state, Buffer& out);
// Two nodes that fall on one field: ConflictingUpdateOperators where either is a leaf.
Result<std::shared_ptr<const Node>> merge(const std::shared_ptr<const Node>& a,
                                          const std::shared_ptr<const Node>& b,
                                          const UpdateState& state);

Result<std::vector<ArrayFilter>> parse_array_filters(DocumentView filters,
                                                     const MatcherOptions& options);

Result<std::unique_ptr<const Update>> compile_pipeline(DocumentView stages,
                                                       const UpdateOptions& options,
                                                       VariableScope& scope);

// Checks every kind of update ends with: the document's size, its depth where asked, and that _id
// stayed as it was (a replacement may write the same number as another type). `start`: where the
// document begins in `out`.
struct ResultChecks {
  bool depth = true;
  bool exact_id = true;
};
Status check_result(const UpdateInput& input, ResultChecks checks, Buffer& out, std::size_t start);
// Levels of documents inside each other, this one counted.
std::size_t depth_of(DocumentView document);

std::string describe(const Element& element);
std::string describe(const ValueView& value);

}  // namespace multifora::update
