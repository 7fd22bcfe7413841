// A data file with changed bytes: it is refused with a reason, or what is read from it is right, or
// (where checksums were repaired over the changes) at least nothing ends the process.
#include <xxhash.h>

#include <cstring>

#include "core/storage/types.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/store_fuzz.h"

namespace {

using namespace multifora;

constexpr std::size_t kBlock = 4096;

struct Bench : fuzz::StoreBench {
  Bench() : StoreBench(false) {
    const std::string& bytes = files().at("data.mfdb");
    for (std::size_t at = 0; at + kBlock <= bytes.size(); at += kBlock)
      if (bytes.find_first_not_of('\0', at) < at + kBlock) used.push_back(at);
  }
  std::vector<std::size_t> used;  // offsets of blocks that hold something
};

Bench& bench() {
  static Bench made;
  return made;
}

// Meta pages and tree pages have their checksums in different places; records are left alone.
void repair(std::size_t at, char* block) {
  if (at < 2 * kPageSize) {
    const std::uint64_t sum = XXH3_64bits(block, kBlock - 8);
    std::memcpy(block + kBlock - 8, &sum, 8);
    return;
  }
  const std::uint64_t id = at / kPageSize;
  std::uint64_t carried = 0;
  std::memcpy(&carried, block + 8, 8);
  if (carried != id) return;
  const std::uint64_t sum = XXH3_64bits(block + 8, kPageSize - 8);
  std::memcpy(block, &sum, 8);
}

}  // namespace

std::vector<std::string> multifora::fuzz::seeds() { return mutation_seeds(); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto mutations = fuzz::read_mutations(data, size);
  OverlayFileSystem files;
  bool forged = false;
  {
    const auto file = files.open(bench().path() + "/data.mfdb", OpenMode::kExisting);
    FUZZ_CHECK(file.has_value());
    for (const fuzz::Mutation& mutation : mutations) {
      const std::size_t at = bench().used[mutation.where / kBlock % bench().used.size()];
      char block[kBlock];
      FUZZ_CHECK((*file)->read(at, block, kBlock).value() == kBlock);
      fuzz::mutate(mutation, block, kBlock);
      if (mutation.forge) repair(at, block);
      forged = forged || mutation.forge;
      FUZZ_CHECK((*file)->write(at, Bytes(block, kBlock)).ok());
    }
    if (size % 64 == 3) FUZZ_CHECK((*file)->truncate((*file)->size().value() * (size % 7) / 7).ok());
  }
  bench().exercise(files, forged, data, size);
  return 0;
}
