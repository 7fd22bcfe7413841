// What the currentOp command and the $currentOp stage show alike besides the server's operations.
#pragma once

#include "core/bson/builder.h"

namespace multifora {

class Store;

// A row for each running createIndexes, with MongoDB's `msg` and `progress`. Any thread.
void append_index_builds(const Store& store, ArrayBuilder& out);

}  // namespace multifora
