// Time zones: ICU's Olson data and plain UTC offsets.
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>
#include <unicode/basictz.h>
#include <unicode/timezone.h>

#include "plugins/query-engine/datetime.h"

namespace multifora {
namespace {

class OffsetZone final : public TimeZone {
 public:
  explicit OffsetZone(std::int64_t offset_ms) : offset_(offset_ms) {}
  std::int64_t offset_ms(std::int64_t) const override { return offset_; }
  std::int64_t to_utc(std::int64_t local_ms) const override {
    return saturating_add(local_ms, -offset_);
  }
  bool is_utc() const override { return offset_ == 0; }

 private:
  std::int64_t offset_;
};

class IcuZone final : public TimeZone {
 public:
  explicit IcuZone(std::unique_ptr<icu::BasicTimeZone> zone) : zone_(std::move(zone)) {}

  std::int64_t offset_ms(std::int64_t utc_ms) const override {
    std::int32_t raw = 0;
    std::int32_t saving = 0;
    UErrorCode error = U_ZERO_ERROR;
    zone_->getOffset(static_cast<UDate>(utc_ms), false, raw, saving, error);
    return std::int64_t{raw} + saving;
  }
  std::int64_t to_utc(std::int64_t local_ms) const override {
    std::int32_t raw = 0;
    std::int32_t saving = 0;
    UErrorCode error = U_ZERO_ERROR;
    zone_->getOffsetFromLocal(static_cast<UDate>(local_ms), UCAL_TZ_LOCAL_FORMER,
                              UCAL_TZ_LOCAL_FORMER, raw, saving, error);
    return saturating_add(local_ms, -(std::int64_t{raw} + saving));
  }

 private:
  std::unique_ptr<icu::BasicTimeZone> zone_;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// +hh, +hhmm, +hh:mm
std::shared_ptr<const TimeZone> parse_offset(std::string_view text) {
  if (text.size() < 2 || (text[0] != '+' && text[0] != '-')) return nullptr;
  const std::string_view digits = text.substr(1);
  std::string plain;
  if (digits.size() == 5 && digits[2] == ':')
    plain = std::string(digits.substr(0, 2)) + std::string(digits.substr(3));
  else if (digits.size() == 1)
    plain = "0" + std::string(digits) + "00";
  else if (digits.size() == 2)
    plain = std::string(digits) + "00";
  else if (digits.size() == 4)
    plain = std::string(digits);
  if (plain.size() != 4 || !std::all_of(plain.begin(), plain.end(), is_digit)) return nullptr;
  const int hours = (plain[0] - '0') * 10 + (plain[1] - '0');
  const int minutes = (plain[2] - '0') * 10 + (plain[3] - '0');
  const std::int64_t offset = hours * kHourMs + minutes * kMinuteMs;
  return std::make_shared<OffsetZone>(text[0] == '-' ? -offset : offset);
}

// Names that ICU knows but the Olson data base does not.
bool is_icu_only(std::string_view name) {
  static constexpr std::string_view kLegacy[] = {
      "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT",
      "IET", "IST", "JST", "MIT", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST"};
  if (name.starts_with("SystemV/")) return true;
  if (name.size() > 3 && name.starts_with("GMT") && name != "GMT0" && name != "GMT+0" &&
      name != "GMT-0")
    return true;
  return std::find(std::begin(kLegacy), std::end(kLegacy), name) != std::end(kLegacy);
}

std::shared_ptr<const TimeZone> make_icu(std::string_view name) {
  if (is_icu_only(name) || name.size() > 64) return nullptr;
  const icu::UnicodeString id = icu::UnicodeString::fromUTF8(
      icu::StringPiece(name.data(), static_cast<std::int32_t>(name.size())));
  std::unique_ptr<icu::TimeZone> zone(icu::TimeZone::createTimeZone(id));
  if (!zone || *zone == icu::TimeZone::getUnknown()) return nullptr;
  if (dynamic_cast<icu::BasicTimeZone*>(zone.get()) == nullptr) return nullptr;
  return std::make_shared<IcuZone>(
      std::unique_ptr<icu::BasicTimeZone>(dynamic_cast<icu::BasicTimeZone*>(zone.release())));
}

}  // namespace

const std::shared_ptr<const TimeZone>& TimeZone::utc() {
  static const std::shared_ptr<const TimeZone> kUtc = std::make_shared<OffsetZone>(0);
  return kUtc;
}

Result<std::shared_ptr<const TimeZone>> TimeZone::find(std::string_view name) {
  if (name == "UTC" || name == "GMT" || name == "Z") return utc();
  if (std::shared_ptr<const TimeZone> zone = parse_offset(name)) return zone;
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const TimeZone>> cache;
  const std::lock_guard lock(mutex);
  const auto it = cache.find(std::string(name));
  if (it != cache.end()) return it->second;
  std::shared_ptr<const TimeZone> zone = make_icu(name);
  if (!zone)
    return fail(location_code(40485),
                fmt::format("unrecognized time zone identifier: \"{}\"", name));
  cache.emplace(name, zone);  // bounded: only names of real zones get here
  return zone;
}

}  // namespace multifora
