#include "core/plugin/fail_points.h"

#include "core/base/error_codes_rare.h"

namespace multifora {

void FailPoints::declare(std::string_view name, CheckData check) {
  const std::lock_guard hold(mutex_);
  points_.try_emplace(std::string(name)).first->second.check = check;
}

Status FailPoints::parse_mode(const ValueView& mode, Point& out) {
  if (mode.type() == BsonType::kString) {
    if (mode.as_string() == "off") {
      out.mode = Mode::kOff;
      return {};
    }
    if (mode.as_string() == "alwaysOn") {
      out.mode = Mode::kAlwaysOn;
      return {};
    }
    return {ErrorCode::kBadValue, "unknown mode: " + std::string(mode.as_string())};
  }
  if (mode.type() != BsonType::kObject)
    return {ErrorCode::kTypeMismatch, "'mode' must be a string or JSON object"};
  const DocumentView object = mode.as_document();
  const Element field = object.empty() ? Element() : object.first();
  const bool random = !object.empty() && field.name() == "activationProbability";
  if (object.count() != 1 || (!random && field.name() != "times" && field.name() != "skip"))
    return {ErrorCode::kBadValue,
            "'mode' must be one of 'times', 'skip', or 'activationProbability'"};
  if (!field->is_number())
    return {ErrorCode::kTypeMismatch, "'" + std::string(field.name()) + "' must be a number"};
  if (random) {
    out.mode = Mode::kRandom;
    out.probability = field->number_as_double();
    if (out.probability >= 0 && out.probability <= 1) return {};
    return {ErrorCode::kBadValue, "'activationProbability' must be between 0.0 and 1.0"};
  }
  out.left = field->number_as_int64();
  if (out.left < 0)
    return {ErrorCode::kBadValue, "'" + std::string(field.name()) + "' must be positive"};
  if (field.name() == "times")
    out.mode = out.left > 0 ? Mode::kTimes : Mode::kOff;
  else
    out.mode = Mode::kSkip;
  return {};
}

void FailPoints::set_mode(Point& point, Mode mode) {
  active_ += static_cast<int>(mode != Mode::kOff) - static_cast<int>(point.mode != Mode::kOff);
  point.mode = mode;
}

Result<std::int64_t> FailPoints::configure(std::string_view name, const ValueView& mode,
                                           DocumentView data) {
  Point wanted;
  MULTIFORA_TRY_R(parse_mode(mode, wanted));
  const std::lock_guard hold(mutex_);
  const auto at = points_.find(name);
  if (at == points_.end())
    return fail(rare::kFailPointSetFailed, std::string(name) + " not found");
  Point& point = at->second;
  if (wanted.mode != Mode::kOff && point.check != nullptr) MULTIFORA_TRY_R(point.check(data));
  point.left = wanted.left;
  point.probability = wanted.probability;
  point.data = std::make_shared<const OwnedDocument>(data);
  set_mode(point, wanted.mode);
  return point.met;
}

FailPoints::Data FailPoints::hit(std::string_view name,
                                 const std::function<bool(DocumentView data)>& concerns) {
  const std::lock_guard hold(mutex_);
  const auto at = points_.find(name);
  if (at == points_.end() || at->second.mode == Mode::kOff) return nullptr;
  Point& point = at->second;
  if (concerns && !concerns(point.data->view())) return nullptr;
  if (point.mode == Mode::kSkip && point.left > 0) {
    --point.left;
    return nullptr;
  }
  if (point.mode == Mode::kRandom &&
      std::uniform_real_distribution<double>(0, 1)(random_) >= point.probability)
    return nullptr;
  ++point.met;
  const Data data = point.data;
  if (point.mode == Mode::kTimes && --point.left == 0) set_mode(point, Mode::kOff);
  return data;
}

}  // namespace multifora
