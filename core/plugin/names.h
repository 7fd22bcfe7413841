// MongoDB's rules for names of databases and collections, for whoever meets one: the dispatcher in a
// request, commands in their arguments, the store in what it creates.
#pragma once

#include <string_view>

#include "core/base/status.h"

namespace multifora {

// Where a namespace string splits, at its first dot; db empty for a malformed one.
struct Namespace {
  std::string_view db, collection;
  static Namespace split(std::string_view ns);
};

// Some commands are for databases that cannot hold collections ($external).
enum class DollarInName { kRefused, kAllowed };

// All three: InvalidNamespace (73).
Status check_database_name(std::string_view db, DollarInName dollar = DollarInName::kRefused);
Status check_collection_name(std::string_view collection);
// Both parts and the length of the whole, for a namespace that is to be made.
Status check_new_namespace(std::string_view ns);

}  // namespace multifora
