// Registers the index kind "ttl": an ordered index whose documents expire. It has no structure of its
// own: specifications go to the registered ordered kind, and the sweep walks that kind's cursors.
#include <cmath>

#include "core/plugin/plugin.h"

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/plugin/index_over.h"
#include "plugins/index-ttl/ttl_sweep.h"

namespace multifora {
namespace {

constexpr std::int64_t kSweepSecondsDefault = 60;
constexpr std::int64_t kSweepSecondsMax = 86'400;

int claims(DocumentView spec) { return spec["expireAfterSeconds"].missing() ? 0 : 20; }

OwnedDocument without_expiry(DocumentView spec) {
  DocumentBuilder out;
  for (const Element& field : spec)
    if (field.name() != "expireAfterSeconds") out.append(field);
  return std::move(out).finish();
}

// The ordered kind, if it would take the specification as it is without the expiry.
Result<const IndexKind*> ordered_kind(const PluginHost& host, DocumentView plain) {
  MULTIFORA_ASSIGN_R(const IndexKind* kind, find_ordered_kind(host, "TTL"));
  if (kind->claims(plain) <= 0)
    return fail(ErrorCode::kCannotCreateIndex,
                "The field 'expireAfterSeconds' is only allowed in an ascending or descending index "
                "of one field");
  return kind;
}

Result<OwnedDocument> normalize(const PluginHost& host, DocumentView spec) {
  const DocumentView key = spec["key"].as_document();
  if (key.count() != 1)
    return fail(ErrorCode::kCannotCreateIndex,
                "TTL indexes are single-field indexes, compound indexes do not support TTL");
  if (key.first().name() == "_id")
    return fail(ErrorCode::kInvalidIndexSpecificationOption,
                "The field 'expireAfterSeconds' is not valid for an _id index specification");
  const double seconds = spec["expireAfterSeconds"].number_as_double();
  if (seconds < 0)
    return fail(ErrorCode::kCannotCreateIndex,
                "TTL index 'expireAfterSeconds' option cannot be less than 0");
  if (seconds > static_cast<double>(limits::kExpireSecondsMax))
    return fail(ErrorCode::kCannotCreateIndex,
                "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a "
                "lower number");
  const OwnedDocument plain = without_expiry(spec);
  MULTIFORA_ASSIGN_R(const IndexKind* inner, ordered_kind(host, plain.view()));
  MULTIFORA_ASSIGN_R(const OwnedDocument normalized, inner->normalize(host, plain.view()));
  DocumentBuilder out;
  out.append_all(normalized.view());
  // NaN has always meant "never expires"; MongoDB stores the largest number for it.
  if (std::isnan(seconds))
    out.append("expireAfterSeconds", static_cast<std::int32_t>(limits::kExpireSecondsMax));
  else
    out.append("expireAfterSeconds", spec["expireAfterSeconds"]);
  return std::move(out).finish();
}

Result<std::unique_ptr<Index>> open(const PluginHost& host, Pager& pager, IndexSpec spec,
                                    const IndexState& state) {
  const OwnedDocument plain = without_expiry(spec.spec.view());
  MULTIFORA_ASSIGN_R(const IndexKind* inner, ordered_kind(host, plain.view()));
  return inner->open(host, pager, std::move(spec), state);
}

const IndexKind kTtl{"ttl", kIndexEquality | kIndexRange | kIndexOrder | kIndexUnique, claims,
                     normalize, open};

Status register_plugin(PluginHost& host) {
  MULTIFORA_TRY(host.add_index_kind(&kTtl));
  const std::int64_t seconds =
      host.config().integer("index-ttl", "monitor_sleep_secs").value_or(kSweepSecondsDefault);
  if (seconds < 1 || seconds > kSweepSecondsMax)
    return {ErrorCode::kBadValue, "index-ttl.monitor_sleep_secs must be from 1 to 86400"};
  return host.add_background(std::make_unique<TtlSweep>(host.metrics(), seconds * 1000));
}

}  // namespace
}  // namespace multifora

MULTIFORA_PLUGIN(index_ttl, "index-ttl", "1.0.0", multifora::register_plugin)
