#include "core/store/kept_setting.h"

#include "core/bson/builder.h"
#include "core/store/store.h"

namespace multifora {

Result<OwnedDocument> read_setting(Store& store, std::string_view ns, std::string_view id) {
  MULTIFORA_ASSIGN_R(const auto view, store.read(ns));
  if (!view) return OwnedDocument();
  DocumentBuilder key;
  key.append("_id", id);
  const OwnedDocument by_id = std::move(key).finish();
  MULTIFORA_ASSIGN_R(const RecordId record, view->find_id(by_id.view()["_id"]));
  if (record == 0) return OwnedDocument();
  MULTIFORA_ASSIGN_R(const auto found, view->find(record));
  return found ? OwnedDocument(*found) : OwnedDocument();
}

Result<LogPosition> write_setting(Store& store, std::string_view ns, DocumentView document) {
  MULTIFORA_ASSIGN_R(const auto writer, store.write(ns, true));
  MULTIFORA_ASSIGN_R(const RecordId record, writer->view().find_id(document["_id"]));
  if (record == 0) {
    MULTIFORA_TRY_R(status_of(writer->insert(document)));
  } else {
    MULTIFORA_ASSIGN_R(const auto before, writer->view().find(record));
    MULTIFORA_TRY_R(writer->update(record, *before, document));
  }
  return writer->commit();
}

}  // namespace multifora
