// What a command that is about to insert much may say beforehand.
#pragma once

#include <cstddef>

#include "core/store/collection.h"

namespace multifora {

// About so many bytes of documents will be inserted in the writer's batch: a large one may write them to
// the disk once instead of twice. Before the first insert, or not at all. A hint: writers of
// transactions, whose documents reach the disk with the commit, take no notice.
void expect_inserts(CollectionWriter& writer, std::size_t size_bytes);

}  // namespace multifora
