#include "core/store/history.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "core/plugin/codec.h"
#include "core/store/log_record.h"

namespace multifora {
namespace {

constexpr char kFileMagic[4] = {'M', 'F', 'H', 'F'};
constexpr char kBlockMagic[4] = {'M', 'F', 'H', 'B'};
constexpr std::uint8_t kVersion = 1;
constexpr std::string_view kSuffix = ".history";
constexpr std::size_t kBlockTarget = 256 * 1024;
constexpr std::size_t kRawMax = (std::size_t{1} << 30) + (std::size_t{64} << 20);
constexpr std::size_t kFiles = 32;  // that a full history has, about
constexpr std::uint64_t kFileBytesMin = 64 * 1024;
constexpr std::uint64_t kFileBytesMax = 32 * 1024 * 1024;
constexpr int kCodecSkip = 15;

struct FileHeader {
  char magic[4];
  std::uint8_t version;
  std::uint8_t reserved[3];
  char codec[8];
};
static_assert(sizeof(FileHeader) == 16);

struct BlockHeader {
  std::uint64_t hash;  // of what follows, and the stored payload
  char magic[4];
  std::uint32_t stored_size;
  std::uint32_t raw_size;
  std::uint32_t coding;  // 0: raw, 1: the file's codec
  LogPosition after;
  LogPosition last;
};
static_assert(sizeof(BlockHeader) == 40);

std::string file_name(LogPosition after) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(after));
  return std::string(text.data()) + std::string(kSuffix);
}

bool parse_file_name(std::string_view name, LogPosition* after) {
  if (name.size() != 16 + kSuffix.size() || !name.ends_with(kSuffix)) return false;
  const auto [end, error] = std::from_chars(name.data(), name.data() + 16, *after, 16);
  return error == std::errc() && end == name.data() + 16;
}

std::uint64_t hash_of(const BlockHeader& header, Bytes stored) {
  XXH3_state_t* const state = XXH3_createState();
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, reinterpret_cast<const char*>(&header) + sizeof header.hash,
                     sizeof header - sizeof header.hash);
  XXH3_64bits_update(state, stored.data(), stored.size());
  const std::uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

bool plausible(const BlockHeader& header, LogPosition after, std::uint64_t room) {
  return std::equal(std::begin(kBlockMagic), std::end(kBlockMagic), header.magic) &&
         header.stored_size <= room && header.raw_size <= kRawMax && header.coding <= 1 &&
         (header.coding == 1 || header.stored_size == header.raw_size) && header.after == after &&
         header.last > header.after;
}

// The names of a block: each from a position on.
class BlockNames final : public CollectionNames {
 public:
  bool parse(Bytes table) {
    while (!table.empty()) {
      if (table.size() < 30) return false;
      Row row;
      row.since = load_le<std::uint64_t>(table.data());
      row.id = load_le<CollectionId>(table.data() + 8);
      std::copy_n(table.data() + 12, 16, row.name.uuid.begin());
      const auto size = load_le<std::uint16_t>(table.data() + 28);
      table.remove_prefix(30);
      if (table.size() < size) return false;
      row.name.ns = table.substr(0, size);
      table.remove_prefix(size);
      rows_.push_back(std::move(row));
    }
    return true;
  }
  void at(LogPosition position) { position_ = position; }
  const CollectionName& name(CollectionId id) const override {
    for (auto row = rows_.rbegin(); row != rows_.rend(); ++row)
      if (row->id == id && row->since <= position_) return row->name;
    return unknown_;
  }

 private:
  struct Row {
    LogPosition since = 0;
    CollectionId id = 0;
    CollectionName name;
  };
  std::vector<Row> rows_;
  CollectionName unknown_;
  LogPosition position_ = 0;
};

}  // namespace

struct History::HistoryFile {
  std::unique_ptr<File> file;
  std::string path;
  const Codec* codec = nullptr;
  LogPosition after = 0;
  // Guarded by the history's mutex.
  LogPosition last = 0;
  std::uint64_t end = 0;
  struct Mark {
    LogPosition after;
    std::uint64_t offset;
  };
  std::vector<Mark> marks;  // of blocks; empty: not looked at yet
};

