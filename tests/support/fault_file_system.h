// A file system in memory that fails and crashes on command, for tests of whatever writes files.
//
// Files live in memfds, so they can be mapped. What a file holds on its "disk" is kept apart, in
// blocks of 4 KiB: sync() copies to it what changed (through write() or a mapping), and a power cut
// leaves there what was synced plus a random subset of the other changed blocks, some of them torn
// in sectors of 512 bytes. Names follow a journal for each directory: sync_directory() makes it
// durable, a power cut keeps a random prefix of the rest. A failed sync behaves like Linux: the
// blocks that it lost are clean afterwards, so that a later sync "succeeds" without them.
// Everything is decided by the seed.
//
// Usage
//   FaultFileSystem files(seed);
//   files.fail(FaultFileSystem::Operation::kSync, 3, FaultFileSystem::Failure::kInputOutput);
//   files.power_cut_after(17);  // the 17th next change and all after it fail
//   ...                         // run the code under test
//   files.crash();              // open files are dead from here; what survived can be opened
//
// The operating system's file system is not touched. Any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "core/base/file.h"

namespace multifora {

class FaultFileSystem final : public FileSystem {
 public:
  // kChange: any of the others, and changes of names.
  enum class Operation { kWrite, kSync, kAllocate, kTruncate, kChange };
  enum class Failure {
    kInputOutput,  // EIO, nothing done (a sync: a random part done, the rest lost)
    kNoSpace,      // ENOSPC, nothing done
    kShortWrite,   // a random prefix written, then EIO; for other operations as kInputOutput
    kShortNoSpace  // a random prefix written, then ENOSPC
  };

  explicit FaultFileSystem(std::uint64_t seed);
  ~FaultFileSystem() override;

  // The nth operation from now (1: the next) on a path that contains `path_part` fails; with
  // `sticky` all later ones too. Several may be set.
  void fail(Operation operation, std::uint64_t nth, Failure failure, std::string path_part = {},
            bool sticky = false);
  void clear_failures();
  // The nth change from now and everything after it fail; the disk is as a power cut there leaves
  // it.
  void power_cut_after(std::uint64_t nth);
  bool power_is_cut() const;
  // Power cut now (unless one has happened) and restart: files that are open stay readable for
  // their owners and fail every change; locks are free; the surviving content is what open() finds.
  void crash();
  // Operations so far, failed ones too: to sweep a failure over all of them.
  std::uint64_t count(Operation operation) const;
  // Sum of the sizes of all files that allocate(), write() and truncate() may reach.
  void set_capacity(std::uint64_t bytes);

  // Straight into the disk of a closed or open file, no failures: to plant damage.
  void poke(const std::string& path, std::uint64_t offset, Bytes bytes);
  std::string content(const std::string& path) const;

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
  Status create_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) const override;
  bool exists(const std::string& path) const override;
  Status remove(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string& path) override;
  Result<std::uint64_t> free_space(const std::string& path) const override;
  Result<std::unique_ptr<File>> lock(const std::string& path, Bytes content) override;

 private:
  friend class FaultFile;
  struct Inode;
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  struct NameChange {  // a null inode removes the name
    std::string name;
    std::shared_ptr<Inode> inode;
    std::string renamed_from;  // removed in the same step; empty: none
  };
  struct Plan {
    Operation operation;
    std::uint64_t left;
    Failure failure;
    std::string path_part;
    bool sticky;
  };
  struct Outcome {
    Status status;
    bool short_write = false;
  };

  // Counts the operation and says how it ends; under the mutex.
  Outcome begin(Operation operation, const std::string& path);
  Status room_for(std::uint64_t old_size, std::uint64_t new_size, const std::string& path) const;
  void cut_power();
  void apply(Names* names, const NameChange& change) const;
  void change_name(NameChange change);
  std::shared_ptr<Inode> new_inode();
  std::uint64_t random(std::uint64_t below);

  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::vector<Plan> plans_;
  std::uint64_t counts_[5] = {};
  std::uint64_t cut_in_ = 0;  // changes until the power cut; 0: none planned
  bool cut_ = false;
  std::uint64_t capacity_ = ~std::uint64_t{0};
  Names names_;  // now
  Names durable_names_;
  std::map<std::string, std::vector<NameChange>> journal_;  // not yet durable, by directory
  Names after_crash_;                                       // set by cut_power()
  std::map<std::string, bool> directories_;
  std::map<std::string, std::weak_ptr<Inode>> locks_;
};

}  // namespace multifora
