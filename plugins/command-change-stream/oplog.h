// local.oplog.rs: the log of operations as a capped collection that tools may tail. Nothing is stored for
// it: each entry is made from the change feed when it is read.
#pragma once

#include <memory>

#include "core/store/virtual_collection.h"

namespace multifora::change_stream {

std::unique_ptr<const VirtualCollection> make_oplog();

}  // namespace multifora::change_stream
