// Index builds: keys in any order, sorted within a memory budget (spilling sorted runs to temporary
// files and merging them), written as a packed tree.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/plugin/index.h"

namespace multifora {

class BtreeIndex;

class BtreeBulkBuilder final : public IndexBulkBuilder {
 public:
  BtreeBulkBuilder(Pager& pager, const BtreeIndex& index, std::uint64_t memory_budget_bytes,
                   std::string temp_directory);
  ~BtreeBulkBuilder() override;
  Status add(const IndexKeySet& keys, RecordId id) override;
  Result<IndexState> finish(
      const std::function<Status(std::uint64_t, std::uint64_t)>& progress) override;

 private:
  // An entry in the arena: u32 key size (record id included), u32 type-bits size, key, type bits.
  // The head (first eight key bytes, big-endian) decides most comparisons without touching it.
  struct Entry {
    std::uint64_t head;
    std::uint64_t offset;
  };
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using TempFile = std::unique_ptr<std::FILE, FileCloser>;
  struct Run;
  class Sink;

  void sort_entries();
  Status spill();
  Status merge(Sink& sink);
  Bytes entry_key(const Entry& entry) const;
  Bytes entry_type_bits(const Entry& entry) const;

  Pager& pager_;
  const BtreeIndex& index_;
  std::uint64_t memory_budget_bytes_;
  std::string temp_directory_;
  Buffer arena_;
  std::vector<Entry> entries_;
  std::vector<TempFile> runs_;
  std::uint64_t total_ = 0;
  std::uint64_t multikey_fields_ = 0;
};

}  // namespace multifora
