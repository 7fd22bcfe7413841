// Opening and closing of the data file and the first read of a page. Format: docs/format-data.md.
#include "core/storage/pager.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <random>

#include "core/base/bus_guard.h"
#include "core/storage/pager_impl.h"
#include "core/storage/record_pool.h"

namespace multifora {

namespace {

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
}

MetaPage new_file_meta() {
  MetaPage meta;
  std::random_device random;
  for (char& byte : meta.uuid) byte = static_cast<char>(random());
  return meta;
}

std::uint64_t page_checksum(const char* page) {
  return XXH3_64bits(page + 8, kPageSize - 8);
}

}  // namespace

// --- Pager::Impl ---

Pager::Impl::Impl(Pager& owner, LogSink& log_sink, Metrics& metrics)
    : pager(owner),
      log(log_sink),
      checkpoints_total(metrics.counter("pager_checkpoints_total", "Checkpoints made durable")),
      page_copies_total(metrics.counter("pager_page_copies_total", "Pages copied on write")),
      growths_total(metrics.counter("pager_growths_total", "Times that the data file grew")) {}

Pager::Impl::~Impl() {
  records.reset();
  if (pager.verified_ != nullptr) ::munmap(pager.verified_, round_up(pager.page_limit_ / 8, 4096));
}

// Under another name until it is whole, so that a crash leaves no half-made file behind.
Status Pager::Impl::create(FileSystem& files, const std::string& path) {
  const std::string draft = path + ".new";
  MULTIFORA_ASSIGN(std::unique_ptr<File> file, files.open(draft, OpenMode::kCreate));
  MULTIFORA_TRY(file->truncate(0));
  MULTIFORA_TRY(file->allocate(0, kChunkSize));
  MetaPage meta = new_file_meta();
  for (meta.checkpoint = 0; meta.checkpoint < 2; ++meta.checkpoint)
    MULTIFORA_TRY(file->write(meta_offset(meta.checkpoint), encode_meta(meta)));
  MULTIFORA_TRY(file->sync());
  file.reset();
  MULTIFORA_TRY(files.rename(draft, path));
  return files.sync_directory(directory_of(path));
}

Status Pager::Impl::open(FileSystem& files, const std::string& file_path,
                         const PagerOptions& wanted) {
  path = file_path;
  options = wanted;
  created = !files.exists(path);
  if (created) MULTIFORA_TRY(create(files, path));
  MULTIFORA_ASSIGN(file, files.open(path, OpenMode::kExisting));
  MULTIFORA_ASSIGN(OpenedMeta found, read_metas(*file, path, log));
  meta = std::move(found.newest);
  older_generation = found.older_generation;
  older_position = found.older_position;
  opened = {meta.position, meta.store_meta};
  pager.generation_ = meta.generation + 1;
  MULTIFORA_TRY(map_file());
  MULTIFORA_TRY(load_table());
  return created ? Status() : confirm_newest(files);
}

// Where the process before failed in its last sync, the newest meta page and the file's name may be
// in memory only. Once the next checkpoint has taken the older slot, the disk must have them.
Status Pager::Impl::confirm_newest(FileSystem& files) {
  MULTIFORA_TRY(file->write(meta_offset(meta.checkpoint), encode_meta(meta)));
  MULTIFORA_TRY(file->sync());
  return files.sync_directory(directory_of(path));
}

// The largest address range that the process may have: `wanted`, or as often half of it as a limit on
// its address space (RLIMIT_AS, valgrind) makes necessary, but not less than `least`. Twice the
// range must be free, for the second mapping of debug builds and everything else that comes.
static std::uint64_t address_range(std::uint64_t wanted, std::uint64_t least) {
  for (; wanted / 2 >= least; wanted /= 2) {
    void* const probe = ::mmap(nullptr, 2 * wanted, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe != MAP_FAILED) {
      ::munmap(probe, 2 * wanted);
      break;
    }
  }
  return wanted;
}

