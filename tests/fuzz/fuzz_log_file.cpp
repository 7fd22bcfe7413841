// A log with changed bytes: it is refused with a place, or what it gives is a beginning of what was
// written, or (where hashes were repaired over the changes) at least nothing ends the process.
#include <cstring>

#include "core/storage/wal_format.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/store_fuzz.h"

namespace {

using namespace multifora;

struct Place {
  std::string file;
  std::size_t begin;  // a block's header; the file's for the first one
  std::size_t end;
};

struct Bench : fuzz::StoreBench {
  Bench() : StoreBench(true) {
    for (const auto& [name, bytes] : files()) {
      if (!name.starts_with("wal/")) continue;
      const auto start = wal::parse_segment_name(name.substr(4));
      if (!start) continue;  // a segment in the making
      places.push_back({name, 0, sizeof(wal::FileHeader)});
      for (std::size_t at = sizeof(wal::FileHeader); at + wal::kBlockHeaderSize <= bytes.size();) {
        wal::BlockHeader header;
        std::memcpy(&header, bytes.data() + at, sizeof header);
        if (header.stream != *start + at) break;
        const std::size_t end = at + wal::kBlockHeaderSize + header.stored_size;
        places.push_back({name, at, end});
        at = wal::align_block(end);
      }
    }
    FUZZ_CHECK(places.size() > 10);
  }
  std::vector<Place> places;
};

Bench& bench() {
  static Bench made;
  return made;
}

void repair(std::string& block) {
  wal::BlockHeader header;
  std::memcpy(&header, block.data(), sizeof header);
  header.stored_size = static_cast<std::uint32_t>(block.size() - sizeof header);
  wal::seal_header(header, Bytes(block).substr(sizeof header));
  std::memcpy(block.data(), &header, sizeof header);
}

}  // namespace

std::vector<std::string> multifora::fuzz::seeds() { return mutation_seeds(); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  OverlayFileSystem files;
  bool forged = false;
  for (const fuzz::Mutation& mutation : fuzz::read_mutations(data, size)) {
    const Place& place = bench().places[mutation.where / 4096 % bench().places.size()];
    const auto file = files.open(bench().path() + "/" + place.file, OpenMode::kExisting);
    FUZZ_CHECK(file.has_value());
    std::string bytes(place.end - place.begin, '\0');
    FUZZ_CHECK((*file)->read(place.begin, bytes.data(), bytes.size()).value() == bytes.size());
    fuzz::mutate(mutation, bytes.data(), bytes.size());
    if (mutation.forge && place.begin > 0) {
      repair(bytes);
      forged = true;
    }
    FUZZ_CHECK((*file)->write(place.begin, bytes).ok());
    if (size % 64 == 3 && place.begin > 0) FUZZ_CHECK((*file)->truncate(place.begin + 3).ok());
  }
  bench().exercise(files, forged, data, size);
  return 0;
}
