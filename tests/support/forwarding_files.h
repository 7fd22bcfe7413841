// A file and a file system that pass everything on, for tests that change one thing about a disk: derive, and
// override that. What is passed on to must outlive the file system.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"

namespace multifora::test {

class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  Result<std::size_t> read(std::uint64_t offset, void* to, std::size_t size) const override {
    return file_->read(offset, to, size);
  }
  Status write(std::uint64_t offset, Bytes data) override { return file_->write(offset, data); }
  Status sync() override { return file_->sync(); }
  Status sync_range(std::uint64_t offset, std::uint64_t size) override {
    return file_->sync_range(offset, size);
  }
  void write_back(std::uint64_t offset, std::uint64_t size, WriteBack how) override {
    file_->write_back(offset, size, how);
  }
  Result<std::uint64_t> size() const override { return file_->size(); }
  Status truncate(std::uint64_t size) override { return file_->truncate(size); }
  Status allocate(std::uint64_t offset, std::uint64_t size) override {
    return file_->allocate(offset, size);
  }
  Status punch_hole(std::uint64_t offset, std::uint64_t size) override {
    return file_->punch_hole(offset, size);
  }
  Result<std::uint64_t> allocated_size() const override { return file_->allocated_size(); }
  Result<char*> map(std::uint64_t reserve, bool writable) override {
    return file_->map(reserve, writable);
  }
  void release(std::uint64_t offset, std::uint64_t size) override { file_->release(offset, size); }

 private:
  const std::unique_ptr<File> file_;
};

class ForwardingFileSystem : public FileSystem {
 public:
  explicit ForwardingFileSystem(FileSystem& files) : files_(files) {}
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    return files_.open(path, mode);
  }
  Status create_directory(const std::string& path) override { return files_.create_directory(path); }
  Result<std::vector<std::string>> list(const std::string& path) const override {
    return files_.list(path);
  }
  bool exists(const std::string& path) const override { return files_.exists(path); }
  Status remove(const std::string& path) override { return files_.remove(path); }
  Status rename(const std::string& from, const std::string& to) override {
    return files_.rename(from, to);
  }
  Status sync_directory(const std::string& path) override { return files_.sync_directory(path); }
  Result<std::uint64_t> free_space(const std::string& path) const override {
    return files_.free_space(path);
  }
  Result<std::unique_ptr<File>> lock(const std::string& path, Bytes content) override {
    return files_.lock(path, content);
  }

 private:
  FileSystem& files_;
};

}  // namespace multifora::test
