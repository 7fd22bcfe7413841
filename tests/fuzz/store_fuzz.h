// What the fuzzers of the data file and of the log share: a database made once, opened again and
// again with changes to its files that the input describes. The files themselves stay as they are
// (OverlayFileSystem).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/file_overlay.h"
#include "core/plugin/host.h"
#include "core/store/store.h"

namespace multifora::fuzz {

class StoreBench {
 public:
  // `crashed`: documents in the log that the data file does not hold; otherwise all is in the data
  // file and the log is empty.
  explicit StoreBench(bool crashed);
  ~StoreBench();

  const std::string& path() const { return path_; }
  // Names of the files that hold something, relative to path(), and their content.
  const std::map<std::string, std::string>& files() const { return files_; }
  // Collection -> _id -> document.
  using Contents = std::map<std::string, std::map<int, std::string>>;
  const Contents& contents() const { return contents_; }
  // In the order in which they were logged; with `crashed` only.
  const std::vector<std::pair<std::string, int>>& logged() const { return logged_; }

  // Opens what is in `files`, reads all of it, does with it what the input says (store_actions.h) and
  // closes it. Nothing may end the process. Without `forged`, every document that is read must be right, and none may be
  // missing unless an error was reported; with `crashed`, documents from the end of the log may be.
  void exercise(OverlayFileSystem& files, bool forged, const std::uint8_t* data,
                std::size_t size) const;

 private:
  bool read_all(Store& store, Contents* found) const;
  void judge(const Contents& found) const;

  const bool crashed_;
  std::string path_;
  std::map<std::string, std::string> files_;
  Contents contents_;
  std::vector<std::pair<std::string, int>> logged_;
};

// One change: eight bytes of input.
struct Mutation {
  std::uint8_t what = 0;
  bool forge = false;       // repair the checksum over it
  std::uint32_t where = 0;
  std::uint16_t value = 0;
};
std::vector<Mutation> read_mutations(const std::uint8_t* data, std::size_t size);
// Does one to bytes that start with `at`; size > 8. Numbers become a little different or extreme.
void mutate(const Mutation& mutation, char* at, std::size_t size);
// Some inputs of that form.
std::vector<std::string> mutation_seeds();

}  // namespace multifora::fuzz
