// Files as an interface: the one place through which the storage touches the operating system,
// so that tests can fail each write and each sync in turn. Offsets and sizes are bytes.
//
// A File may be used from several threads for disjoint ranges. Failures are a Status:
// kOutOfDiskSpace for ENOSPC/EDQUOT, kUnauthorized for EACCES/EPERM, kNoSuchKey for ENOENT,
// kLockBusy for a lock held elsewhere, kFileStreamFailed for the rest; each message names the
// path, the operation and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"

namespace multifora {

class File {
 public:
  virtual ~File() = default;

  // Reads exactly `size` bytes into `to`, or up to the end of the file; returns the count read.
  virtual Result<std::size_t> read(std::uint64_t offset, void* to, std::size_t size) const = 0;
  // Writes all of `data`; after a failure any part of the range may hold old, new or torn bytes.
  virtual Status write(std::uint64_t offset, Bytes data) = 0;
  // All earlier writes (through write() or a mapping) are durable after OK. After a failure the
  // content of unsynced ranges is unknown and the caller must never retry (fdatasync semantics).
  virtual Status sync() = 0;
  // The same for what was written to [offset, offset+size), and what it takes to read it back; other
  // ranges may stay in memory. Cheaper where much else is dirty and the file is mapped.
  virtual Status sync_range(std::uint64_t offset, std::uint64_t size) {
    static_cast<void>(offset), static_cast<void>(size);
    return sync();
  }
  // Writes what is dirty in [offset, offset+size) and waits for that, or only starts it. Makes
  // nothing durable: it keeps a later sync short. Advice only; failures show in the sync.
  enum class WriteBack { kStart, kWait };
  virtual void write_back(std::uint64_t offset, std::uint64_t size, WriteBack how) {
    static_cast<void>(offset), static_cast<void>(size), static_cast<void>(how);
  }
  virtual Result<std::uint64_t> size() const = 0;
  virtual Status truncate(std::uint64_t size) = 0;
  // Makes [offset, offset+size) allocated on disk (reads as zeros where new) and extends the size.
  virtual Status allocate(std::uint64_t offset, std::uint64_t size) = 0;
  // Gives the blocks of a range back to the file system; it reads as zeros afterwards.
  virtual Status punch_hole(std::uint64_t offset, std::uint64_t size) = 0;
  // Bytes really allocated on disk.
  virtual Result<std::uint64_t> allocated_size() const = 0;

  // Maps the file shared at a fixed address range of `reserve` bytes (a multiple of the page size;
  // may be far more than the file). Only [0, size()) may be touched. The mapping lives as long as
  // the File. A second call makes a second view of the same bytes. writable = false gives a view
  // through which a stray store traps.
  virtual Result<char*> map(std::uint64_t reserve, bool writable) = 0;
  // The system may drop [offset, offset+size) from memory once it is on disk. Advice only.
  virtual void release(std::uint64_t offset, std::uint64_t size) = 0;
};

enum class OpenMode { kReadOnly, kExisting, kCreate };

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) = 0;
  virtual Status create_directory(const std::string& path) = 0;  // parents too; OK if it exists
  virtual Result<std::vector<std::string>> list(
      const std::string& path) const = 0;  // names, sorted
  virtual bool exists(const std::string& path) const = 0;
  virtual Status remove(const std::string& path) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Names created, removed or renamed in the directory are durable after OK.
  virtual Status sync_directory(const std::string& path) = 0;
  virtual Result<std::uint64_t> free_space(const std::string& path) const = 0;
  // Takes an exclusive lock that dies with the process; the file holds `content`, unless the disk is
  // full.
  virtual Result<std::unique_ptr<File>> lock(const std::string& path, Bytes content) = 0;
};

// The operating system's files (POSIX). Lives for the whole process.
FileSystem& posix_file_system();

}  // namespace multifora