// Batches that are not written yet.
struct History::OpenBlock {
  LogPosition after = 0, last = 0;
  Buffer names, batches;
  std::unordered_map<CollectionId, std::string> known;  // the name in `names` that holds now
};

History::History(FileSystem& files, HistoryOptions options, LogSink& log)
    : files_(files), options_(std::move(options)), log_(log) {}
History::~History() = default;

LogPosition History::oldest() const {
  const std::lock_guard hold(mutex_);
  return oldest_;
}
LogPosition History::newest() const {
  const std::lock_guard hold(mutex_);
  return newest_;
}
std::uint64_t History::size_bytes() const {
  const std::lock_guard hold(mutex_);
  std::uint64_t bytes = 0;
  for (const FilePtr& file : list_) bytes += file->end;
  return bytes;
}

// --- opening ------------------------------------------------------------------------------------------

Result<History::FilePtr> History::load_file(const std::string& name) const {
  auto file = std::make_shared<HistoryFile>();
  file->path = options_.directory + "/" + name;
  if (!parse_file_name(name, &file->after)) return FilePtr();
  file->last = file->after;
  MULTIFORA_ASSIGN_R(file->file, files_.open(file->path, options_.read_only ? OpenMode::kReadOnly
                                                                            : OpenMode::kExisting));
  MULTIFORA_ASSIGN_R(file->end, file->file->size());
  FileHeader header{};
  MULTIFORA_ASSIGN_R(const std::size_t got, file->file->read(0, &header, sizeof header));
  if (got < sizeof header || header.version != kVersion ||
      !std::equal(std::begin(kFileMagic), std::end(kFileMagic), header.magic))
    return FilePtr();  // cut short when it was made, or another version's: it holds nothing
  const std::string_view codec(header.codec, strnlen(header.codec, sizeof header.codec));
  if (codec == "none") return file;
  file->codec = options_.find_codec ? options_.find_codec(codec) : nullptr;
  if (file->codec == nullptr)
    return fail(ErrorCode::kUnsupportedFormat,
                file->path + " was written with codec '" + std::string(codec) +
                    "', which no loaded plugin offers; load plugin codec-" + std::string(codec) +
                    ", or remove the directory and with it the history of changes");
  return file;
}

// Walks the blocks of a file up to the last whole one. Those up to `proven` were durable before the log
// gave up their batches, unless they are the last file's: it may be torn at its end.
Status History::find_end(HistoryFile& file, LogPosition proven) const {
  std::uint64_t at = sizeof(FileHeader);
  LogPosition after = file.after;
  const std::uint64_t size = file.end;
  Buffer stored;
  while (at + sizeof(BlockHeader) <= size) {
    BlockHeader header{};
    MULTIFORA_TRY(status_of(file.file->read(at, &header, sizeof header)));
    const std::uint64_t room = size - at - sizeof header;
    if (!plausible(header, after, room)) break;
    if (header.last > proven) {
      stored.resize(header.stored_size);
      MULTIFORA_TRY(status_of(file.file->read(at + sizeof header, stored.data(), stored.size())));
      if (hash_of(header, stored) != header.hash) break;
    }
    file.marks.push_back({after, at});
    after = header.last;
    at += sizeof header + header.stored_size;
  }
  file.last = after;
  file.end = at;
  return {};
}

