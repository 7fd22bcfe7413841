// A file system over the operating system's that keeps every change to itself, in memory: for a
// database served read-only, and for tools that open one, replay its log and look at it. The files
// stay as they are. Files
// are opened for reading only, so that a read-only disk or a copy without write permission will do.
//
// Changed pages take memory; others are the system's page cache. A lock is shared: it is refused
// while another process holds the file exclusively, and keeps such a process out. Where there is no
// file to lock, nothing is locked.
//
// Content is read through mappings: a file that is cut short meanwhile, or that the disk cannot
// read, is SIGBUS (see bus_guard.h). Files must not outlive their file system. Any thread may call.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "core/base/file.h"

namespace multifora {

class OverlayFileSystem final : public FileSystem {
 public:
  OverlayFileSystem();
  ~OverlayFileSystem() override;

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
  class Content;
  class OverlayFile;
  // The content at `path`: what was changed here, or the file below; null where there is none.
  Result<std::shared_ptr<Content>> find(const std::string& path);

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Content>> contents_;  // null: removed here
  std::set<std::string> directories_;                         // made here
};

}  // namespace multifora
