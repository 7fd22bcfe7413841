// Temporary files for queries that outgrow their memory, and two things made of them:
//
//   DocumentSpool: documents in the order they were added, read back any number of times;
//   ExternalSorter: (key, document) pairs, given back in the order of their keys (memcmp) and,
//     for equal keys, of their adding. With a limit it keeps only that many.
//
// Both keep their content in memory up to a budget. Files lie in the store's temporary directory,
// belong to one object and go with it. One thread at a time. Errors: those of the file system, and
// QueryExceededMemoryLimitNoDiskUseAllowed where disk use is not allowed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

struct SpillOptions {
  std::string directory;  // empty: the system's
  std::uint64_t memory_limit_bytes = limits::kQueryMemoryMax;
  bool allow_disk_use = true;
  std::string_view stage;  // for messages: "Sort", "$group"
};

// An append-only temporary file with buffered writes; removed when destroyed.
class SpillFile {
 public:
  static Result<std::unique_ptr<SpillFile>> create(const std::string& directory);
  ~SpillFile();
  Status append(Bytes bytes);
  // Everything appended can be read afterwards.
  Status flush();
  std::uint64_t size() const { return size_; }
  const File& file() const { return *file_; }

 private:
  SpillFile() = default;
  std::string path_;
  std::unique_ptr<File> file_;
  Buffer pending_;
  std::uint64_t size_ = 0;
};

// Reads a range of a spill file piece by piece.
class SpillReader {
 public:
  SpillReader(const SpillFile& file, std::uint64_t from, std::uint64_t to)
      : file_(&file), at_(from), end_(to) {}
  bool done() const { return at_ >= end_; }
  // The next n bytes; they live until the next call.
  Result<Bytes> take(std::size_t n);

 private:
  const SpillFile* file_;
  std::uint64_t at_, end_;
  Buffer buffer_;
  std::uint64_t buffer_at_ = 0;
};

Status spill_refused(const SpillOptions& options);

class DocumentSpool {
 public:
  explicit DocumentSpool(SpillOptions options) : options_(std::move(options)) {}
  Status add(DocumentView document);
  std::uint64_t count() const { return count_; }

  class Reader {
   public:
    // Lives until the next call.
    Result<std::optional<DocumentView>> next();

   private:
    friend class DocumentSpool;
    explicit Reader(const DocumentSpool& spool) : spool_(&spool) {}
    const DocumentSpool* spool_;
    std::size_t memory_at_ = 0;
    std::unique_ptr<SpillReader> file_;
    Buffer buffer_;
  };
  // Nothing may be added any more. The spool outlives the reader.
  Result<Reader> read();

 private:
  SpillOptions options_;
  Buffer memory_;  // the first part, back to back
  std::unique_ptr<SpillFile> file_;  // the rest
  std::uint64_t count_ = 0;
};

class ExternalSorter {
 public:
  // limit 0: none.
  ExternalSorter(SpillOptions options, std::uint64_t limit);
  ~ExternalSorter();
  Status add(Bytes key, DocumentView document);
  Status finish();  // before the first next()
  struct Item {
    Bytes key;
    DocumentView document;
  };
  // Lives until the next call.
  Result<std::optional<Item>> next();

 private:
  struct Entry {
    std::string key;  // with the number of its adding at the end
    Buffer document;
    std::size_t bytes() const { return key.size() + document.size() + sizeof(Entry); }
    bool operator<(const Entry& other) const { return key < other.key; }
  };
  struct Run;
  Status spill();
  void add_limited(Entry entry);

  SpillOptions options_;
  std::uint64_t limit_;
  std::uint64_t serial_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<Entry> entries_;  // with a limit: a heap, greatest first
  std::size_t at_ = 0;
  std::unique_ptr<SpillFile> file_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Run*> heap_;  // least first
  Run* last_ = nullptr;     // the run whose item was given out
  std::uint64_t given_ = 0;
};

}  // namespace multifora
