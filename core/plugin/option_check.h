// Checks a command's fields against option tables (command.h), with the codes and texts of MongoDB's
// parser. The dispatcher checks a command's own fields with it, commands the documents inside them
// (the statements of an update ...). `prefix` is where a field stands: "find", "update.updates".
//
// Functions only: any thread. Views need to live for the call. Nothing is changed on a failure.
#pragma once

#include <span>
#include <string_view>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/plugin/command.h"

namespace multifora {

// The OptionType bit of a BSON type; 0 where options never have it.
std::uint32_t option_bit(BsonType type);

// "BSON field 'find.foo' is an unknown field." (40415), with the right prefix.
Status unknown_field(std::string_view prefix, std::string_view name);
Status duplicate_field(std::string_view prefix, std::string_view name);  // 40413
Status missing_field(std::string_view prefix, std::string_view name);    // 40414
// TypeMismatch, naming the types that `option` may have.
Status wrong_type(std::string_view prefix, const OptionSpec& option, BsonType type);

// Type and sign of a value that is given.
Status check_type(std::string_view prefix, const OptionSpec& option, const ValueView& value);
// The same with the flags: kArrayOfObjects' elements, kUnsupported.
Status check_option(std::string_view prefix, const OptionSpec& option, const ValueView& value);

// All fields of a document inside a command (a statement of `updates`, `cursor` ...) against its table
// of at most limits::kCommandOptionsMax rows: 40415 unknown, 14 wrong type, 40413 twice, 40414 missing.
// Null counts as absent where the option does not take it.
Status check_fields(std::string_view prefix, DocumentView document,
                    std::span<const OptionSpec> table);

}  // namespace multifora
