// SORT: by key strings, so that comparing is memcmp. With a limit only the best rows are kept;
// without one, or past the memory limit, sorted runs go to temporary files.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "plugins/query-engine/executor.h"

namespace multifora {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using TempFile = std::unique_ptr<std::FILE, FileCloser>;

// A row: this header, then the key, then the document.
struct RowHeader {
  std::uint32_t key_bytes = 0;
  std::uint32_t document_bytes = 0;
  std::uint64_t id = 0;
  std::int64_t array_index = -1;
};

Bytes key_of(const char* row) {
  return {row + sizeof(RowHeader), load_le<RowHeader>(row).key_bytes};
}

Status temp_failed(const char* what) {
  return {ErrorCode::kFileStreamFailed,
          std::string("sort: cannot ") + what + " a temporary file: " + std::strerror(errno)};
}

// Rows in memory, in chunks that never move.
class RowArena {
 public:
  const char* add(Bytes key, DocumentView document, const Row& row) {
    const Bytes body = document.bytes();
    const std::size_t size = sizeof(RowHeader) + key.size() + body.size();
    if (chunks_.empty() || left_ < size) {
      const std::size_t chunk = std::max<std::size_t>(size, kChunk);
      chunks_.push_back(std::make_unique_for_overwrite<char[]>(chunk));
      at_ = chunks_.back().get();
      left_ = chunk;
      bytes_ += chunk;
    }
    char* start = at_;
    RowHeader header{static_cast<std::uint32_t>(key.size()),
                     static_cast<std::uint32_t>(body.size()), row.id, row.array_index};
    std::memcpy(start, &header, sizeof header);
    std::memcpy(start + sizeof header, key.data(), key.size());
    std::memcpy(start + sizeof header + key.size(), body.data(), body.size());
    at_ += size;
    left_ -= size;
    return start;
  }
  std::uint64_t bytes() const { return bytes_; }
  void clear() {
    chunks_.clear();
    bytes_ = left_ = 0;
  }

 private:
  static constexpr std::size_t kChunk = 256 * 1024;
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* at_ = nullptr;
  std::size_t left_ = 0;
  std::uint64_t bytes_ = 0;
};

std::size_t row_size(const char* row) {
  const auto header = load_le<RowHeader>(row);
  return sizeof header + header.key_bytes + header.document_bytes;
}

// A sorted run in a file.
struct Run {
  TempFile file;
  Buffer row;

  Result<bool> next() {
    row.resize(sizeof(RowHeader));
    const std::size_t got = std::fread(row.data(), 1, sizeof(RowHeader), file.get());
    if (got == 0 && std::feof(file.get()) != 0) return false;
    if (got != sizeof(RowHeader)) return fail(temp_failed("read"));
    const std::size_t rest = row_size(row.data()) - sizeof(RowHeader);
    row.resize(sizeof(RowHeader) + rest);
    if (std::fread(row.data() + sizeof(RowHeader), 1, rest, file.get()) != rest)
      return fail(temp_failed("read"));
    return true;
  }
};

class SortStage final : public ExecStage {
 public:
  using ExecStage::ExecStage;
  bool exhausted() const override {
    return sorted_ && (runs_.empty() ? given_ >= rows_.size() : heads_.empty());
  }

 protected:
  Result<bool> advance(Row& row) override {
    if (!sorted_) {
      MULTIFORA_TRY_R(read_all());
      sorted_ = true;
    }
    if (!runs_.empty()) return next_of_runs(row);
    if (given_ >= rows_.size()) return false;
    give(rows_[given_++].row, row);
    return true;
  }

 private:
  struct Entry {
    std::uint64_t head;  // first bytes of the key, for most comparisons
    const char* row;
  };

  static std::uint64_t head_of(Bytes key) {
    char head[8] = {};
    std::memcpy(head, key.data(), std::min<std::size_t>(key.size(), sizeof head));
    return load_be<std::uint64_t>(head);
  }
  static bool before(const Entry& a, const Entry& b) {
    if (a.head != b.head) return a.head < b.head;
    return key_of(a.row) < key_of(b.row);
  }

  static void give(const char* bytes, Row& row) {
    const auto header = load_le<RowHeader>(bytes);
    row.id = header.id;
    row.array_index = header.array_index;
    row.document = DocumentView::assume_valid(bytes + sizeof header + header.key_bytes);
    row.has_document = true;
    row.index = nullptr;
  }

  Status read_all() {
    Row row;
    KeyStringBuilder key;
    limit_ = plan_.sort_limit > 0 ? static_cast<std::size_t>(plan_.sort_limit) : 0;
    while (true) {
      MULTIFORA_ASSIGN(const bool found, child().next(row));
      if (!found) break;
      key.clear();
      MULTIFORA_TRY(plan_.sort->append_key(row.document, context_.collator, key));
      MULTIFORA_TRY(add(key.key(), row));
    }
    if (runs_.empty()) {
      sort_rows();
      return {};
    }
    if (!rows_.empty()) MULTIFORA_TRY(spill());
    return start_merge();
  }

