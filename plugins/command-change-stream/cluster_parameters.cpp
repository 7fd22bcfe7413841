#include "plugins/command-change-stream/cluster_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/bson/builder.h"
#include "core/plugin/host.h"
#include "core/plugin/option_check.h"
#include "core/store/kept_setting.h"

namespace multifora::change_stream {
namespace {

constexpr std::string_view kNamespace = "config.clusterParameters";
constexpr std::string_view kName = "changeStreamOptions";
constexpr std::string_view kImages = "preAndPostImages";
constexpr std::string_view kExpiry = "expireAfterSeconds";

void append_value(DocumentBuilder& out, std::int64_t seconds) {
  DocumentBuilder images = out.object(kImages);
  if (seconds == ImageRetention::kOff)
    images.append(kExpiry, "off");
  else
    images.append(kExpiry, seconds);
}

Status unknown(std::string_view name) {
  return {ErrorCode::kNoSuchKey, fmt::format("Unknown server parameter: {}", name)};
}

// The seconds that a value of changeStreamOptions asks for.
Result<std::int64_t> parse_value(DocumentView value) {
  std::int64_t seconds = ImageRetention::kOff;
  for (const Element& field : value) {
    if (field.name() != kImages) return fail(unknown_field(kName, field.name()));
    if (field.type() != BsonType::kObject)
      return fail(wrong_type(kName, {kImages, kOptObject}, field.type()));
    for (const Element& inner : field->as_document()) {
      if (inner.name() != kExpiry) return fail(unknown_field(kImages, inner.name()));
      if (inner.type() == BsonType::kString) {
        if (inner->as_string() != "off")
          return fail(ErrorCode::kBadValue, "Expected 'off' or a number of seconds for 'expireAfterSeconds'");
      } else if (!inner->is_number()) {
        return fail(wrong_type(kImages, {kExpiry, kOptString | kOptNumber}, inner.type()));
      } else if (seconds = inner->number_as_int64(); seconds <= 0) {
        return fail(ErrorCode::kBadValue, "Expected a positive integer for 'expireAfterSeconds'");
      }
    }
  }
  return seconds;
}

Status run_set(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  if (request.target().type() != BsonType::kObject)
    return wrong_type("setClusterParameter", {"setClusterParameter", kOptObject}, request.target().type());
  const DocumentView given = request.target().as_document();
  if (std::ranges::distance(given) != 1)
    return {ErrorCode::kInvalidOptions,
            "setClusterParameter only supports setting exactly one parameter"};
  const Element parameter = given.first();
  if (parameter.name() != kName) return unknown(parameter.name());
  if (parameter.type() != BsonType::kObject)
    return wrong_type("setClusterParameter", {kName, kOptObject}, parameter.type());
  MULTIFORA_ASSIGN(const std::int64_t seconds, parse_value(parameter->as_document()));
  MULTIFORA_ASSIGN(const LogPosition position,
                   context.host().service<ImageRetention>()->set(context.store(), seconds));
  context.note_write(position);
  return {};
}

Status run_get(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  bool wanted = false;
  const auto want = [&](const ValueView& name) -> Status {
    if (name.type() != BsonType::kString)
      return wrong_type("getClusterParameter", {"getClusterParameter", kOptString}, name.type());
    if (name.as_string() != "*" && name.as_string() != kName) return unknown(name.as_string());
    wanted = true;
    return {};
  };
  if (request.target().type() == BsonType::kArray) {
    for (const Element& name : request.target().as_document()) MULTIFORA_TRY(want(name.value()));
    if (!wanted)
      return {ErrorCode::kBadValue, "Must supply at least one cluster parameter name to getClusterParameter"};
  } else {
    MULTIFORA_TRY(want(request.target()));
  }
  ImageRetention& retention = *context.host().service<ImageRetention>();
  ArrayBuilder all = reply.array("clusterParameters");
  DocumentBuilder one = all.object();
  one.append("_id", kName);
  if (const std::uint64_t time = retention.set_at(context.store()); time != 0)
    one.append_timestamp("clusterParameterTime", time);
  append_value(one, retention.seconds(context.store()));
  return {};
}

}  // namespace

void ImageRetention::load(Store& store) {
  if (loaded_.load(std::memory_order_acquire)) return;
  const std::lock_guard hold(mutex_);
  if (loaded_.load(std::memory_order_relaxed)) return;
  if (const auto kept = read_setting(store, kNamespace, kName); kept) {
    if (const ValueView images = kept->view()[kImages]; images.type() == BsonType::kObject)
      if (const ValueView seconds = images.as_document()[kExpiry]; seconds.is_number())
        seconds_ = std::max<std::int64_t>(seconds.number_as_int64(), kOff);
    if (const ValueView time = kept->view()["clusterParameterTime"]; time.type() == BsonType::kTimestamp)
      set_at_ = time.as_timestamp();
  }
  loaded_.store(true, std::memory_order_release);
}

std::int64_t ImageRetention::seconds(Store& store) {
  load(store);
  return seconds_;
}

std::uint64_t ImageRetention::set_at(Store& store) {
  load(store);
  return set_at_;
}

bool ImageRetention::expired(Store& store, std::uint64_t cluster_time, std::int64_t now_ms) {
  const std::int64_t limit = seconds(store);
  if (limit == kOff) return false;
  return now_ms / 1000 - static_cast<std::int64_t>(cluster_time >> 32) > limit;
}

Result<LogPosition> ImageRetention::set(Store& store, std::int64_t seconds) {
  load(store);
  const std::uint64_t now = store.last_position();
  DocumentBuilder document;
  document.append("_id", kName);
  document.append_timestamp("clusterParameterTime", now);
  append_value(document, seconds);
  const OwnedDocument value = std::move(document).finish();
  MULTIFORA_ASSIGN_R(const LogPosition position, write_setting(store, kNamespace, value.view()));
  seconds_ = seconds;
  set_at_ = now;
  return position;
}

const CommandRow kGetClusterParameter{.name = "getClusterParameter",
                                      .aliases = {},
                                      .help = "Settings of the whole deployment.",
                                      .privilege = "getClusterParameter",
                                      .lock = LockIntent::kRead,
                                      .flags = kAdminOnly,
                                      .options = {},
                                      .run = run_get};
const CommandRow kSetClusterParameter{.name = "setClusterParameter",
                                      .aliases = {},
                                      .help = "Changes a setting of the whole deployment.",
                                      .privilege = "setClusterParameter",
                                      .lock = LockIntent::kWrite,
                                      .flags = kAdminOnly | kAcceptsWriteConcern,
                                      .options = {},
                                      .run = run_set};

}  // namespace multifora::change_stream