Status Pager::Impl::map_file() {
  MULTIFORA_ASSIGN(const std::uint64_t size, file->size());
  if (size / kChunkSize < meta.chunk_count)
    return Status(ErrorCode::kDataCorruptionDetected,
                  fmt::format("{} is cut short: {} bytes, but its checkpoint needs {}", path, size,
                              meta.chunk_count * kChunkSize));
  file_bytes = meta.chunk_count * kChunkSize;  // what lies behind is found again by growth
  constexpr std::uint64_t kRangeMin = std::uint64_t{1} << 30;
  reserve_bytes = address_range(std::max(options.reserve_bytes, file_bytes.load()),
                                std::max(kRangeMin, 2 * file_bytes.load()));
  if (reserve_bytes < options.reserve_bytes)
    log.event(LogLevel::kWarning, "storage",
              "The process has little address space; the data file cannot outgrow its range.",
              {{"range_mb", static_cast<std::int64_t>(reserve_bytes >> 20)}});
  reserve_bytes = round_up(reserve_bytes, kChunkSize);
  pager.page_limit_ = reserve_bytes / kPageSize;
  MULTIFORA_ASSIGN(pager.write_base_, file->map(reserve_bytes, true));
  pager.read_base_ = pager.write_base_;
#ifndef NDEBUG
  MULTIFORA_ASSIGN(pager.read_base_, file->map(reserve_bytes, false));
#endif
  void* bits = ::mmap(nullptr, round_up(pager.page_limit_ / 8, 4096), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bits == MAP_FAILED)
    return Status(ErrorCode::kInternalError, "no address space for the page table of " + path);
  pager.verified_ = static_cast<std::atomic<std::uint64_t>*>(bits);
  return {};
}

Result<const char*> Pager::Impl::table_page(PageId id, const char* what) const {
  MULTIFORA_ASSIGN_R(const char* const page, pager.read(id));
  if (reinterpret_cast<const PageHeader*>(page)->kind !=
      static_cast<std::uint8_t>(PageKind::kChunkTable))
    return fail(page_damaged(id, std::string("it is not a ") + what));
  return page;
}

// An entry with a right checksum is still checked: a wrong one must not lead outside the file.
Status Pager::Impl::check_entry(const MetaPage& image, std::uint64_t chunk,
                                const ChunkEntry& entry) const {
  const std::uint64_t pages = image.chunk_count * kPagesPerChunk;
  bool good = true;
  if (entry.kind == ChunkKind::kPages) {
    std::uint64_t used = 0;
    for (const std::uint64_t word : entry.bits) used += static_cast<unsigned>(std::popcount(word));
    good = used + entry.free_units == kPagesPerChunk && (chunk != 0 || (entry.bits[0] & 3) == 3);
  } else if (entry.kind == ChunkKind::kRecords) {
    good = chunk != 0 && entry.free_units <= kUnitsPerChunk && entry.lead_units <= kUnitsPerChunk &&
           entry.bitmap_page > 1 && entry.bitmap_page < pages;
  } else {
    good = chunk != 0 && entry.kind == ChunkKind::kFree;
  }
  if (good) return {};
  return Status(ErrorCode::kDataCorruptionDetected,
                fmt::format("{}: the chunk table's entry of chunk {} is impossible", path, chunk));
}

