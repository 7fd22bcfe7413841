#include "plugins/collation-icu/icu_collator.h"

#include <unicode/locid.h>
#include <unicode/uversion.h>

#include <array>
#include <cstring>

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"

namespace multifora {
namespace {

Status bad_value(std::string message) { return {ErrorCode::kBadValue, std::move(message)}; }

Status wrong_type(const Element& field, std::string_view expected) {
  return {ErrorCode::kTypeMismatch,
          "BSON field 'collation." + std::string(field.name()) + "' is the wrong type '" +
              std::string(type_name(field.type())) + "', expected type '" + std::string(expected) +
              "'"};
}

// A word of a collation document and the ICU value that it stands for.
struct Word {
  std::string_view text;
  int value;
};
constexpr std::array<Word, 3> kCaseFirst = {
    {{"upper", UCOL_UPPER_FIRST}, {"lower", UCOL_LOWER_FIRST}, {"off", UCOL_OFF}}};
constexpr std::array<Word, 2> kAlternate = {
    {{"non-ignorable", UCOL_NON_IGNORABLE}, {"shifted", UCOL_SHIFTED}}};
constexpr std::array<Word, 2> kMaxVariable = {
    {{"punct", UCOL_REORDER_CODE_PUNCTUATION}, {"space", UCOL_REORDER_CODE_SPACE}}};

template <std::size_t N>
Result<int> word_value(const Element& field, const std::array<Word, N>& words) {
  if (field.type() != BsonType::kString) return fail(wrong_type(field, "string"));
  for (const Word& word : words)
    if (word.text == field->as_string()) return word.value;
  return fail(bad_value("Enumeration value '" + std::string(field->as_string()) +
                        "' for field 'collation." + std::string(field.name()) +
                        "' is not a valid value."));
}

template <std::size_t N>
std::string_view word_text(int value, const std::array<Word, N>& words) {
  for (const Word& word : words)
    if (word.value == value) return word.text;
  return words.back().text;
}

Result<bool> flag_value(const Element& field) {
  if (field.type() != BsonType::kBool && !field->is_number())
    return fail(wrong_type(field, "bool"));
  return field->truthy();
}

Result<std::unique_ptr<icu::Collator>> open_locale(DocumentView spec, std::string_view locale) {
  const auto invalid = [&] {
    return fail(bad_value("Field 'locale' is invalid in: " + to_extended_json(spec)));
  };
  if (locale.find('\0') != std::string_view::npos || locale.empty()) return invalid();
  const icu::Locale wanted = icu::Locale::createFromName(std::string(locale).c_str());
  UErrorCode error = U_ZERO_ERROR;
  std::unique_ptr<icu::Collator> collator(icu::Collator::createInstance(wanted, error));
  if (U_FAILURE(error) || !collator || wanted.isBogus()) return invalid();
  // An unknown locale falls back to the root's rules; MongoDB refuses it.
  const icu::Locale valid = collator->getLocale(ULOC_VALID_LOCALE, error);
  if (U_FAILURE(error) || std::strcmp(valid.getLanguage(), wanted.getLanguage()) != 0 ||
      std::strlen(wanted.getLanguage()) == 0)
    return invalid();
  return collator;
}

Status set_attribute(icu::Collator& collator, UColAttribute attribute, int value) {
  UErrorCode error = U_ZERO_ERROR;
  collator.setAttribute(attribute, static_cast<UColAttributeValue>(value), error);
  if (U_SUCCESS(error)) return {};
  return bad_value(std::string("ICU refuses the collation: ") + u_errorName(error));
}

Status set_strength(icu::Collator& collator, const Element& field) {
  if (!field->is_number()) return wrong_type(field, "int");
  std::int64_t strength = 0;
  if (!field->exact_int64(&strength) || strength < 1 || strength > 5)
    return {location_code(51024), "BSON field 'collation.strength' value must be between 1 and 5, "
                                  "actual value '" + to_extended_json(field.value()) + "'"};
  // ICU counts from 0, and its identical level is 15.
  return set_attribute(collator, UCOL_STRENGTH,
                       strength == 5 ? static_cast<int>(UCOL_IDENTICAL)
                                     : static_cast<int>(strength) - 1);
}

Status set_field(icu::Collator& collator, const Element& field) {
  const std::string_view name = field.name();
  if (name == "locale" || name == "version") return {};
  if (name == "strength") return set_strength(collator, field);
  if (name == "caseFirst") {
    MULTIFORA_ASSIGN(const int value, word_value(field, kCaseFirst));
    return set_attribute(collator, UCOL_CASE_FIRST, value);
  }
  if (name == "alternate") {
    MULTIFORA_ASSIGN(const int value, word_value(field, kAlternate));
    return set_attribute(collator, UCOL_ALTERNATE_HANDLING, value);
  }
  if (name == "maxVariable") {
    MULTIFORA_ASSIGN(const int value, word_value(field, kMaxVariable));
    UErrorCode error = U_ZERO_ERROR;
    collator.setMaxVariable(static_cast<UColReorderCode>(value), error);
    return U_SUCCESS(error) ? Status() : bad_value("ICU refuses the field maxVariable");
  }
  static constexpr std::array<std::pair<std::string_view, UColAttribute>, 4> kFlags = {
      {{"caseLevel", UCOL_CASE_LEVEL},
       {"numericOrdering", UCOL_NUMERIC_COLLATION},
       {"normalization", UCOL_NORMALIZATION_MODE},
       {"backwards", UCOL_FRENCH_COLLATION}}};
  for (const auto& [flag, attribute] : kFlags) {
    if (flag != name) continue;
    MULTIFORA_ASSIGN(const bool value, flag_value(field));
    return set_attribute(collator, attribute, value ? UCOL_ON : UCOL_OFF);
  }
  return {location_code(40415),
          "BSON field 'collation." + std::string(name) + "' is an unknown field."};
}

// What the collator does, every field present, in the order that listCollections shows.
OwnedDocument describe(const icu::Collator& collator, std::string_view locale) {
  UErrorCode error = U_ZERO_ERROR;
  const auto on = [&](UColAttribute attribute) {
    return collator.getAttribute(attribute, error) == UCOL_ON;
  };
  const int strength = collator.getAttribute(UCOL_STRENGTH, error);
  DocumentBuilder out;
  out.append("locale", locale);
  out.append("caseLevel", on(UCOL_CASE_LEVEL));
  out.append("caseFirst", word_text(collator.getAttribute(UCOL_CASE_FIRST, error), kCaseFirst));
  out.append("strength", strength == UCOL_IDENTICAL ? 5 : strength + 1);
  out.append("numericOrdering", on(UCOL_NUMERIC_COLLATION));
  out.append("alternate",
             word_text(collator.getAttribute(UCOL_ALTERNATE_HANDLING, error), kAlternate));
  out.append("maxVariable",
             word_text(static_cast<int>(collator.getMaxVariable()), kMaxVariable));
  out.append("normalization", on(UCOL_NORMALIZATION_MODE));
  out.append("backwards", on(UCOL_FRENCH_COLLATION));
  out.append("version", U_ICU_VERSION);
  return std::move(out).finish();
}

}  // namespace

int IcuCollator::compare(std::string_view a, std::string_view b) const {
  UErrorCode error = U_ZERO_ERROR;
  const UCollationResult order =
      collator_->compareUTF8(icu::StringPiece(a.data(), static_cast<std::int32_t>(a.size())),
                             icu::StringPiece(b.data(), static_cast<std::int32_t>(b.size())), error);
  return U_SUCCESS(error) ? static_cast<int>(order) : a.compare(b);
}

void IcuCollator::append_sort_key(std::string_view text, Buffer& out) const {
  const icu::UnicodeString wide = icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())));
  std::array<std::uint8_t, 256> small;
  std::int32_t size =
      collator_->getSortKey(wide, small.data(), static_cast<std::int32_t>(small.size()));
  if (size <= static_cast<std::int32_t>(small.size())) {
    // The key ends with a zero byte that is not part of the order.
    out.append(reinterpret_cast<const char*>(small.data()),
               static_cast<std::size_t>(size > 0 ? size - 1 : 0));
    return;
  }
  Buffer large(static_cast<std::size_t>(size), '\0');
  size = collator_->getSortKey(wide, reinterpret_cast<std::uint8_t*>(large.data()), size);
  out.append(large, 0, static_cast<std::size_t>(size) - 1);
}

Result<std::shared_ptr<const Collator>> IcuCollatorFactory::make(DocumentView spec) const {
  const Element locale = spec.find("locale");
  if (locale.missing())
    return fail(location_code(40414),
                "BSON field 'collation.locale' is missing but a required field");
  if (locale.type() != BsonType::kString) return fail(wrong_type(locale, "string"));
  const std::string_view name = locale->as_string();
  if (name == "simple") {
    if (spec.count() > 1)
      return fail(bad_value("Extra fields for simple collation are not allowed: " +
                            to_extended_json(spec)));
    return nullptr;
  }
  MULTIFORA_ASSIGN_R(std::unique_ptr<icu::Collator> collator, open_locale(spec, name));
  for (const Element& field : spec) MULTIFORA_TRY_R(set_field(*collator, field));
  OwnedDocument whole = describe(*collator, name);
  if (whole.view()["backwards"].as_bool() && whole.view()["strength"].as_int32() < 2)
    return fail(bad_value("'backwards' is invalid with 'strength' of 1"));
  return std::make_shared<const IcuCollator>(std::move(collator), std::move(whole));
}

}  // namespace multifora
