// One document of a collection of `config`, by its _id: how settings that commands make survive a restart.
// Threads: any. Errors are the store's.
#pragma once

#include <string_view>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/storage/types.h"

namespace multifora {

class Store;

// Empty where there is none.
Result<OwnedDocument> read_setting(Store& store, std::string_view ns, std::string_view id);
// Inserts or replaces the document with this _id. Returns the position to be durable (CommandContext::note_write).
Result<LogPosition> write_setting(Store& store, std::string_view ns, DocumentView document);

}  // namespace multifora
