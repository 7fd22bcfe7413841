// Small edits of documents that expressions and stages share.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/bytes.h"
#include "core/bson/builder.h"
#include "core/bson/view.h"

namespace multifora {

// Fields in the order of their first appearance; a later value of the same name replaces the
// earlier one. Views: names and values must outlive the list. One thread.
class FieldList {
 public:
  void set(std::string_view name, const ValueView& value);
  OwnedDocument document() const;

 private:
  std::vector<std::pair<std::string_view, ValueView>> fields_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

// Appends `document` to `out` with the value at the dotted path `path` set (objects are made on the
// way; what is not an object there is replaced). A missing value removes the field.
void append_with_path(Buffer& out, DocumentView document, std::string_view path,
                      const ValueView& value);

}  // namespace multifora