Result<std::vector<ChunkEntry>> Pager::Impl::read_table(const MetaPage& image,
                                                        std::vector<PageId>* pages) const {
  std::vector<ChunkEntry> entries;
  entries.reserve(image.chunk_count);
  const std::uint64_t table_count =
      (image.chunk_count + kEntriesPerTablePage - 1) / kEntriesPerTablePage;
  for (std::uint64_t index = 0; index < table_count; ++index) {
    if (index / kIdsPerDirectoryPage >= image.directory_pages.size())
      return fail(ErrorCode::kDataCorruptionDetected,
                  path + ": the meta page lists too few directory pages");
    const PageId directory_id = image.directory_pages[index / kIdsPerDirectoryPage];
    MULTIFORA_ASSIGN_R(const char* const directory, table_page(directory_id, "directory page"));
    const auto id =
        load_le<PageId>(directory + kPageHeaderSize + 8 * (index % kIdsPerDirectoryPage));
    MULTIFORA_ASSIGN_R(const char* const page, table_page(id, "chunk table page"));
    pages->push_back(id);
    for (std::size_t i = 0; i < kEntriesPerTablePage && entries.size() < image.chunk_count; ++i) {
      ChunkEntry entry;
      std::memcpy(&entry, page + kPageHeaderSize + i * sizeof entry, sizeof entry);
      MULTIFORA_TRY_R(check_entry(image, entries.size(), entry));
      entries.push_back(entry);
    }
  }
  return entries;
}

Status Pager::Impl::load_table() {
  if (meta.directory_pages.empty()) {
    table.init_new();
    top_up_reserve_locked();
    return {};
  }
  MULTIFORA_ASSIGN(const std::vector<ChunkEntry> entries, read_table(meta, &table_pages));
  table.init_loaded(entries, true);
  return {};
}

Status Pager::Impl::page_damaged(PageId id, std::string_view how) const {
  return Status(
      ErrorCode::kDataCorruptionDetected,
      fmt::format("page {} at offset {} of {} is damaged: {}", id, id * kPageSize, path, how));
}

Status Pager::Impl::health() const {
  if (!failed.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(mutex);
  return failure;
}

void Pager::Impl::fail_for_good(const Status& status) {
  {
    std::lock_guard lock(mutex);
    if (failed) return;
    failure = status;
    failed.store(true, std::memory_order_release);
  }
  log.event(LogLevel::kError, "storage", "The data file failed; no more changes are accepted.",
            {{"path", std::string_view(path)}, {"reason", std::string_view(status.message())}});
}

// --- Pager ---

Pager::Pager() = default;
Pager::~Pager() = default;

Result<std::unique_ptr<Pager>> Pager::open(FileSystem& files, const std::string& path,
                                           const PagerOptions& options, LogSink& log,
                                           Metrics& metrics) {
  std::unique_ptr<Pager> pager(new Pager());
  pager->impl_ = std::make_unique<Impl>(*pager, log, metrics);
  MULTIFORA_TRY_R(pager->impl_->open(files, path, options));
  pager->impl_->records.reset(new RecordSpace(*pager));
  MULTIFORA_TRY_R(pager->impl_->records->impl_->map_known());
  return pager;
}

const CheckpointImage& Pager::opened_image() const {
  return impl_->opened;
}
bool Pager::created() const {
  return impl_->created;
}
RecordSpace& Pager::records() {
  return *impl_->records;
}
Status Pager::health() const {
  return impl_->health();
}
const std::string& Pager::path() const {
  return impl_->path;
}

Result<const char*> Pager::read_first(PageId id) const {
  if (id <= 1 || id >= impl_->file_bytes.load(std::memory_order_acquire) / kPageSize)
    return fail(impl_->page_damaged(id, "there is no such page"));
  const char* const page = read_base_ + id * kPageSize;
  const auto* const header = reinterpret_cast<const PageHeader*>(page);
  bool good = false;
  if (!BusGuard::guarded([&] { good = header->checksum == page_checksum(page); }))
    return fail(ErrorCode::kFileStreamFailed,
                fmt::format("page {} at offset {} of {} cannot be read: the disk has failed there, "
                            "or the file was cut short",
                            id, id * kPageSize, impl_->path));
  if (!good)
    return fail(impl_->page_damaged(id, "its checksum is wrong"));
  if (header->page_id != id)
    return fail(
        impl_->page_damaged(id, fmt::format("it carries the number of page {}", header->page_id)));
  impl_->set_verified(id);
  return page;
}

}  // namespace multifora
