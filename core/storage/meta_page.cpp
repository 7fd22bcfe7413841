#include "core/storage/meta_page.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <optional>

#include "core/base/assert.h"
#include "core/storage/pager.h"

namespace multifora {

namespace {

constexpr std::string_view kMagic = "MultiforaDB data";
constexpr std::size_t kStoreMetaOffset = 96;
constexpr std::size_t kDirectoryOffset = kStoreMetaOffset + kStoreMetaSizeMax;
constexpr std::size_t kChecksumOffset = kMetaSize - 8;
static_assert(kMagic.size() == 16);
static_assert(kMetaSize <= kPageSize);
static_assert(kDirectoryOffset + 8 * kDirectoryPagesMax <= kChecksumOffset);

// What the fixed first bytes say; these keep their places in every version to come.
enum class Identity { kOurs, kForeign, kNewer, kOtherPageSize, kDamaged };

struct Slot {
  Identity identity = Identity::kForeign;
  std::uint32_t version = 0;
  std::uint32_t page_size = 0;
  std::optional<MetaPage> meta;
};

bool checksum_matches(const char* at) {
  return load_le<std::uint64_t>(at + kChecksumOffset) == XXH3_64bits(at, kChecksumOffset);
}

Identity identify(const char* at, Slot* slot) {
  if (Bytes(at, kMagic.size()) != kMagic) return Identity::kForeign;
  slot->version = load_le<std::uint32_t>(at + 16);
  if (slot->version != ~load_le<std::uint32_t>(at + 20)) return Identity::kDamaged;
  if (slot->version != kFormatVersion) return Identity::kNewer;
  if (!checksum_matches(at)) return Identity::kDamaged;
  slot->page_size = load_le<std::uint32_t>(at + 24);
  if (slot->page_size != kPageSize || load_le<std::uint32_t>(at + 28) != kChunkSize)
    return Identity::kOtherPageSize;
  return Identity::kOurs;
}

// Nothing where a field is impossible although the checksum is right.
std::optional<MetaPage> decode(const char* at) {
  MetaPage meta;
  std::memcpy(meta.uuid.data(), at + 32, meta.uuid.size());
  meta.checkpoint = load_le<std::uint64_t>(at + 48);
  meta.generation = load_le<std::uint64_t>(at + 56);
  meta.position = load_le<std::uint64_t>(at + 64);
  meta.chunk_count = load_le<std::uint64_t>(at + 72);
  const auto directories = load_le<std::uint32_t>(at + 80);
  const auto store_size = load_le<std::uint32_t>(at + 84);
  if (directories > kDirectoryPagesMax || store_size > kStoreMetaSizeMax) return std::nullopt;
  if (meta.chunk_count == 0 || (directories == 0 && meta.chunk_count != 1)) return std::nullopt;
  meta.store_meta.assign(at + kStoreMetaOffset, store_size);
  for (std::size_t i = 0; i < directories; ++i)
    meta.directory_pages.push_back(load_le<std::uint64_t>(at + kDirectoryOffset + 8 * i));
  return meta;
}

Result<Slot> read_slot(const File& file, std::uint64_t offset) {
  Slot slot;
  char bytes[kMetaSize] = {};
  MULTIFORA_ASSIGN_R(const std::size_t count, file.read(offset, bytes, sizeof bytes));
  if (count < sizeof bytes) return slot;
  slot.identity = identify(bytes, &slot);
  if (slot.identity == Identity::kOurs) {
    slot.meta = decode(bytes);
    if (!slot.meta || meta_offset(slot.meta->checkpoint) != offset) {
      slot.meta.reset();
      slot.identity = Identity::kDamaged;
    }
  }
  return slot;
}

// Files of other builds: refused by name, before damage is considered.
Status refuse(const Slot& slot, const std::string& path) {
  if (slot.identity == Identity::kNewer)
    return Status(ErrorCode::kUnsupportedFormat,
                  fmt::format("{} has data format version {}; this program knows version {}", path,
                              slot.version, kFormatVersion));
  if (slot.identity == Identity::kOtherPageSize)
    return Status(ErrorCode::kUnsupportedFormat,
                  fmt::format("{} has pages of {} bytes; this program was built for {}", path,
                              slot.page_size, kPageSize));
  return {};
}

OpenedMeta choose(Slot& a, Slot& b) {
  OpenedMeta opened;
  if (a.meta && b.meta) {
    const bool a_newer = a.meta->checkpoint > b.meta->checkpoint;
    const MetaPage& older = a_newer ? *b.meta : *a.meta;
    opened.older_position = older.position;
    opened.older_generation = older.generation;
    opened.newest = std::move(a_newer ? *a.meta : *b.meta);
  } else {
    opened.newest = std::move(a.meta ? *a.meta : *b.meta);
    opened.older_position = opened.newest.position;
    opened.older_generation = opened.newest.generation;
  }
  return opened;
}

}  // namespace

Buffer encode_meta(const MetaPage& meta) {
  MULTIFORA_ASSERT(meta.store_meta.size() <= kStoreMetaSizeMax);
  MULTIFORA_ASSERT(meta.directory_pages.size() <= kDirectoryPagesMax);
  Buffer bytes(kMetaSize, '\0');
  char* at = bytes.data();
  std::memcpy(at, kMagic.data(), kMagic.size());
  store_le<std::uint32_t>(at + 16, kFormatVersion);
  store_le<std::uint32_t>(at + 20, ~kFormatVersion);
  store_le<std::uint32_t>(at + 24, kPageSize);
  store_le<std::uint32_t>(at + 28, kChunkSize);
  std::memcpy(at + 32, meta.uuid.data(), meta.uuid.size());
  store_le(at + 48, meta.checkpoint);
  store_le(at + 56, meta.generation);
  store_le(at + 64, meta.position);
  store_le(at + 72, meta.chunk_count);
  store_le(at + 80, static_cast<std::uint32_t>(meta.directory_pages.size()));
  store_le(at + 84, static_cast<std::uint32_t>(meta.store_meta.size()));
  std::memcpy(at + kStoreMetaOffset, meta.store_meta.data(), meta.store_meta.size());
  for (std::size_t i = 0; i < meta.directory_pages.size(); ++i)
    store_le(at + kDirectoryOffset + 8 * i, meta.directory_pages[i]);
  store_le<std::uint64_t>(at + kChecksumOffset, XXH3_64bits(at, kChecksumOffset));
  return bytes;
}

Result<std::array<MetaSlotReport, 2>> report_metas(const File& file) {
  std::array<MetaSlotReport, 2> reports;
  for (std::size_t i = 0; i < 2; ++i) {
    MULTIFORA_ASSIGN_R(Slot slot, read_slot(file, i * kPageSize));
    static constexpr std::string_view kStates[] = {"valid", "foreign", "another version",
                                                   "another page size", "damaged"};
    reports[i] = {i * kPageSize, kStates[static_cast<std::size_t>(slot.identity)], slot.version,
                  slot.page_size, std::move(slot.meta)};
  }
  return reports;
}

Result<OpenedMeta> read_metas(const File& file, const std::string& path, LogSink& log) {
  MULTIFORA_ASSIGN_R(Slot a, read_slot(file, 0));
  MULTIFORA_ASSIGN_R(Slot b, read_slot(file, kPageSize));
  MULTIFORA_TRY_R(refuse(a, path));
  MULTIFORA_TRY_R(refuse(b, path));
  if (!a.meta && !b.meta) {
    // With slot 0 damaged, the second slot of a file of another page size lies elsewhere.
    for (std::uint64_t offset = 4096; offset <= 16384; offset *= 2) {
      MULTIFORA_ASSIGN_R(const Slot other, read_slot(file, offset));
      MULTIFORA_TRY_R(refuse(other, path));
    }
    if (a.identity == Identity::kForeign && b.identity == Identity::kForeign)
      return fail(ErrorCode::kUnsupportedFormat,
                  path + " is not a MultiforaDB data file, or both of its meta pages are lost");
    return fail(ErrorCode::kDataCorruptionDetected, "both meta pages of " + path +
                                                        " are damaged (offsets 0 and " +
                                                        std::to_string(kPageSize) + ")");
  }
  OpenedMeta opened = choose(a, b);
  if (!a.meta || !b.meta)
    log.event(LogLevel::kWarning, "storage",
              "A meta page is damaged or half written; the other checkpoint is used.",
              {{"path", std::string_view(path)},
               {"damaged_offset", static_cast<std::int64_t>(a.meta ? kPageSize : 0)},
               {"checkpoint", static_cast<std::int64_t>(opened.newest.checkpoint)}});
  return opened;
}

}  // namespace multifora
