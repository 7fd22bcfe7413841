// A checkpoint between its two steps. Owned by the pager; begin_checkpoint() fills it under the
// allocator mutex, after that only the thread in finish_checkpoint() looks at it.
#pragma once

#include <vector>

#include "core/storage/chunk_table.h"
#include "core/storage/meta_page.h"
#include "core/storage/types.h"

namespace multifora {

class Checkpoint {
 public:
  struct NewPage {
    std::uint64_t index = 0;  // of the table page, or of the directory page
    PageId id = kNoPage;
  };

  Status status;  // of the first step
  MetaPage meta;
  std::vector<PageId> born;     // pages born since the checkpoint before
  std::vector<NewPage> tables;  // table pages to write
  std::vector<NewPage> directories;
  std::vector<ChunkEntry> entries;  // kEntriesPerTablePage for each of `tables`
};

}  // namespace multifora
