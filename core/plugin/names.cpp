#include "core/plugin/names.h"

#include <string>

#include "core/base/limits.h"

namespace multifora {
namespace {

Status invalid_namespace(std::string message) {
  return {ErrorCode::kInvalidNamespace, std::move(message)};
}

}  // namespace

Namespace Namespace::split(std::string_view ns) {
  const std::size_t dot = ns.find('.');
  if (dot == std::string_view::npos || dot == 0) return {};
  return {ns.substr(0, dot), ns.substr(dot + 1)};
}

Status check_database_name(std::string_view db, DollarInName dollar) {
  const auto refuse = [db](const std::string& why) {
    return invalid_namespace("Invalid database name: '" + std::string(db) + "'" + why);
  };
  if (db.empty()) return refuse("");
  if (db.size() > limits::kDatabaseNameLengthMax)
    return refuse(": it is " + std::to_string(db.size()) + " bytes long, at most " +
                  std::to_string(limits::kDatabaseNameLengthMax) + " are allowed");
  if (db.find_first_of(std::string_view("/\\. \"\0", 6)) != std::string_view::npos)
    return refuse(": it may not contain any of / \\ . \", a space or a null");
  if (dollar == DollarInName::kRefused && db.find('$') != std::string_view::npos)
    return refuse(": it may not contain a $");
  return {};
}

Status check_collection_name(std::string_view collection) {
  const auto name = [collection] { return std::string(collection); };
  if (collection.empty())
    return invalid_namespace("Invalid namespace specified: the collection's name is empty");
  if (collection.find('\0') != std::string_view::npos)
    return invalid_namespace("Invalid collection name: it may not contain a null");
  if (collection.front() == '.')
    return invalid_namespace("Collection names cannot start with '.': " + name());
  if (collection.back() == '.')
    return invalid_namespace("Collection names cannot end with '.': " + name());
  if (collection.find('$') != std::string_view::npos)
    return invalid_namespace("Invalid collection name: '" + name() + "' may not contain '$'");
  return {};
}

Status check_new_namespace(std::string_view ns) {
  const Namespace parts = Namespace::split(ns);
  MULTIFORA_TRY(check_database_name(parts.db));
  MULTIFORA_TRY(check_collection_name(parts.collection));
  if (ns.size() <= limits::kNamespaceLengthMax) return {};
  return invalid_namespace("Fully qualified namespace is too long. Namespace: " + std::string(ns) +
                           " Max: " + std::to_string(limits::kNamespaceLengthMax));
}

}  // namespace multifora
