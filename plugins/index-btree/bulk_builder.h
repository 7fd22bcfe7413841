// Index builds: keys in any order, sorted within a memory budget (spilling sorted runs to temporary
// files and merging them), written as a packed tree.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/plugin/index.h"
#include "core/storage/tree.h"
#include "plugins/index-btree/key_sort.h"

namespace multifora {

class BtreeIndex;

class BtreeBulkBuilder final : public IndexBulkBuilder {
 public:
  BtreeBulkBuilder(Pager& pager, const BtreeIndex& index, std::uint64_t memory_budget_bytes,
                   std::string temp_directory);
  ~BtreeBulkBuilder() override;
  Status add(const IndexKeySet& keys, RecordId id) override;
  Status make_room() override;
  Result<IndexState> finish(
      const std::function<Status(std::uint64_t, std::uint64_t)>& progress) override;
  const std::vector<IndexKey>& duplicates() const override { return duplicates_; }
  PageStash& stash() override { return tree_.stash(); }
  void link() override { tree_.link(); }

 private:
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using TempFile = std::unique_ptr<std::FILE, FileCloser>;
  struct Run;
  using Progress = std::function<Status(std::uint64_t, std::uint64_t)>;

  Status spill();
  Status merge(const Progress& progress);
  // The next key in order, its record id included.
  Status take(Bytes key, Bytes type_bits, const Progress& progress);
  Status note_duplicate(Bytes key, Bytes type_bits);

  const BtreeIndex& index_;
  const std::uint64_t memory_budget_bytes_;
  const std::string temp_directory_;
  KeySorter keys_;
  std::vector<TempFile> runs_;
  std::uint64_t total_ = 0;
  std::uint64_t multikey_fields_ = 0;
  TreeBuilder tree_;
  std::uint64_t taken_ = 0;
  Buffer last_;  // of a unique index: the key before, without its record id
  bool last_clashed_ = false;
  std::vector<IndexKey> duplicates_;
};

}  // namespace multifora
