#include "plugins/query-engine/document_edit.h"

namespace multifora {

void FieldList::set(std::string_view name, const ValueView& value) {
  const auto [it, added] = index_.try_emplace(name, fields_.size());
  if (added)
    fields_.emplace_back(name, value);
  else
    fields_[it->second].second = value;
}

OwnedDocument FieldList::document() const {
  DocumentBuilder out;
  for (const auto& [name, value] : fields_) out.append(name, value);
  return std::move(out).finish();
}

namespace {

void build(DocumentBuilder& out, DocumentView document, std::string_view path,
           const ValueView& value) {
  const std::size_t dot = path.find('.');
  const std::string_view head = path.substr(0, dot);
  const auto put = [&](const ValueView& old) {
    if (dot == std::string_view::npos) {
      out.append(head, value);
      return;
    }
    if (value.missing() && old.type() != BsonType::kObject) {
      out.append(head, old);
      return;
    }
    DocumentBuilder sub = out.object(head);
    build(sub, old.type() == BsonType::kObject ? old.as_document() : DocumentView(),
          path.substr(dot + 1), value);
  };
  bool done = false;
  for (const Element& e : document) {
    if (e.name() != head || done) {
      out.append(e);
      continue;
    }
    put(e.value());
    done = true;
  }
  if (!done && !value.missing()) put(ValueView());
}

}  // namespace

void append_with_path(Buffer& out, DocumentView document, std::string_view path,
                      const ValueView& value) {
  DocumentBuilder builder(&out);
  build(builder, document, path, value);
}

}  // namespace multifora