Status History::open(LogPosition image) {
  oldest_ = newest_ = image;
  known_ = !files_.exists(options_.directory);
  if (known_) return {};
  MULTIFORA_ASSIGN(const std::vector<std::string> names, files_.list(options_.directory));
  for (const std::string& name : names) {
    MULTIFORA_ASSIGN(FilePtr file, load_file(name));
    if (file) list_.push_back(std::move(file));
  }
  std::sort(list_.begin(), list_.end(),
            [](const FilePtr& a, const FilePtr& b) { return a->after < b->after; });
  known_ = list_.size() == names.size();
  if (list_.empty()) return {};
  // A checkpoint's blocks are written in one go and synced at its end.
  for (const FilePtr& file : list_) {
    const bool last = file == list_.back();
    MULTIFORA_TRY(find_end(*file, last ? 0 : std::numeric_limits<LogPosition>::max()));
  }
  // What lies before a hole is of no use.
  for (std::size_t i = list_.size() - 1; i > 0; --i) {
    if (list_[i - 1]->last == list_[i]->after) continue;
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(i));
    known_ = false;
    break;
  }
  // It may be behind the data file's checkpoint: then the log still has the rest, or all is lost.
  oldest_ = list_.front()->after;
  newest_ = list_.back()->last;
  return {};
}

// --- writing --------------------------------------------------------------------------------------------

std::uint64_t History::file_bytes_max() const {
  return std::clamp(options_.bytes_max / kFiles, kFileBytesMin, kFileBytesMax);
}

Status History::start_file() {
  MULTIFORA_TRY(files_.create_directory(options_.directory));
  if (!known_) {  // what an earlier life left: nothing that counts
    MULTIFORA_ASSIGN(const std::vector<std::string> names, files_.list(options_.directory));
    for (const std::string& name : names) {
      const std::string path = options_.directory + "/" + name;
      const bool ours = std::any_of(list_.begin(), list_.end(),
                                    [&](const FilePtr& file) { return file->path == path; });
      if (!ours) MULTIFORA_TRY(files_.remove(path));
    }
    known_ = true;
  }
  auto file = std::make_shared<HistoryFile>();
  file->after = file->last = newest_;
  file->path = options_.directory + "/" + file_name(file->after);
  file->codec = options_.codec;
  MULTIFORA_ASSIGN(file->file, files_.open(file->path, OpenMode::kCreate));
  MULTIFORA_TRY(file->file->truncate(0));
  FileHeader header{};
  std::copy(std::begin(kFileMagic), std::end(kFileMagic), header.magic);
  header.version = kVersion;
  const std::string_view codec = options_.codec != nullptr ? options_.codec->name : "none";
  std::copy_n(codec.data(), std::min(codec.size(), sizeof header.codec), header.codec);
  MULTIFORA_TRY(file->file->write(0, {reinterpret_cast<const char*>(&header), sizeof header}));
  MULTIFORA_TRY(file->file->sync());
  MULTIFORA_TRY(files_.sync_directory(options_.directory));
  file->end = sizeof header;
  const std::lock_guard hold(mutex_);
  list_.push_back(std::move(file));
  return {};
}

Status History::add(LogPosition position, Bytes batch, const NameOf& name_of) {
  if (!block_) {
    block_ = std::make_unique<OpenBlock>();
    block_->after = newest_;
  }
  OpenBlock& block = *block_;
  Bytes rest = batch;
  LogFrame frame;
  CollectionId last = 0;
  while (next_frame(rest, &frame)) {
    if (frame.collection == last || frame.collection == 0) continue;
    last = frame.collection;
    const CollectionName name = name_of(last, position);
    const auto [at, missing] = block.known.try_emplace(last, name.ns);
    if (!missing && at->second == name.ns) continue;
    at->second = name.ns;
    append_le<std::uint64_t>(block.names, missing ? 0 : position);
    append_le<std::uint32_t>(block.names, last);
    block.names.append(name.uuid.data(), name.uuid.size());
    append_le<std::uint16_t>(block.names, static_cast<std::uint16_t>(name.ns.size()));
    block.names.append(name.ns);
  }
  append_le<std::uint64_t>(block.batches, position);
  append_le<std::uint32_t>(block.batches, static_cast<std::uint32_t>(batch.size()));
  block.batches.append(batch);
  block.last = position;
  return block.batches.size() >= kBlockTarget ? write_block() : Status();
}

