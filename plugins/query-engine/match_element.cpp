// $exists $type $mod.
#include <fmt/format.h>

#include <cmath>

#include "plugins/query-engine/match_parse.h"

namespace multifora::match {

namespace {

class ExistsNode final : public PathNode {
 public:
  ExistsNode(std::string_view path, const ValueView& operand)
      : PathNode(MatchKind::kExists, "$exists", path, operand, true) {}
  bool matches_value(const ValueView& value, MatchState&) const override {
    return !value.missing();
  }
  void append_predicate(DocumentBuilder& out) const override { out.append("$exists", true); }
};

Status parse_exists(Parser&, std::string_view path, const Element& element, DocumentView,
                    Nodes& out) {
  NodePtr node = std::make_unique<ExistsNode>(path, element.value());
  out.push_back(element->truthy() ? std::move(node) : make_not(std::move(node)));
  return {};
}

// ---- $type ----

Status add_type(std::string_view op, const ValueView& value, TypeSet& types) {
  if (value.type() == BsonType::kString) {
    if (value.as_string() == "number") {
      types.add_numbers();
      return {};
    }
    const auto type = type_from_name(value.as_string());
    if (!type || *type == BsonType::kEOO)
      return Status(ErrorCode::kBadValue,
                    fmt::format("Unknown type name alias: {}", value.as_string()));
    types.add(*type);
    return {};
  }
  if (!value.is_number())
    return Status(ErrorCode::kTypeMismatch,
                  fmt::format("{} must be represented as a number or a string", op));
  std::int64_t code = 0;
  if (!value.exact_int64(&code) || code == 0 || code < -1 || code > 127 ||
      !is_valid_type(static_cast<int>(code)))
    return Status(ErrorCode::kBadValue,
                  fmt::format("Invalid numerical type code: {}", describe(value)));
  types.add(static_cast<BsonType>(code));
  return {};
}

Status parse_type(Parser&, std::string_view path, const Element& element, DocumentView,
                  Nodes& out) {
  MULTIFORA_ASSIGN(const TypeSet types, parse_types("type", element.value()));
  if (types.empty())
    return Status(ErrorCode::kFailedToParse, "$type must match at least one type");
  out.push_back(std::make_unique<TypeNode>(path, element.value(), types));
  return {};
}

// ---- $mod ----

class ModNode final : public PathNode {
 public:
  ModNode(std::string_view path, const ValueView& operand, std::int64_t divisor,
          std::int64_t remainder)
      : PathNode(MatchKind::kMod, "$mod", path, operand, true),
        divisor_(divisor),
        remainder_(remainder) {}

  bool matches_value(const ValueView& value, MatchState&) const override {
    std::int64_t number = 0;
    if (!whole_part(value, &number)) return false;
    // INT64_MIN % -1 traps on the machine.
    return (divisor_ == -1 ? 0 : number % divisor_) == remainder_;
  }

  // The number without its fraction, where that is an int64.
  static bool whole_part(const ValueView& value, std::int64_t* out) {
    switch (value.type()) {
      case BsonType::kInt32:
        *out = value.as_int32();
        return true;
      case BsonType::kInt64:
        *out = value.as_int64();
        return true;
      case BsonType::kDouble: {
        const double number = value.as_double();
        if (!(number >= -9223372036854775808.0 && number < 9223372036854775808.0)) return false;
        *out = static_cast<std::int64_t>(number);
        return true;
      }
      case BsonType::kDecimal128: {
        if (!value.as_decimal().is_finite()) return false;
        std::uint32_t flags = 0;
        *out = value.as_decimal().to_int64(Decimal128::Round::kTowardZero, &flags);
        return (flags & Decimal128::kInvalid) == 0;
      }
      default:
        return false;
    }
  }

 private:
  std::int64_t divisor_;
  std::int64_t remainder_;
};

Status malformed_mod(std::string_view what) {
  return Status(ErrorCode::kBadValue, fmt::format("malformed mod, {}", what));
}

Status parse_mod(Parser&, std::string_view path, const Element& element, DocumentView,
                 Nodes& out) {
  if (element.type() != BsonType::kArray) return malformed_mod("needs to be an array");
  ValueView parts[2];
  std::size_t count = 0;
  for (const Element& part : element->as_document()) {
    if (count == 2) return malformed_mod("too many elements");
    parts[count++] = part.value();
  }
  if (count < 2) return malformed_mod("not enough elements");
  std::int64_t divisor = 0;
  std::int64_t remainder = 0;
  if (!parts[0].is_number()) return malformed_mod("divisor not a number");
  if (!parts[1].is_number()) return malformed_mod("remainder not a number");
  if (!ModNode::whole_part(parts[0], &divisor))
    return malformed_mod("divisor value is invalid :: caused by :: Unable to coerce NaN/Inf or "
                         "out-of-range value to integral type");
  if (!ModNode::whole_part(parts[1], &remainder))
    return malformed_mod("remainder value is invalid :: caused by :: Unable to coerce NaN/Inf or "
                         "out-of-range value to integral type");
  if (divisor == 0) return Status(ErrorCode::kBadValue, "divisor cannot be 0");
  out.push_back(std::make_unique<ModNode>(path, element.value(), divisor, remainder));
  return {};
}

constexpr PathRow kRows[] = {
    {"$exists", parse_exists}, {"$type", parse_type}, {"$mod", parse_mod}};

}  // namespace

std::span<const PathRow> element_rows() { return kRows; }

Result<TypeSet> parse_types(std::string_view op, const ValueView& operand) {
  TypeSet types;
  if (operand.type() != BsonType::kArray) {
    MULTIFORA_TRY_R(add_type(op, operand, types));
    return types;
  }
  for (const Element& member : operand.as_document())
    MULTIFORA_TRY_R(add_type(op, member.value(), types));
  return types;
}

}  // namespace multifora::match
