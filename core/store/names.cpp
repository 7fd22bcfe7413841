// Names of databases and collections, and the _id of a document: MongoDB's rules.
#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/store/store.h"

namespace multifora {
namespace {

Status invalid_namespace(std::string message) {
  return {ErrorCode::kInvalidNamespace, std::move(message)};
}

Status check_id(const ValueView& id) {
  switch (id.type()) {
    case BsonType::kArray:
      return {ErrorCode::kInvalidIdField, "The '_id' value cannot be of type array"};
    case BsonType::kRegex:
      return {ErrorCode::kInvalidIdField, "The '_id' value cannot be of type regex"};
    case BsonType::kUndefined:
      return {ErrorCode::kInvalidIdField, "The '_id' value cannot be of type undefined"};
    case BsonType::kObject:
      for (const Element& field : id.as_document())
        if (field.name().starts_with('$'))
          return {ErrorCode::kDollarPrefixedFieldName,
                  "_id fields may not contain '$'-prefixed fields: " + std::string(field.name()) +
                      " is not valid for storage."};
      return {};
    default:
      return {};
  }
}

}  // namespace

Namespace Namespace::split(std::string_view ns) {
  const std::size_t dot = ns.find('.');
  if (dot == std::string_view::npos || dot == 0) return {};
  return {ns.substr(0, dot), ns.substr(dot + 1)};
}

Status check_database_name(std::string_view db) {
  const std::string quoted = "'" + std::string(db) + "'";
  if (db.empty()) return invalid_namespace("Invalid database name: " + quoted);
  if (db.size() > limits::kDatabaseNameLengthMax)
    return invalid_namespace("Invalid database name: " + quoted + ": it is " +
                             std::to_string(db.size()) + " bytes long, at most " +
                             std::to_string(limits::kDatabaseNameLengthMax) + " are allowed");
  if (db.find_first_of(std::string_view("/\\. \"$\0", 7)) != std::string_view::npos)
    return invalid_namespace("Invalid database name: " + quoted +
                             ": it may not contain any of / \\ . \" $, a space or a null");
  return {};
}

Status check_collection_name(std::string_view collection) {
  const std::string name(collection);
  if (collection.empty())
    return invalid_namespace("Invalid namespace specified: the collection's name is empty");
  if (collection.find('\0') != std::string_view::npos)
    return invalid_namespace("Invalid collection name: it may not contain a null");
  if (collection.front() == '.' )
    return invalid_namespace("Collection names cannot start with '.': " + name);
  if (collection.back() == '.')
    return invalid_namespace("Collection names cannot end with '.': " + name);
  if (collection.find('$') != std::string_view::npos)
    return invalid_namespace("Invalid collection name: '" + name + "' may not contain '$'");
  return {};
}

Result<DocumentView> ensure_id(DocumentView document, Buffer& out) {
  out.clear();
  const Element first = document.first();
  const Element id = document.find("_id");
  if (!id.missing()) MULTIFORA_TRY_R(check_id(id.value()));
  DocumentBuilder builder(&out);
  if (id.missing()) {
    builder.append("_id", ObjectId::generate());
    builder.append_all(document);
  } else if (first.name() == "_id") {
    builder.append_all(document);
  } else {
    builder.append(id);
    bool moved = false;
    for (const Element& element : document) {
      if (!moved && element.name() == "_id") {
        moved = true;
        continue;
      }
      builder.append(element);
    }
  }
  builder.close();
  return DocumentView::assume_valid(Bytes(out));
}

}  // namespace multifora
