// $set $setOnInsert $unset $rename $currentDate.
#include <fmt/format.h>

#include "plugins/query-engine/update_node.h"

namespace multifora::update {

namespace {

class SetOperator final : public Operator {
 public:
  SetOperator(const ValueView& value, bool only_on_insert)
      : value_(Value(value).own()), only_on_insert_(only_on_insert) {}
  Result<Value> apply(const ValueView& current, UpdateState& state) const override {
    if (only_on_insert_ && !state.input.is_insert) return Value(current);
    return value_;
  }
  bool creates(const UpdateState& state) const override {
    return !only_on_insert_ || state.input.is_insert;
  }

 private:
  Value value_;
  bool only_on_insert_;
};

template <bool only_on_insert>
Status parse_set(Parser& parser, const Element& field) {
  parser.note_value(field.name(), field.value());
  return parser.add(field.name(), std::make_shared<SetOperator>(field.value(), only_on_insert));
}

class UnsetOperator final : public Operator {
 public:
  Result<Value> apply(const ValueView&, UpdateState&) const override { return Value(); }
  bool creates(const UpdateState&) const override { return false; }
  bool tolerates_scalars() const override { return true; }
};

Status parse_unset(Parser& parser, const Element& field) {
  return parser.add(field.name(), std::make_shared<UnsetOperator>());
}

// ---- $rename: one operator takes the field away, another puts it where it goes ----

class RenameFrom final : public Operator {
 public:
  explicit RenameFrom(std::size_t number) : number_(number) {}
  Result<Value> apply(const ValueView& current, UpdateState& state) const override {
    if (state.renamed[number_].missing()) return Value(current);
    return Value();
  }
  bool creates(const UpdateState&) const override { return false; }
  bool tolerates_scalars() const override { return true; }

 private:
  std::size_t number_;
};

class RenameTo final : public Operator {
 public:
  explicit RenameTo(std::size_t number) : number_(number) {}
  Result<Value> apply(const ValueView& current, UpdateState& state) const override {
    const ValueView& value = state.renamed[number_];
    return Value(value.missing() ? current : value);
  }
  bool creates(const UpdateState& state) const override {
    return !state.renamed[number_].missing();
  }

 private:
  std::size_t number_;
};

bool is_dynamic(std::string_view path) {
  return path.ends_with(".$") || path.contains(".$.") || path.contains("$[");
}

Status parse_rename(Parser& parser, const Element& field) {
  if (field.type() != BsonType::kString)
    return Status(ErrorCode::kBadValue,
                  fmt::format("The 'to' field for $rename must be a string: {}", describe(field)));
  const std::string_view from = field.name();
  const std::string_view to = field->as_string();
  if (to.contains('\0'))
    return Status(ErrorCode::kBadValue,
                  "The 'to' field for $rename cannot contain an embedded null byte");
  if (is_dynamic(from))
    return Status(ErrorCode::kBadValue,
                  fmt::format("The source field for $rename may not be dynamic: {}", from));
  if (is_dynamic(to))
    return Status(ErrorCode::kBadValue,
                  fmt::format("The destination field for $rename may not be dynamic: {}", to));
  const auto inside = [](std::string_view outer, std::string_view inner) {
    return inner == outer || (inner.starts_with(outer) && inner[outer.size()] == '.');
  };
  if (inside(from, to) || inside(to, from))
    return Status(ErrorCode::kBadValue,
                  fmt::format("The source and target field for $rename must {}: {}",
                              from == to ? "differ" : "not be on the same path", describe(field)));
  const std::size_t number = parser.add_rename(from, to);
  MULTIFORA_TRY(parser.add(from, std::make_shared<RenameFrom>(number)));
  return parser.add(to, std::make_shared<RenameTo>(number));
}

// ---- $currentDate ----

class CurrentDateOperator final : public Operator {
 public:
  explicit CurrentDateOperator(bool timestamp) : timestamp_(timestamp) {}
  Result<Value> apply(const ValueView&, UpdateState& state) const override {
    return timestamp_ ? Value::timestamp(state.input.cluster_time)
                      : Value::date_ms(state.input.now_ms);
  }

 private:
  bool timestamp_;
};

Status parse_current_date(Parser& parser, const Element& field) {
  bool timestamp = false;
  if (field.type() == BsonType::kObject) {
    for (const Element& option : field->as_document()) {
      if (option.name() != "$type")
        return Status(ErrorCode::kBadValue,
                      fmt::format("Unrecognized $currentDate option: {}", option.name()));
      const std::string_view type =
          option.type() == BsonType::kString ? option->as_string() : std::string_view();
      if (type != "date" && type != "timestamp")
        return Status(ErrorCode::kBadValue,
                      "The '$type' string field is required to be 'date' or 'timestamp': "
                      "{$currentDate: {field : {$type: 'date'}}}");
      timestamp = type == "timestamp";
    }
    if (field->as_document().empty())
      return Status(ErrorCode::kBadValue,
                    "The '$type' string field is required to be 'date' or 'timestamp': "
                    "{$currentDate: {field : {$type: 'date'}}}");
  } else if (field.type() != BsonType::kBool) {
    return Status(ErrorCode::kBadValue,
                  fmt::format("{} is not valid type for $currentDate. Please use a boolean "
                              "('true') or a $type expression ({{$type: 'timestamp/date'}}).",
                              type_name(field.type())));
  }
  return parser.add(field.name(), std::make_shared<CurrentDateOperator>(timestamp));
}

constexpr OperatorRow kRows[] = {
    {"$set", parse_set<false>},     {"$setOnInsert", parse_set<true>}, {"$unset", parse_unset},
    {"$rename", parse_rename},      {"$currentDate", parse_current_date},
};

}  // namespace

std::span<const OperatorRow> set_rows() { return kRows; }

}  // namespace multifora::update
