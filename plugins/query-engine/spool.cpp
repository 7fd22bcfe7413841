#include "plugins/query-engine/spool.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include <fmt/format.h>

namespace multifora {
namespace {

constexpr std::size_t kBlockBytes = 256 << 10;
constexpr std::size_t kSerialBytes = 8;

}  // namespace

Status spill_refused(const SpillOptions& options) {
  return {
      ErrorCode::kQueryExceededMemoryLimitNoDiskUseAllowed,
      fmt::format("{} exceeded memory limit of {} bytes, but did not opt in to external sorting. "
                  "Aborting operation. Pass allowDiskUse:true to opt in.",
                  options.stage, options.memory_limit_bytes)};
}

// ---------------------------------------------------------------- files

Result<std::unique_ptr<SpillFile>> SpillFile::create(const std::string& directory) {
  static std::atomic<std::uint64_t> counter{0};
  const std::string folder =
      directory.empty() ? std::filesystem::temp_directory_path().string() : directory;
  auto file = std::unique_ptr<SpillFile>(new SpillFile());
  file->path_ = fmt::format("{}/spill-{}-{}", folder, ::getpid(), counter++);
  MULTIFORA_ASSIGN_R(file->file_, posix_file_system().open(file->path_, OpenMode::kCreate));
  return file;
}

SpillFile::~SpillFile() {
  file_.reset();
  if (!path_.empty()) static_cast<void>(posix_file_system().remove(path_));
}

Status SpillFile::append(Bytes bytes) {
  pending_.append(bytes);
  return pending_.size() >= kBlockBytes ? flush() : Status();
}

Status SpillFile::flush() {
  if (pending_.empty()) return {};
  MULTIFORA_TRY(file_->write(size_, pending_));
  size_ += pending_.size();
  pending_.clear();
  return {};
}

Result<Bytes> SpillReader::take(std::size_t n) {
  const std::uint64_t have = buffer_at_ + buffer_.size();
  if (at_ < buffer_at_ || at_ + n > have) {
    const std::size_t wanted = std::min<std::uint64_t>(std::max(n, kBlockBytes), end_ - at_);
    buffer_.resize(wanted);
    buffer_at_ = at_;
    MULTIFORA_ASSIGN_R(const std::size_t got, file_->file().read(at_, buffer_.data(), wanted));
    if (got < n)
      return fail(ErrorCode::kFileStreamFailed, "a temporary file is shorter than it was");
  }
  const Bytes out(buffer_.data() + (at_ - buffer_at_), n);
  at_ += n;
  return out;
}

namespace {

// A document where a reader stands.
Result<DocumentView> take_document(SpillReader& reader, Buffer& into) {
  MULTIFORA_ASSIGN_R(const Bytes head, reader.take(4));
  const auto size = static_cast<std::size_t>(load_le<std::int32_t>(head.data()));
  into.assign(head);
  MULTIFORA_ASSIGN_R(const Bytes rest, reader.take(size - 4));
  into.append(rest);
  return DocumentView::assume_valid(Bytes(into));
}

}  // namespace

// ---------------------------------------------------------------- DocumentSpool

Status DocumentSpool::add(DocumentView document) {
  ++count_;
  if (!file_) {
    if (memory_.size() + document.size_bytes() <= options_.memory_limit_bytes) {
      memory_.append(document.bytes());
      return {};
    }
    if (!options_.allow_disk_use) return spill_refused(options_);
    MULTIFORA_ASSIGN(file_, SpillFile::create(options_.directory));
  }
  return file_->append(document.bytes());
}

Result<DocumentSpool::Reader> DocumentSpool::read() {
  if (file_) MULTIFORA_TRY_R(file_->flush());
  return Reader(*this);
}

Result<std::optional<DocumentView>> DocumentSpool::Reader::next() {
  if (memory_at_ < spool_->memory_.size()) {
    const DocumentView d = DocumentView::assume_valid(spool_->memory_.data() + memory_at_);
    memory_at_ += d.size_bytes();
    return d;
  }
  if (!spool_->file_) return std::nullopt;
  if (!file_) file_ = std::make_unique<SpillReader>(*spool_->file_, 0, spool_->file_->size());
  if (file_->done()) return std::nullopt;
  MULTIFORA_ASSIGN_R(const DocumentView d, take_document(*file_, buffer_));
  return d;
}

// ---------------------------------------------------------------- ExternalSorter

struct ExternalSorter::Run {
  Run(const SpillFile& file, std::uint64_t from, std::uint64_t to) : reader(file, from, to) {}
  SpillReader reader;
  std::string key;
  Buffer document;

