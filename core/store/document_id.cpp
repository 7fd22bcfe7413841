// The _id of a document that is to be stored: MongoDB's rules.
#include "core/bson/builder.h"
#include "core/store/store.h"

namespace multifora {
namespace {

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

// A document that has its _id first is returned as it is: nothing is copied.
Result<DocumentView> ensure_id(DocumentView document, Buffer& out) {
  out.clear();
  const Element first = document.first();
  const Element id = document.find("_id");
  if (!id.missing()) MULTIFORA_TRY_R(check_id(id.value()));
  if (!id.missing() && first.name() == "_id") return document;
  DocumentBuilder builder(&out);
  if (id.missing()) {
    builder.append("_id", ObjectId::generate());
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
