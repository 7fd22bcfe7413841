#include "plugins/index-btree/bulk_builder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <queue>

#include "core/store/collection_impl.h"
#include "plugins/index-btree/btree_index.h"

namespace multifora {
namespace {

constexpr std::size_t kIdSize = sizeof(RecordId);
constexpr std::uint64_t kBudgetMin = 16u << 20;
constexpr std::uint64_t kProgressEvery = 8192;
constexpr std::size_t kFileBufferSize = 256 * 1024;

Status temp_failed(const char* what) {
  return {errno == ENOSPC ? ErrorCode::kOutOfDiskSpace : ErrorCode::kFileStreamFailed,
          std::string("index build: cannot ") + what + " a temporary file: " +
              std::strerror(errno)};
}

}  // namespace

// A sorted run in a temporary file, read in order: u32 key size, u32 size of the type bits, key (with
// its record id), type bits.
struct BtreeBulkBuilder::Run {
  std::FILE* file = nullptr;
  Buffer key, type_bits;

  // False at the end.
  Result<bool> next() {
    std::uint32_t sizes[2];
    if (std::fread(sizes, 1, sizeof sizes, file) != sizeof sizes) {
      if (std::ferror(file) != 0) return fail(temp_failed("read"));
      return false;
    }
    key.resize(sizes[0]);
    type_bits.resize(sizes[1]);
    if (std::fread(key.data(), 1, key.size(), file) != key.size() ||
        std::fread(type_bits.data(), 1, type_bits.size(), file) != type_bits.size())
      return fail(temp_failed("read"));
    return true;
  }
};

BtreeBulkBuilder::BtreeBulkBuilder(Pager& pager, const BtreeIndex& index,
                                   std::uint64_t memory_budget_bytes, std::string temp_directory)
    : index_(index),
      memory_budget_bytes_(std::max(memory_budget_bytes, kBudgetMin)),
      temp_directory_(std::move(temp_directory)),
      tree_(pager, index.spec().owner) {}

BtreeBulkBuilder::~BtreeBulkBuilder() = default;

Status BtreeBulkBuilder::add(const IndexKeySet& keys, RecordId id) {
  multikey_fields_ |= keys.multikey_fields;
  for (const IndexKey& key : keys.keys) keys_.add(key.key, key.type_bits, id);
  total_ += keys.keys.size();
  return {};
}

Status BtreeBulkBuilder::make_room() {
  return keys_.memory_bytes() < memory_budget_bytes_ ? Status() : spill();
}

Status BtreeBulkBuilder::spill() {
  keys_.sort();
  std::string path = temp_directory_ + "/index-XXXXXX";
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return temp_failed("create");
  unlink(path.c_str());  // gone with the last close, also after a crash
  TempFile file(fdopen(descriptor, "w+b"));
  if (!file) return temp_failed("open");
  std::setvbuf(file.get(), nullptr, _IOFBF, kFileBufferSize);
  Buffer key, record;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    keys_.tree_key(i, &key);
    const Bytes type_bits = keys_.type_bits(i);
    record.clear();
    append_le(record, static_cast<std::uint32_t>(key.size()));
    append_le(record, static_cast<std::uint32_t>(type_bits.size()));
    record.append(key).append(type_bits);
    if (std::fwrite(record.data(), 1, record.size(), file.get()) != record.size())
      return temp_failed("write");
  }
  if (std::fflush(file.get()) != 0) return temp_failed("write");
  std::rewind(file.get());
  runs_.push_back(std::move(file));
  keys_.clear();
  return {};
}

Status BtreeBulkBuilder::note_duplicate(Bytes key, Bytes type_bits) {
  if (last_clashed_) return {};
  last_clashed_ = true;
  duplicates_.push_back({Buffer(key), Buffer(type_bits)});
  return duplicates_.size() > kIndexDuplicatesMax ? duplicate_key(index_, duplicates_.front())
                                                  : Status();
}

Status BtreeBulkBuilder::take(Bytes key, Bytes type_bits, const Progress& progress) {
  if (index_.spec().unique) {
    const Bytes without_id = key.substr(0, key.size() - kIdSize);
    if (taken_ > 0 && without_id == last_) {
      MULTIFORA_TRY(note_duplicate(without_id, type_bits));
    } else {
      last_ = without_id;
      last_clashed_ = false;
    }
  }
  if (++taken_ % kProgressEvery == 0) MULTIFORA_TRY(progress(taken_, total_));
  return tree_.add(key, type_bits);
}

// Merges the runs and what is still in memory, which is spilled first when there are runs.
Status BtreeBulkBuilder::merge(const Progress& progress) {
  if (runs_.empty()) {
    keys_.sort();
    Buffer key;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      keys_.tree_key(i, &key);
      MULTIFORA_TRY(take(key, keys_.type_bits(i), progress));
    }
    return {};
  }
  if (keys_.size() > 0) MULTIFORA_TRY(spill());
  std::vector<Run> runs(runs_.size());
  const auto later = [&runs](std::size_t a, std::size_t b) { return runs[a].key > runs[b].key; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> heads(later);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].file = runs_[i].get();
    MULTIFORA_ASSIGN(const bool more, runs[i].next());
    if (more) heads.push(i);
  }
  while (!heads.empty()) {
    const std::size_t i = heads.top();
    heads.pop();
    MULTIFORA_TRY(take(runs[i].key, runs[i].type_bits, progress));
    MULTIFORA_ASSIGN(const bool more, runs[i].next());
    if (more) heads.push(i);
  }
  return {};
}

Result<IndexState> BtreeBulkBuilder::finish(const Progress& progress) {
  MULTIFORA_TRY_R(progress(0, total_));
  MULTIFORA_TRY_R(merge(progress));
  keys_.clear();
  runs_.clear();
  BtreeState state;
  MULTIFORA_ASSIGN_R(state.root, tree_.finish());
  state.multikey_fields = multikey_fields_;
  return state.to();
}

}  // namespace multifora
