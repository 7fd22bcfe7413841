// Internal to extended JSON: the objects that stand for a BSON value ({"$oid": "..."} and the
// like). The parser first reads every object as a plain document, so that the order of its keys
// does not matter, and then asks here what it stands for. Pure functions; any thread.
#pragma once

#include <string_view>

#include "core/bson/view.h"

namespace multifora::extended_json {

// May an object with this key stand for a value?
bool is_form_key(std::string_view key);

enum class Form { kPlain, kValue, kBad };

// `object` has at least one key of is_form_key. kPlain: it is just a document. kValue: it stands
// for the value of type *type whose bytes are appended to `value`. kBad: it has such a key, but is
// not as the specification says; *mistake then points to a static text.
Form read_form(DocumentView object, BsonType* type, Buffer& value, const char** mistake);

}  // namespace multifora::extended_json
