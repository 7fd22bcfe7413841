#include "core/plugin/command.h"

namespace multifora {

std::string CommandRequest::ns() const {
  std::string ns(db_);
  ns += '.';
  if (target().type() == BsonType::kString) ns += target().as_string();
  return ns;
}

bool CommandRequest::flag(std::string_view name, bool otherwise) const {
  const ValueView value = body_[name];
  return value.missing() ? otherwise : value.truthy();
}

std::int64_t CommandRequest::integer(std::string_view name, std::int64_t otherwise) const {
  const ValueView value = body_[name];
  return value.is_number() ? value.number_as_int64() : otherwise;
}

DocumentView CommandRequest::document(std::string_view name) const {
  const ValueView value = body_[name];
  const bool is_document = value.type() == BsonType::kObject || value.type() == BsonType::kArray;
  return is_document ? value.as_document() : DocumentView();
}

std::vector<DocumentView> CommandRequest::documents(std::string_view name) const {
  for (const DocumentSequence& sequence : sequences_)
    if (sequence.name == name) return sequence.documents;
  std::vector<DocumentView> found;
  const ValueView value = body_[name];
  if (value.type() != BsonType::kArray) return found;
  for (const Element& element : value.as_document())
    if (element.type() == BsonType::kObject) found.push_back(element->as_document());
  return found;
}

}  // namespace multifora
