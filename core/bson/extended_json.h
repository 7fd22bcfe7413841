// MongoDB Extended JSON v2: relaxed and canonical. For logs, tests, configuration and tools.
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

class DocumentBuilder;

enum class JsonMode { kCanonical, kRelaxed };

std::string to_extended_json(DocumentView document, JsonMode mode = JsonMode::kRelaxed);
std::string to_extended_json(const ValueView& value, JsonMode mode = JsonMode::kRelaxed);
// Appends the forms as BSON: {"$oid": "..."} for an ObjectId. What to_extended_json says of it is what
// it says of `value` in `mode`.
void append_extended_json(DocumentBuilder& out, std::string_view name, const ValueView& value,
                          JsonMode mode);
// FailedToParse with line and column. Also accepts the legacy forms that the specification's
// parsers must accept ({"$uuid"}, {"$regex", "$options"}, {"$binary", "$type"}).
Result<OwnedDocument> from_extended_json(std::string_view json);

}  // namespace multifora
