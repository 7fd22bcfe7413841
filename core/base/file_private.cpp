// A private file is a private mapping of the file on disk: writes go to its pages' copies. What lies
// behind the end of the file on disk is anonymous memory, mapped when the file grows.
#include "core/base/file_private.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <system_error>

#include "core/base/assert.h"

namespace multifora {
namespace {

constexpr std::uint64_t kPage = 4096;
// Address space of a file that is changed without having been mapped (a log segment).
constexpr std::uint64_t kReserveDefault = std::uint64_t{1} << 30;

constexpr std::uint64_t round_up(std::uint64_t value) { return (value + kPage - 1) / kPage * kPage; }

Status failure(std::string_view operation, const std::string& path, int error) {
  const ErrorCode code = error == ENOENT                   ? ErrorCode::kNoSuchKey
                         : error == EACCES || error == EPERM ? ErrorCode::kUnauthorized
                                                             : ErrorCode::kFileStreamFailed;
  return {code, std::string(operation) + " of " + path + " failed: " +
                    std::generic_category().message(error)};
}

// What a path stands for; shared by the Files opened on it.
class Content {
 public:
  // fd < 0: a new, empty file.
  Content(int fd, std::uint64_t size, std::string path)
      : path_(std::move(path)), fd_(fd), size_(size), on_disk_(size) {}
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;
  ~Content() {
    if (base_ != nullptr) ::munmap(base_, reserve_);
    if (fd_ >= 0) ::close(fd_);
  }

  Result<std::size_t> read(std::uint64_t offset, void* to, std::size_t size) {
    const std::lock_guard hold(mutex_);
    if (offset >= size_) return std::size_t{0};
    size = static_cast<std::size_t>(std::min<std::uint64_t>(size, size_ - offset));
    if (base_ == nullptr) return read_disk(offset, static_cast<char*>(to), size);
    if (size > 0) std::memcpy(to, base_ + offset, size);
    return size;
  }
  Status write(std::uint64_t offset, Bytes data) {
    const std::lock_guard hold(mutex_);
    MULTIFORA_TRY(grow_locked(offset + data.size()));
    if (!data.empty()) std::memcpy(base_ + offset, data.data(), data.size());
    return {};
  }
  Status grow(std::uint64_t size) {
    const std::lock_guard hold(mutex_);
    return grow_locked(size);
  }
  Status truncate(std::uint64_t size) {
    const std::lock_guard hold(mutex_);
    if (size >= size_) return grow_locked(size);
    if (base_ == nullptr) MULTIFORA_TRY(map_locked(kReserveDefault));
    std::memset(base_ + size, 0, static_cast<std::size_t>(size_ - size));
    size_ = size;
    return {};
  }
  Status punch_hole(std::uint64_t offset, std::uint64_t size) {
    const std::lock_guard hold(mutex_);
    if (offset >= size_) return {};
    if (base_ == nullptr) MULTIFORA_TRY(map_locked(kReserveDefault));
    std::memset(base_ + offset, 0,
                static_cast<std::size_t>(std::min<std::uint64_t>(size, size_ - offset)));
    return {};
  }
  std::uint64_t size() {
    const std::lock_guard hold(mutex_);
    return size_;
  }
  Result<char*> map(std::uint64_t reserve) {
    const std::lock_guard hold(mutex_);
    // Views of it may be in use already; they must not move.
    if (base_ != nullptr && reserve > reserve_ && handed_out_)
      return fail(ErrorCode::kInternalError, "a second, larger mapping of " + path_);
    if (base_ == nullptr || reserve > reserve_) MULTIFORA_TRY_R(map_locked(reserve));
    handed_out_ = true;
    return base_;
  }