Status History::write_block() {
  const std::unique_ptr<OpenBlock> block = std::move(block_);
  if (!block) return {};
  if (list_.empty() || list_.back()->end >= file_bytes_max() ||
      list_.back()->codec != options_.codec) {
    if (unsynced_) MULTIFORA_TRY(list_.back()->file->sync());
    MULTIFORA_TRY(start_file());
  }
  Buffer raw;
  append_le<std::uint32_t>(raw, static_cast<std::uint32_t>(block->names.size()));
  raw.append(block->names).append(block->batches);
  BlockHeader header{};
  std::copy(std::begin(kBlockMagic), std::end(kBlockMagic), header.magic);
  header.raw_size = static_cast<std::uint32_t>(raw.size());
  header.after = block->after;
  header.last = block->last;
  Buffer out(sizeof header, '\0');
  if (options_.codec != nullptr && skip_codec_ == 0) {
    // Less than an eighth saved is not worth the time to read it.
    const std::size_t room = raw.size() - raw.size() / 8;
    out.resize(sizeof header + std::max(room, options_.codec->bound(raw.size())));
    const auto size = options_.codec->compress(raw, out.data() + sizeof header,
                                               out.size() - sizeof header,
                                               options_.codec->level_default);
    header.coding = size && *size <= room ? 1 : 0;
    out.resize(sizeof header + (header.coding == 1 ? *size : 0));
    if (header.coding == 0) skip_codec_ = kCodecSkip;
  } else if (skip_codec_ > 0) {
    --skip_codec_;
  }
  if (header.coding == 0) out.append(raw);
  header.stored_size = static_cast<std::uint32_t>(out.size() - sizeof header);
  header.hash = hash_of(header, Bytes(out).substr(sizeof header));
  std::memcpy(out.data(), &header, sizeof header);
  HistoryFile& file = *list_.back();
  MULTIFORA_TRY(file.file->write(file.end, out));
  unsynced_ = true;
  const std::lock_guard hold(mutex_);
  file.marks.push_back({header.after, file.end});
  file.end += out.size();
  file.last = newest_ = header.last;
  return {};
}

Status History::flush(LogPosition upto) {
  if (!block_ && list_.empty()) {
    const std::lock_guard hold(mutex_);
    oldest_ = newest_ = std::max(newest_, upto);
    return {};
  }
  // An empty block says that there was nothing.
  if (!block_ && newest_ < upto) {
    block_ = std::make_unique<OpenBlock>();
    block_->after = newest_;
  }
  if (block_) block_->last = std::max(block_->last, upto);
  MULTIFORA_TRY(write_block());
  if (unsynced_) MULTIFORA_TRY(list_.back()->file->sync());
  unsynced_ = false;
  return {};
}

void History::give_up(LogPosition position, const Status& why) {
  log_.event(LogLevel::kWarning, "store", "The history of changes was given up; streams cannot resume",
             {{"reason", std::string_view(why.message())}});
  block_.reset();
  unsynced_ = false;
  if (why.code() == ErrorCode::kOutOfDiskSpace) remove_files(list_.size());
  const std::lock_guard hold(mutex_);
  // What is there goes before the next file is made: a disk that fails is not touched now.
  known_ = known_ && list_.empty();
  list_.clear();
  oldest_ = newest_ = position;
}

// Newest first would leave a hole after a crash: oldest first.
void History::remove_files(std::size_t count) {
  std::vector<FilePtr> gone;
  {
    const std::lock_guard hold(mutex_);
    gone.assign(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(count));
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(count));
    oldest_ = list_.empty() ? newest_ : list_.front()->after;
  }
  for (const FilePtr& file : gone) {
    if (files_.remove(file->path).ok()) continue;
    known_ = false;  // the next file is made only after it is gone
  }
}

