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
constexpr std::size_t kEntryHeaderSize = 8;
constexpr std::uint64_t kBudgetMin = 16u << 20;
constexpr std::uint64_t kProgressEvery = 8192;

std::uint64_t key_head(Bytes key) {
  char head[8] = {};
  std::memcpy(head, key.data(), std::min<std::size_t>(key.size(), sizeof head));
  return load_be<std::uint64_t>(head);
}

Status temp_failed(const char* what) {
  return {errno == ENOSPC ? ErrorCode::kOutOfDiskSpace : ErrorCode::kFileStreamFailed,
          std::string("index build: cannot ") + what + " a temporary file: " +
              std::strerror(errno)};
}

}  // namespace

// A sorted run in a temporary file, read in order.
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

// Takes the merged keys: watches for duplicates and feeds the tree.
class BtreeBulkBuilder::Sink {
 public:
  Sink(Pager& pager, const BtreeIndex& index, std::uint64_t total,
       const std::function<Status(std::uint64_t, std::uint64_t)>& progress)
      : index_(index),
        builder_(pager, index.spec().owner),
        total_(total),
        progress_(progress) {}

  Status take(Bytes key, Bytes type_bits) {
    if (index_.spec().unique) {
      const Bytes without_id = key.substr(0, key.size() - kIdSize);
      if (count_ > 0 && without_id == last_)
        return duplicate_key(index_, {Buffer(without_id), Buffer(type_bits)});
      last_ = without_id;
    }
    if (++count_ % kProgressEvery == 0) MULTIFORA_TRY(progress_(count_, total_));
    return builder_.add(key, type_bits);
  }
  Result<TreeRoot> finish() { return builder_.finish(); }

 private:
  const BtreeIndex& index_;
  TreeBuilder builder_;
  std::uint64_t total_;
  const std::function<Status(std::uint64_t, std::uint64_t)>& progress_;
  std::uint64_t count_ = 0;
  Buffer last_;
};

BtreeBulkBuilder::BtreeBulkBuilder(Pager& pager, const BtreeIndex& index,
                                   std::uint64_t memory_budget_bytes, std::string temp_directory)
    : pager_(pager),
      index_(index),
      memory_budget_bytes_(std::max(memory_budget_bytes, kBudgetMin)),
      temp_directory_(std::move(temp_directory)) {}

BtreeBulkBuilder::~BtreeBulkBuilder() = default;

Bytes BtreeBulkBuilder::entry_key(const Entry& entry) const {
  const char* at = arena_.data() + entry.offset;
  return {at + kEntryHeaderSize, load_le<std::uint32_t>(at)};
}

Bytes BtreeBulkBuilder::entry_type_bits(const Entry& entry) const {
  const char* at = arena_.data() + entry.offset;
  return {at + kEntryHeaderSize + load_le<std::uint32_t>(at), load_le<std::uint32_t>(at + 4)};
}

Status BtreeBulkBuilder::add(const IndexKeySet& keys, RecordId id) {
  multikey_fields_ |= keys.multikey_fields;
  for (const IndexKey& key : keys.keys) {
    const std::uint64_t offset = arena_.size();
    append_le<std::uint32_t>(arena_, static_cast<std::uint32_t>(key.key.size() + kIdSize));
    append_le<std::uint32_t>(arena_, static_cast<std::uint32_t>(key.type_bits.size()));
    arena_ += key.key;
    append_be<RecordId>(arena_, id);
    arena_ += key.type_bits;
    Entry entry{0, offset};
    entry.head = key_head(entry_key(entry));
    entries_.push_back(entry);
    ++total_;
  }
  const std::uint64_t used = arena_.size() + entries_.size() * sizeof(Entry);
  return used < memory_budget_bytes_ ? Status() : spill();
}

void BtreeBulkBuilder::sort_entries() {
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    if (a.head != b.head) return a.head < b.head;
    return entry_key(a) < entry_key(b);
  });
}

Status BtreeBulkBuilder::spill() {
  sort_entries();
  std::string path = temp_directory_ + "/index-XXXXXX";
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return temp_failed("create");
  unlink(path.c_str());  // gone with the last close, also after a crash
  TempFile file(fdopen(descriptor, "w+b"));
  if (!file) return temp_failed("open");
  for (const Entry& entry : entries_) {
    const Bytes key = entry_key(entry);
    const std::size_t size = kEntryHeaderSize + key.size() + entry_type_bits(entry).size();
    if (std::fwrite(arena_.data() + entry.offset, 1, size, file.get()) != size)
      return temp_failed("write");
  }
  if (std::fflush(file.get()) != 0) return temp_failed("write");
  std::rewind(file.get());
  runs_.push_back(std::move(file));
  arena_.clear();
  entries_.clear();
  return {};
}

// Merges the runs and what is still in memory, which is spilled first when there are runs.
Status BtreeBulkBuilder::merge(Sink& sink) {
  if (runs_.empty()) {
    sort_entries();
    for (const Entry& entry : entries_)
      MULTIFORA_TRY(sink.take(entry_key(entry), entry_type_bits(entry)));
    return {};
  }
  if (!entries_.empty()) MULTIFORA_TRY(spill());
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
    MULTIFORA_TRY(sink.take(runs[i].key, runs[i].type_bits));
    MULTIFORA_ASSIGN(const bool more, runs[i].next());
    if (more) heads.push(i);
  }
  return {};
}

Result<IndexState> BtreeBulkBuilder::finish(
    const std::function<Status(std::uint64_t, std::uint64_t)>& progress) {
  Sink sink(pager_, index_, total_, progress);
  MULTIFORA_TRY_R(progress(0, total_));
  MULTIFORA_TRY_R(merge(sink));
  BtreeState state;
  MULTIFORA_ASSIGN_R(state.root, sink.finish());
  state.multikey_fields = multikey_fields_;
  return state.to();
}

}  // namespace multifora
