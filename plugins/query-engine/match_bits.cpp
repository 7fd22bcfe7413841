// $bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear.
#include <fmt/format.h>

#include <algorithm>

#include "plugins/query-engine/match_parse.h"

namespace multifora::match {

namespace {

enum class Test { kAllSet, kAllClear, kAnySet, kAnyClear };

// The sign bit goes on for ever.
bool bit_of_number(std::int64_t number, std::uint32_t position) {
  return ((number >> std::min<std::uint32_t>(position, 63)) & 1) != 0;
}
bool bit_of_bytes(Bytes bytes, std::uint32_t position) {
  const std::size_t byte = position / 8;
  return byte < bytes.size() &&
         ((static_cast<unsigned char>(bytes[byte]) >> (position % 8)) & 1) != 0;
}

// Whole doubles count; a decimal counts without its fraction.
bool integer_of(const ValueView& value, std::int64_t* out) {
  if (value.type() != BsonType::kDecimal128)
    return value.is_number() && value.exact_int64(out);
  std::uint32_t flags = 0;
  *out = value.as_decimal().to_int64(Decimal128::Round::kTowardZero, &flags);
  return (flags & Decimal128::kInvalid) == 0;
}

class BitsNode final : public PathNode {
 public:
  BitsNode(Test test, std::string_view name, std::string_view path, const ValueView& operand,
           std::vector<std::uint32_t> positions)
      : PathNode(MatchKind::kBits, name, path, operand, true),
        test_(test),
        positions_(std::move(positions)) {}

  bool matches_value(const ValueView& value, MatchState&) const override {
    std::int64_t number = 0;
    if (value.type() == BsonType::kBinData)
      return decide([bytes = value.binary_bytes()](std::uint32_t position) {
        return bit_of_bytes(bytes, position);
      });
    if (!integer_of(value, &number)) return false;
    return decide(
        [number](std::uint32_t position) { return bit_of_number(number, position); });
  }

 private:
  template <class F>
  bool decide(F&& is_set) const {
    const bool wanted = test_ == Test::kAllSet || test_ == Test::kAnySet;
    const bool all = test_ == Test::kAllSet || test_ == Test::kAllClear;
    for (const std::uint32_t position : positions_)
      if ((is_set(position) == wanted) != all) return !all;
    return all;
  }

  Test test_;
  std::vector<std::uint32_t> positions_;
};

Status positions_of_number(const Element& element, std::vector<std::uint32_t>& positions) {
  std::int64_t mask = 0;
  if (!element->exact_int64(&mask))
    return Status(ErrorCode::kFailedToParse, "Expected an integer: " + describe(element));
  if (mask < 0)
    return Status(ErrorCode::kFailedToParse,
                  "Expected a non-negative number in: " + describe(element));
  for (std::uint32_t bit = 0; bit < 64; ++bit)
    if (bit_of_number(mask, bit)) positions.push_back(bit);
  return {};
}

Status positions_of_array(DocumentView array, std::vector<std::uint32_t>& positions) {
  for (const Element& element : array) {
    std::int64_t position = 0;
    if (!element->is_number())
      return Status(ErrorCode::kBadValue,
                    "Failed to parse bit position. Expected a number in: " + describe(element));
    if (!element->exact_int64(&position) || position > INT32_MAX)
      return Status(ErrorCode::kBadValue,
                    "Failed to parse bit position. Expected an integer: " + describe(element));
    if (position < 0)
      return Status(ErrorCode::kBadValue,
                    "Failed to parse bit position. Expected a non-negative number in: " +
                        describe(element));
    positions.push_back(static_cast<std::uint32_t>(position));
  }
  return {};
}

template <Test test>
Status parse_bits(Parser&, std::string_view path, const Element& element, DocumentView,
                  Nodes& out) {
  std::vector<std::uint32_t> positions;
  switch (element.type()) {
    case BsonType::kArray:
      MULTIFORA_TRY(positions_of_array(element->as_document(), positions));
      break;
    case BsonType::kBinData: {
      const Bytes bytes = element->binary_bytes();
      for (std::uint32_t bit = 0; bit < bytes.size() * 8; ++bit)
        if (bit_of_bytes(bytes, bit)) positions.push_back(bit);
      break;
    }
    default:
      if (!element->is_number())
        return Status(ErrorCode::kBadValue,
                      fmt::format("{} takes an Array, a number, or a BinData but received: {}",
                                  element.name(), describe(element)));
      MULTIFORA_TRY(positions_of_number(element, positions));
  }
  out.push_back(std::make_unique<BitsNode>(test, element.name(), path, element.value(),
                                           std::move(positions)));
  return {};
}

constexpr PathRow kRows[] = {
    {"$bitsAllSet", parse_bits<Test::kAllSet>},
    {"$bitsAllClear", parse_bits<Test::kAllClear>},
    {"$bitsAnySet", parse_bits<Test::kAnySet>},
    {"$bitsAnyClear", parse_bits<Test::kAnyClear>},
};

}  // namespace

std::span<const PathRow> bits_rows() { return kRows; }

}  // namespace multifora::match