  Result<bool> advance() {
    if (reader.done()) return false;
    MULTIFORA_ASSIGN_R(const Bytes head, reader.take(4));
    const auto size = load_le<std::uint32_t>(head.data());
    MULTIFORA_ASSIGN_R(const Bytes bytes, reader.take(size));
    key.assign(bytes);
    MULTIFORA_ASSIGN_R([[maybe_unused]] const DocumentView d, take_document(reader, document));
    return true;
  }
};

namespace {
constexpr auto kLater = [](const auto* a, const auto* b) { return b->key < a->key; };
}  // namespace

ExternalSorter::ExternalSorter(SpillOptions options, std::uint64_t limit)
    : options_(std::move(options)), limit_(limit) {}
ExternalSorter::~ExternalSorter() = default;

Status ExternalSorter::add(Bytes key, DocumentView document) {
  Entry entry;
  entry.key.reserve(key.size() + kSerialBytes);
  entry.key.append(key);
  append_be(entry.key, serial_++);
  // With a limit, most documents are turned away before they are copied.
  if (limit_ != 0 && entries_.size() == limit_ && !(entry < entries_.front())) return {};
  entry.document.assign(document.bytes());
  bytes_ += entry.bytes();
  if (limit_ != 0)
    add_limited(std::move(entry));
  else
    entries_.push_back(std::move(entry));
  if (bytes_ <= options_.memory_limit_bytes) return {};
  if (!options_.allow_disk_use) return spill_refused(options_);
  return spill();
}

void ExternalSorter::add_limited(Entry entry) {
  entries_.push_back(std::move(entry));
  std::push_heap(entries_.begin(), entries_.end());
  if (entries_.size() <= limit_) return;
  std::pop_heap(entries_.begin(), entries_.end());
  bytes_ -= entries_.back().bytes();
  entries_.pop_back();
}

Status ExternalSorter::spill() {
  if (!file_) {
    MULTIFORA_ASSIGN(file_, SpillFile::create(options_.directory));
  }
  std::sort(entries_.begin(), entries_.end());
  MULTIFORA_TRY(file_->flush());
  const std::uint64_t from = file_->size();
  for (const Entry& e : entries_) {
    Buffer head;
    append_le(head, static_cast<std::uint32_t>(e.key.size()));
    MULTIFORA_TRY(file_->append(head));
    MULTIFORA_TRY(file_->append(e.key));
    MULTIFORA_TRY(file_->append(e.document));
  }
  MULTIFORA_TRY(file_->flush());
  runs_.push_back(std::make_unique<Run>(*file_, from, file_->size()));
  entries_.clear();
  bytes_ = 0;
  return {};
}

Status ExternalSorter::finish() {
  if (runs_.empty()) {
    std::sort(entries_.begin(), entries_.end());
    return {};
  }
  if (!entries_.empty()) MULTIFORA_TRY(spill());
  for (const auto& run : runs_) {
    MULTIFORA_ASSIGN(const bool more, run->advance());
    if (more) heap_.push_back(run.get());
  }
  std::make_heap(heap_.begin(), heap_.end(), kLater);
  return {};
}

Result<std::optional<ExternalSorter::Item>> ExternalSorter::next() {
  if (limit_ != 0 && given_ == limit_) return std::nullopt;
  const auto item = [&](const std::string& key, const Buffer& document) {
    ++given_;
    return Item{Bytes(key).substr(0, key.size() - kSerialBytes),
                DocumentView::assume_valid(Bytes(document))};
  };
  if (runs_.empty()) {
    if (at_ > 0) entries_[at_ - 1] = Entry();  // given out before; free it
    if (at_ == entries_.size()) return std::nullopt;
    const Entry& e = entries_[at_++];
    return item(e.key, e.document);
  }
  if (last_ != nullptr) {
    MULTIFORA_ASSIGN_R(const bool more, last_->advance());
    if (more) {
      heap_.push_back(last_);
      std::push_heap(heap_.begin(), heap_.end(), kLater);
    }
    last_ = nullptr;
  }
  if (heap_.empty()) return std::nullopt;
  std::pop_heap(heap_.begin(), heap_.end(), kLater);
  last_ = heap_.back();
  heap_.pop_back();
  return item(last_->key, last_->document);
}

}  // namespace multifora
