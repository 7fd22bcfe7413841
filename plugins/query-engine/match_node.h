// The compiled filter as a tree, for the planner (bounds) and for explain.
//
// $ne and $nin are kNot over kEq and kIn; $all is kAnd of kEq, kRegex and $elemMatch; a field with
// several operators is several children of the kAnd around it. Nodes view the filter's bytes, which
// the Matcher owns, and are immutable: any thread may use them, each with a MatchState of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/bson/builder.h"
#include "core/bson/collator.h"
#include "core/bson/path.h"
#include "core/bson/view.h"
#include "plugins/query-engine/matcher.h"
#include "plugins/query-engine/regex.h"

namespace multifora {

enum class MatchKind : std::uint8_t {
  kAnd,  // no children: always true
  kOr,
  kNor,
  kNot,  // one child
  kAlwaysTrue,
  kAlwaysFalse,
  kEq,
  kLt,
  kLte,
  kGt,
  kGte,
  kIn,
  kRegex,
  kExists,  // with false it is kNot over kExists
  kType,
  kMod,
  kSize,
  kBits,
  kElemMatchObject,  // one child, a filter on each element
  kElemMatchValue,   // children are predicates on the element itself, all of which must hold
  kExpr,
  kJsonSchema,
  kSampleRate,
};

// What one match needs and reports. A failure ($expr, a regex past its limits, the end of the
// command's time) is kept in `error` and makes whatever was returned meaningless.
struct MatchState {
  EvalContext* context = nullptr;
  MatchDetails* details = nullptr;
  Status error;

  // Nodes that ask many predicates, or about many elements, ask this now and then: whether to stop.
  // `bytes`: what one of them may look at.
  bool stopped(std::size_t bytes);
};

class MatchNode {
 public:
  using Ptr = std::unique_ptr<MatchNode>;

  virtual ~MatchNode() = default;
  MatchNode(const MatchNode&) = delete;
  MatchNode& operator=(const MatchNode&) = delete;

  MatchKind kind() const { return kind_; }
  // Empty for nodes that apply to the whole document (or to the element of a kElemMatchValue).
  std::string_view path() const { return path_.dotted(); }
  const FieldPath& field_path() const { return path_; }
  // The operator as the user writes it: "$gt".
  std::string_view operator_name() const { return name_; }
  // Its argument as given; missing for logical nodes.
  const ValueView& operand() const { return operand_; }
  const std::vector<Ptr>& children() const { return children_; }

  virtual bool matches(DocumentView document, MatchState& state) const = 0;
  // The predicate on one value, without going into arrays on the way: what $elemMatch and $pull ask.
  virtual bool matches_value(const ValueView& value, MatchState& state) const = 0;

  // As explain's parsedQuery shows it: fields of a document.
  virtual void append_to(DocumentBuilder& out) const;
  // Only "{operator: operand}" inside the path's document.
  virtual void append_predicate(DocumentBuilder& out) const;
  // Paths of the document that it reads; false: all of it.
  virtual bool add_dependencies(std::vector<std::string>& paths) const;

 protected:
  MatchNode(MatchKind kind, std::string_view name) : kind_(kind), name_(name) {}
  MatchKind kind_;
  std::string_view name_;
  FieldPath path_;
  ValueView operand_;
  std::vector<Ptr> children_;
};

// A predicate on the values at a path. `expand_last`: elements of an array at its end count too.
class PathNode : public MatchNode {
 public:
  bool matches(DocumentView document, MatchState& state) const final;
  bool expand_last() const { return expand_last_; }

 protected:
  PathNode(MatchKind kind, std::string_view name, std::string_view path, const ValueView& operand,
           bool expand_last);

 private:
  bool expand_last_;
};

// kEq kLt kLte kGt kGte.
class CompareNode final : public PathNode {
 public:
  CompareNode(MatchKind kind, std::string_view path, const ValueView& operand,
              const Collator* collator);
  bool matches_value(const ValueView& value, MatchState& state) const override;
  const Collator* collator() const { return collator_; }

 private:
  bool matches_other_bracket(const ValueView& value) const;
  const Collator* collator_;
  int bracket_;
  bool operand_nan_;
};

// values(): the plain members, sorted by the collator's order, without duplicates. Regexes are
// children().
class InNode final : public PathNode {
 public:
  InNode(std::string_view path, const ValueView& operand, const Collator* collator);
  void add_regex(Ptr regex) { children_.push_back(std::move(regex)); }
  void add_value(const ValueView& value) { values_.push_back(value); }
  void sort_values();

  const std::vector<ValueView>& values() const { return values_; }
  const Collator* collator() const { return collator_; }
  bool matches_value(const ValueView& value, MatchState& state) const override;

 private:
  bool contains(const ValueView& value) const;
  std::vector<ValueView> values_;
  const Collator* collator_;
  bool has_null_ = false;
};

class RegexNode final : public PathNode {
 public:
  RegexNode(std::string_view path, const ValueView& operand, std::shared_ptr<const Regex> regex);
  const Regex& regex() const { return *regex_; }
  bool matches_value(const ValueView& value, MatchState& state) const override;
  void append_predicate(DocumentBuilder& out) const override;

 private:
  std::shared_ptr<const Regex> regex_;
};

// A set of BSON types.
class TypeSet {
 public:
  void add(BsonType type) { bits_ |= bit(type); }
  void add_numbers();
  bool contains(BsonType type) const { return (bits_ & bit(type)) != 0; }
  bool empty() const { return bits_ == 0; }

 private:
  static constexpr std::uint32_t bit(BsonType type) {
    return type == BsonType::kMinKey   ? 1u << 30
           : type == BsonType::kMaxKey ? 1u << 31
                                       : 1u << static_cast<int>(type);
  }
  std::uint32_t bits_ = 0;
};

class TypeNode final : public PathNode {
 public:
  TypeNode(std::string_view path, const ValueView& operand, TypeSet types);
  const TypeSet& types() const { return types_; }
  bool matches_value(const ValueView& value, MatchState& state) const override;

 private:
  TypeSet types_;
};

}  // namespace multifora