void History::prune(std::int64_t now_seconds) {
  const std::uint64_t total = size_bytes();
  std::uint64_t left = total;
  std::size_t count = 0;
  for (; count < list_.size(); ++count) {
    const HistoryFile& file = *list_[count];
    const auto age = now_seconds - static_cast<std::int64_t>(file.last >> 32);
    const bool too_old = options_.seconds_max > 0 && age > options_.seconds_max;
    // The newest goes only if all of it is old.
    const bool too_much = left > options_.bytes_max && count + 1 < list_.size();
    if (!too_old && !too_much) break;
    left -= file.end;
  }
  if (count > 0) remove_files(count);
}

// --- reading --------------------------------------------------------------------------------------------

namespace {

Status damaged(const std::string& path, std::uint64_t offset) {
  return {ErrorCode::kDataCorruptionDetected,
          "the history of changes is damaged: " + path + ", offset " + std::to_string(offset)};
}

// Gives the batches of a block's payload; false: visit wants no more.
Result<bool> deliver(Bytes raw, LogPosition from, const History::Visit& visit) {
  const auto malformed = [] {
    return fail(ErrorCode::kDataCorruptionDetected, "a malformed block in the history of changes");
  };
  if (raw.size() < 4) return malformed();
  const auto names_size = load_le<std::uint32_t>(raw.data());
  raw.remove_prefix(4);
  BlockNames names;
  if (raw.size() < names_size || !names.parse(raw.substr(0, names_size))) return malformed();
  raw.remove_prefix(names_size);
  while (!raw.empty()) {
    if (raw.size() < 12) return malformed();
    const auto position = load_le<std::uint64_t>(raw.data());
    const auto size = load_le<std::uint32_t>(raw.data() + 8);
    raw.remove_prefix(12);
    if (raw.size() < size) return malformed();
    names.at(position);
    if (position > from && !visit({position, raw.substr(0, size), &names})) return false;
    raw.remove_prefix(size);
  }
  return true;
}

}  // namespace

Status History::read(LogPosition from, const Visit& visit) const {
  struct Part {
    FilePtr file;
    std::uint64_t begin, end;
    LogPosition after;
  };
  std::vector<Part> parts;
  {
    const std::lock_guard hold(mutex_);
    if (from < oldest_)
      return {ErrorCode::kCappedPositionLost,
              "the history of changes no longer holds what follows position " + std::to_string(from)};
    for (const FilePtr& file : list_) {
      if (file->last <= from) continue;
      Part part{file, sizeof(FileHeader), file->end, file->after};
      const auto mark = std::upper_bound(file->marks.begin(), file->marks.end(), from,
                                         [](LogPosition p, const auto& m) { return p < m.after; });
      if (mark != file->marks.begin()) {
        part.begin = std::prev(mark)->offset;
        part.after = std::prev(mark)->after;
      }
      parts.push_back(std::move(part));
    }
  }
  Buffer stored, raw;
  for (const Part& part : parts) {
    const File& file = *part.file->file;
    LogPosition after = part.after;
    for (std::uint64_t at = part.begin; at < part.end;) {
      BlockHeader header{};
      MULTIFORA_ASSIGN(const std::size_t got, file.read(at, &header, sizeof header));
      const std::uint64_t room = part.end - std::min(part.end, at + sizeof header);
      if (got < sizeof header || !plausible(header, after, room))
        return damaged(part.file->path, at);
      const std::uint64_t block_at = at;
      at += sizeof header + header.stored_size;
      after = header.last;
      if (header.last <= from) continue;
      stored.resize(header.stored_size);
      MULTIFORA_ASSIGN(const std::size_t size,
                       file.read(block_at + sizeof header, stored.data(), stored.size()));
      if (size < stored.size() || hash_of(header, stored) != header.hash)
        return damaged(part.file->path, block_at);
      Bytes payload = stored;
      if (header.coding == 1) {
        raw.resize(header.raw_size);
        if (part.file->codec == nullptr ||
            !part.file->codec->decompress(stored, raw.data(), raw.size()))
          return damaged(part.file->path, block_at);
        payload = raw;
      }
      MULTIFORA_ASSIGN(const bool go_on, deliver(payload, from, visit));
      if (!go_on) return {};
    }
  }
  return {};
}

}  // namespace multifora