 private:
  // While nothing is changed the disk is read, so that a later mapping has nothing to copy.
  Result<std::size_t> read_disk(std::uint64_t offset, char* to, std::size_t size) const {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t n = ::pread(fd_, to + done, size - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(failure("read", path_, errno));
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }
  Status map_locked(std::uint64_t reserve) {
    reserve = std::max(round_up(reserve), round_up(size_));
    const std::uint64_t from_disk = round_up(on_disk_);
    void* at = ::mmap(nullptr, reserve, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return failure("memory mapping", path_, errno);
    char* const base = static_cast<char*>(at);
    if (from_disk > 0 &&
        ::mmap(base, from_disk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, fd_,
               0) == MAP_FAILED) {
      const int error = errno;
      ::munmap(base, reserve);
      return failure("memory mapping", path_, error);
    }
    if (base_ != nullptr) {
      std::memcpy(base, base_, static_cast<std::size_t>(size_));
      ::munmap(base_, reserve_);
    }
    base_ = base;
    reserve_ = reserve;
    return {};
  }
  Status grow_locked(std::uint64_t size) {
    if (size > reserve_ && handed_out_)
      return {ErrorCode::kOutOfDiskSpace, path_ + " has outgrown its address space"};
    if (base_ == nullptr || size > reserve_)
      MULTIFORA_TRY(map_locked(std::max(size, kReserveDefault)));
    size_ = std::max(size_, size);
    return {};
  }

  const std::string path_;
  const int fd_;
  std::mutex mutex_;
  std::uint64_t size_;
  const std::uint64_t on_disk_;
  char* base_ = nullptr;
  std::uint64_t reserve_ = 0;
  bool handed_out_ = false;
};

using ContentPtr = std::shared_ptr<Content>;

class PrivateFile final : public File {
 public:
  explicit PrivateFile(ContentPtr content) : content_(std::move(content)) {}
  Result<std::size_t> read(std::uint64_t offset, void* to, std::size_t size) const override {
    return content_->read(offset, to, size);
  }
  Status write(std::uint64_t offset, Bytes data) override { return content_->write(offset, data); }
  Status sync() override { return {}; }
  Result<std::uint64_t> size() const override { return content_->size(); }
  Status truncate(std::uint64_t size) override { return content_->truncate(size); }
  Status allocate(std::uint64_t offset, std::uint64_t size) override {
    return content_->grow(offset + size);
  }
  Status punch_hole(std::uint64_t offset, std::uint64_t size) override {
    return content_->punch_hole(offset, size);
  }
  Result<std::uint64_t> allocated_size() const override { return content_->size(); }
  Result<char*> map(std::uint64_t reserve, bool) override { return content_->map(reserve); }
  void release(std::uint64_t, std::uint64_t) override {}  // a changed page exists here only

 private:
  ContentPtr content_;
};

// Holds a lock of the disk's file; it has no content of its own.
class LockFile final : public File {
 public:
  explicit LockFile(int fd) : fd_(fd) {}
  LockFile(const LockFile&) = delete;
  ~LockFile() override { ::close(fd_); }
  Result<std::size_t> read(std::uint64_t, void*, std::size_t) const override {
    return std::size_t{0};
  }
  Status write(std::uint64_t, Bytes) override { return {}; }
  Status sync() override { return {}; }
  Result<std::uint64_t> size() const override { return std::uint64_t{0}; }
  Status truncate(std::uint64_t) override { return {}; }
  Status allocate(std::uint64_t, std::uint64_t) override { return {}; }
  Status punch_hole(std::uint64_t, std::uint64_t) override { return {}; }
  Result<std::uint64_t> allocated_size() const override { return std::uint64_t{0}; }
  Result<char*> map(std::uint64_t, bool) override {
    return fail(ErrorCode::kInternalError, "a lock is not mapped");
  }
  void release(std::uint64_t, std::uint64_t) override {}

 private:
  const int fd_;
};

class PrivateFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    const std::lock_guard hold(mutex_);
    MULTIFORA_ASSIGN_R(ContentPtr content, content_of(path, mode == OpenMode::kCreate));
    return std::make_unique<PrivateFile>(std::move(content));
  }
  Status create_directory(const std::string& path) override {
    const std::lock_guard hold(mutex_);
    directories_.insert(path);
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& path) const override {
    const std::lock_guard hold(mutex_);
    std::set<std::string> names;
    const auto on_disk = posix_file_system().list(path);
    if (on_disk)
      for (const std::string& name : *on_disk)
        if (!removed_.contains(path + "/" + name)) names.insert(name);
    if (!on_disk && !directories_.contains(path)) return fail(on_disk.error());
    const std::string prefix = path + "/";
    for (const auto& [file, content] : changed_)
      if (file.starts_with(prefix) && file.find('/', prefix.size()) == std::string::npos)
        names.insert(file.substr(prefix.size()));
    return std::vector<std::string>(names.begin(), names.end());
  }
  bool exists(const std::string& path) const override {
    const std::lock_guard hold(mutex_);
    return exists_locked(path);
  }
  Status remove(const std::string& path) override {
    const std::lock_guard hold(mutex_);
    if (!exists_locked(path)) return failure("remove", path, ENOENT);
    changed_.erase(path);
    directories_.erase(path);
    removed_.insert(path);
    return {};
  }
  Status rename(const std::string& from, const std::string& to) override {
    const std::lock_guard hold(mutex_);
    MULTIFORA_ASSIGN(ContentPtr content, content_of(from, false));
    changed_.erase(from);
    removed_.insert(from);
    removed_.erase(to);
    changed_[to] = std::move(content);
    return {};
  }
  Status sync_directory(const std::string&) override { return {}; }
  Result<std::uint64_t> free_space(const std::string& path) const override {
    return posix_file_system().free_space(path);
  }
  Result<std::unique_ptr<File>> lock(const std::string& path, Bytes) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(failure("open", path, errno));
    auto file = std::make_unique<LockFile>(fd);
    if (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK)
        return fail(ErrorCode::kLockBusy, "lock of " + path + " failed: held by another process");
      return fail(failure("lock", path, errno));
    }
    return file;
  }

 private:
  bool exists_locked(const std::string& path) const {
    if (changed_.contains(path) || directories_.contains(path)) return true;
    return !removed_.contains(path) && posix_file_system().exists(path);
  }
  Result<ContentPtr> content_of(const std::string& path, bool create) {
    if (const auto at = changed_.find(path); at != changed_.end()) return at->second;
    const bool hidden = removed_.contains(path);
    const int fd = hidden ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (hidden ? ENOENT : errno) != ENOENT) return fail(failure("open", path, errno));
    if (fd < 0 && !create) return fail(failure("open", path, ENOENT));
    struct stat info {};
    if (fd >= 0 && ::fstat(fd, &info) != 0) {
      const int error = errno;
      ::close(fd);
      return fail(failure("stat", path, error));
    }
    auto content = std::make_shared<Content>(fd, static_cast<std::uint64_t>(info.st_size), path);
    removed_.erase(path);
    changed_[path] = content;
    return content;
  }

  mutable std::mutex mutex_;
  std::map<std::string, ContentPtr> changed_;  // every file that was opened
  std::set<std::string> removed_;
  std::set<std::string> directories_;  // made here
};

}  // namespace

std::unique_ptr<FileSystem> make_private_file_system() {
  return std::make_unique<PrivateFileSystem>();
}

}  // namespace multifora