  Status add(Bytes key, const Row& row) {
    // Rows that cannot be among the first ones any more need no space.
    if (bound_ != nullptr && key >= key_of(bound_)) return {};
    const char* kept = arena_.add(key, row.document, row);
    rows_.push_back({head_of(key), kept});
    if (limit_ > 0 && rows_.size() >= 2 * std::max<std::size_t>(limit_, 64)) cut();
    memory_bytes_ = std::max(memory_bytes_, arena_.bytes() + rows_.size() * sizeof(Entry));
    if (arena_.bytes() + rows_.size() * sizeof(Entry) < context_.memory_limit_bytes) return {};
    if (limit_ > 0 && rows_.size() > limit_) {
      cut();
      if (arena_.bytes() < context_.memory_limit_bytes / 2) return {};
    }
    if (!context_.allow_disk_use)
      return {ErrorCode::kQueryExceededMemoryLimitNoDiskUseAllowed,
              "Sort exceeded memory limit of " + std::to_string(context_.memory_limit_bytes) +
                  " bytes, but did not opt in to external sorting."};
    return spill();
  }

  void sort_rows() {
    std::stable_sort(rows_.begin(), rows_.end(), before);
    if (limit_ > 0 && rows_.size() > limit_) rows_.resize(limit_);
  }

  // Keeps the first `limit_` rows, in a fresh arena.
  void cut() {
    sort_rows();
    RowArena fresh;
    for (Entry& entry : rows_) {
      Row row;
      give(entry.row, row);
      entry.row = fresh.add(key_of(entry.row), row.document, row);
    }
    arena_ = std::move(fresh);
    bound_ = rows_.size() == limit_ ? rows_.back().row : nullptr;
  }

  Status spill() {
    sort_rows();
    std::string path = context_.temp_directory + "/sort-XXXXXX";
    const int descriptor = mkostemp(path.data(), O_CLOEXEC);
    if (descriptor < 0) return temp_failed("create");
    unlink(path.c_str());  // gone with the last close, also after a crash
    TempFile file(fdopen(descriptor, "w+b"));
    if (!file) return temp_failed("open");
    for (const Entry& entry : rows_) {
      const std::size_t size = row_size(entry.row);
      if (std::fwrite(entry.row, 1, size, file.get()) != size) return temp_failed("write");
    }
    if (std::fflush(file.get()) != 0) return temp_failed("write");
    std::rewind(file.get());
    runs_.push_back({std::move(file), {}});
    ++spills_;
    rows_.clear();
    arena_.clear();
    bound_ = nullptr;
    return {};
  }

  bool comes_later(std::size_t a, std::size_t b) const {
    const int order = key_of(runs_[a].row.data()).compare(key_of(runs_[b].row.data()));
    return order != 0 ? order > 0 : a > b;
  }

  Status push_run(std::size_t which) {
    MULTIFORA_ASSIGN(const bool more, runs_[which].next());
    if (!more) return {};
    heads_.push_back(which);
    std::push_heap(heads_.begin(), heads_.end(),
                   [this](std::size_t a, std::size_t b) { return comes_later(a, b); });
    return {};
  }

  Status start_merge() {
    for (std::size_t i = 0; i < runs_.size(); ++i) MULTIFORA_TRY(push_run(i));
    return {};
  }

  // The run whose row was given last is only read on when the next row is asked for.
  Result<bool> next_of_runs(Row& row) {
    if (pending_ >= 0) {
      const auto which = static_cast<std::size_t>(pending_);
      pending_ = -1;
      MULTIFORA_TRY_R(push_run(which));
    }
    if (heads_.empty()) return false;
    std::pop_heap(heads_.begin(), heads_.end(),
                  [this](std::size_t a, std::size_t b) { return comes_later(a, b); });
    pending_ = static_cast<std::int64_t>(heads_.back());
    heads_.pop_back();
    give(runs_[static_cast<std::size_t>(pending_)].row.data(), row);
    return true;
  }

  RowArena arena_;
  std::vector<Entry> rows_;
  std::vector<Run> runs_;
  std::vector<std::size_t> heads_;
  std::int64_t pending_ = -1;
  std::size_t limit_ = 0;
  const char* bound_ = nullptr;  // the last row that can still be among the first `limit_`
  std::size_t given_ = 0;
  bool sorted_ = false;
};

}  // namespace

std::unique_ptr<ExecStage> make_sort_stage(const PlanNode& plan, ExecContext& context) {
  return std::make_unique<SortStage>(plan, context);
}

}  // namespace multifora
