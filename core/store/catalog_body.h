// What the documents that describe changes of the catalog must look like (log_record.h), and the description
// of a collection (catalog_table.h): fields and their types. Bytes whose hash is right may still be another
// version's, or forged; who reads a body that was checked here may take its fields for what they are.
//
// Functions of values: any thread.
#pragma once

#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/store/log_record.h"

namespace multifora {

// DataCorruptionDetected with the field that is missing or of a wrong type. OK for operations whose body is
// no description.
Status check_catalog_body(LogOperation operation, DocumentView body);
// The same for a row 'D' of the catalog.
Status check_collection_description(DocumentView description);

}  // namespace multifora
