// Internal to the matcher: the parser's state and the operator rows. Each family's file defines one
// table; matcher.cpp lists the tables.
#pragma once

#include <span>

#include "plugins/query-engine/match_node.h"

namespace multifora::match {

using NodePtr = MatchNode::Ptr;
using Nodes = std::vector<NodePtr>;

struct Parser {
  const MatcherOptions& options;
  VariableScope* scope;      // for $expr; never null
  bool top_level = true;     // of the whole document, not inside $elemMatch
  int depth = 0;
  bool uses_expr = false;    // set by $expr
};

// Operators where a field name could stand: {$and: [...]}. Appends what it means to `out`.
struct DocumentRow {
  std::string_view name;
  Status (*parse)(Parser& parser, const Element& element, Nodes& out);
};
// Operators on a path: {a: {$gt: 1}}. `all` is the document that the operator stands in.
struct PathRow {
  std::string_view name;
  Status (*parse)(Parser& parser, std::string_view path, const Element& element, DocumentView all,
                  Nodes& out);
};

std::span<const PathRow> compare_rows();
std::span<const PathRow> array_rows();
std::span<const PathRow> element_rows();
std::span<const PathRow> bits_rows();
std::span<const PathRow> regex_rows();
std::span<const PathRow> logic_path_rows();
std::span<const PathRow> unsupported_path_rows();
std::span<const DocumentRow> logic_rows();
std::span<const DocumentRow> document_rows();
std::span<const DocumentRow> unsupported_rows();
std::span<const DocumentRow> json_schema_rows();

// A filter document: all its fields, as nodes of an implicit $and.
Status parse_filter(Parser& parser, DocumentView filter, Nodes& out);
Result<NodePtr> parse_filter_node(Parser& parser, DocumentView filter);
// {$gt: 1, $lt: 5} on `path`.
Status parse_operators(Parser& parser, std::string_view path, DocumentView operators, Nodes& out);
// Is it a document of operators (its first name has a $, and it is no DBRef)?
bool is_operator_document(const ValueView& value);
// Equality, or a regex that is to match.
Status parse_implicit(Parser& parser, std::string_view path, const ValueView& value, Nodes& out);

// kAnd of the nodes; the node itself where there is one.
NodePtr make_and(Nodes nodes);
NodePtr make_logic(MatchKind kind, std::string_view name, Nodes children);
NodePtr make_not(NodePtr child);
NodePtr make_constant(bool value);
Result<NodePtr> make_equality(Parser& parser, std::string_view path, const ValueView& value);
Result<NodePtr> make_regex(std::string_view path, const ValueView& operand,
                           std::string_view pattern, std::string_view options);
// The types that $type's (or bsonType's) operand names.
Result<TypeSet> parse_types(std::string_view op, const ValueView& operand);

// "$gt: 5" for messages.
std::string describe(const Element& element);
std::string describe(const ValueView& value);

}  // namespace multifora::match
