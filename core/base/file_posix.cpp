// The operating system's files. Errors are mapped as file.h says; interrupted calls are repeated.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <system_error>

#include "core/base/assert.h"
#include "core/base/file.h"

namespace multifora {

namespace {

// The largest count one read or write call is asked for (Linux moves at most 2 GiB - 4 KiB).
constexpr std::size_t kTransferMax = std::size_t{1} << 30;

ErrorCode code_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kOutOfDiskSpace;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kUnauthorized;
    case ENOENT:
      return ErrorCode::kNoSuchKey;
    case EMFILE:
    case ENFILE:
      return ErrorCode::kTooManyFilesOpen;
    default:
      return ErrorCode::kFileStreamFailed;
  }
}

Status failure(std::string_view operation, const std::string& path, int error) {
  std::string message(operation);
  message.append(" of ").append(path).append(" failed: ");
  message.append(std::generic_category().message(error));
  return Status(code_of(error), std::move(message));
}

// Repeats a call that returns -1 while a signal interrupts it.
template <class F>
auto retry(F&& call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

class PosixFile final : public File {
 public:
  PosixFile(int fd, std::string path, bool writable)
      : fd_(fd), path_(std::move(path)), writable_(writable) {}
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  ~PosixFile() override {
    for (const Mapping& mapping : mappings_) ::munmap(mapping.at, mapping.size);
    ::close(fd_);  // not repeated on EINTR: Linux has closed it then
  }

  Result<std::size_t> read(std::uint64_t offset, void* to, std::size_t size) const override;
  Status write(std::uint64_t offset, Bytes data) override;
  Status sync() override;
  Status sync_range(std::uint64_t offset, std::uint64_t size) override;
  void write_back(std::uint64_t offset, std::uint64_t size, WriteBack how) override;
  Result<std::uint64_t> size() const override;
  Status truncate(std::uint64_t size) override;
  Status allocate(std::uint64_t offset, std::uint64_t size) override;
  Status punch_hole(std::uint64_t offset, std::uint64_t size) override;
  Result<std::uint64_t> allocated_size() const override;
  Result<char*> map(std::uint64_t reserve, bool writable) override;
  void release(std::uint64_t offset, std::uint64_t size) override;

 private:
  struct Mapping {
    char* at;
    std::uint64_t size;
  };
  Status write_zeros(std::uint64_t offset, std::uint64_t size);
  Status extend_with_zeros(std::uint64_t offset, std::uint64_t size);

  const int fd_;
  const std::string path_;
  const bool writable_;
  std::mutex mappings_mutex_;  // guards mappings_
  std::vector<Mapping> mappings_;
};

Result<std::size_t> PosixFile::read(std::uint64_t offset, void* to, std::size_t size) const {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = retry([&] {
      return ::pread(fd_, static_cast<char*>(to) + done, std::min(size - done, kTransferMax),
                     static_cast<off_t>(offset + done));
    });
    if (n < 0) return fail(failure("read", path_, errno));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

Status PosixFile::write(std::uint64_t offset, Bytes data) {
  while (!data.empty()) {
    const ssize_t n = retry([&] {
      return ::pwrite(fd_, data.data(), std::min(data.size(), kTransferMax),
                      static_cast<off_t>(offset));
    });
    if (n < 0) return failure("write", path_, errno);
    offset += static_cast<std::uint64_t>(n);
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

// fdatasync also writes the pages dirtied through a shared mapping.
Status PosixFile::sync() {
  if (retry([&] { return ::fdatasync(fd_); }) != 0) return failure("sync", path_, errno);
  return {};
}

// msync() of a shared mapping is the one call that syncs a range: the kernel runs the file system's
// fdatasync on just these bytes, however they were written.
Status PosixFile::sync_range(std::uint64_t offset, std::uint64_t size) {
  const auto page = static_cast<std::uint64_t>(::getpagesize());
  const std::uint64_t begin = offset / page * page;
  const std::uint64_t end = (offset + size + page - 1) / page * page;
  char* at = nullptr;
  {
    std::lock_guard lock(mappings_mutex_);
    for (const Mapping& mapping : mappings_)
      if (end <= mapping.size) at = mapping.at;
  }
  if (at == nullptr) return sync();
  if (retry([&] { return ::msync(at + begin, end - begin, MS_SYNC); }) != 0)
    return failure("sync", path_, errno);
  return {};
}

void PosixFile::write_back(std::uint64_t offset, std::uint64_t size, WriteBack how) {
  unsigned flags = SYNC_FILE_RANGE_WRITE;
  if (how == WriteBack::kWait) flags |= SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
  ::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(size), flags);
}

Result<std::uint64_t> PosixFile::size() const {
  struct stat info;
  if (::fstat(fd_, &info) != 0) return fail(failure("stat", path_, errno));
  return static_cast<std::uint64_t>(info.st_size);
}

Status PosixFile::truncate(std::uint64_t size) {
  if (retry([&] { return ::ftruncate(fd_, static_cast<off_t>(size)); }) != 0)
    return failure("truncate", path_, errno);
  return {};
}

Status PosixFile::allocate(std::uint64_t offset, std::uint64_t size) {
  if (size == 0) return {};
  const int result = retry(
      [&] { return ::fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(size)); });
  if (result == 0) return {};
  if (errno == EOPNOTSUPP || errno == ENOSYS) return extend_with_zeros(offset, size);
  return failure("allocate", path_, errno);
}

// Without fallocate only what lies beyond the end is written, so that no other thread's bytes are
// put at risk; holes inside the file stay holes.
Status PosixFile::extend_with_zeros(std::uint64_t offset, std::uint64_t size) {
  MULTIFORA_ASSIGN(const std::uint64_t old_size, this->size());
  const std::uint64_t end = offset + size;
  if (end <= old_size) return {};
  const std::uint64_t from = std::max(offset, old_size);
  return write_zeros(from, end - from);
}

Status PosixFile::write_zeros(std::uint64_t offset, std::uint64_t size) {
  static constexpr std::size_t kChunk = 64 * 1024;
  static const char zeros[kChunk] = {};
  while (size > 0) {
    const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(size, kChunk));
    MULTIFORA_TRY(write(offset, Bytes(zeros, n)));
    offset += n;
    size -= n;
  }
  return {};
}

Status PosixFile::punch_hole(std::uint64_t offset, std::uint64_t size) {
  // KEEP_SIZE cannot extend the file: past the end there is nothing to give back.
  MULTIFORA_ASSIGN(const std::uint64_t file_size, this->size());
  if (offset >= file_size) return {};
  size = std::min(size, file_size - offset);
  if (size == 0) return {};
  const int result = retry([&] {
    return ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(size));
  });
  if (result == 0) return {};
  // The contract that the range reads as zeros holds even where blocks cannot be given back.
  if (errno == EOPNOTSUPP || errno == ENOSYS) return write_zeros(offset, size);
  return failure("hole punching", path_, errno);
}

Result<std::uint64_t> PosixFile::allocated_size() const {
  struct stat info;
  if (::fstat(fd_, &info) != 0) return fail(failure("stat", path_, errno));
  return static_cast<std::uint64_t>(info.st_blocks) * 512;  // st_blocks is in 512 bytes on Linux
}

Result<char*> PosixFile::map(std::uint64_t reserve, bool writable) {
  MULTIFORA_ASSERT(reserve > 0 && reserve % static_cast<std::uint64_t>(::getpagesize()) == 0);
  MULTIFORA_ASSERT(writable_ || !writable);
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* at = ::mmap(nullptr, reserve, protection, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (at == MAP_FAILED) return fail(failure("memory mapping", path_, errno));
  std::lock_guard lock(mappings_mutex_);
  mappings_.push_back({static_cast<char*>(at), reserve});
  return static_cast<char*>(at);
}

// A shared mapping's pages stay in the page cache after MADV_DONTNEED (dirty ones are kept until
// written), so nothing is lost; POSIX_FADV_DONTNEED then drops the clean ones from the cache.
void PosixFile::release(std::uint64_t offset, std::uint64_t size) {
  const auto page = static_cast<std::uint64_t>(::getpagesize());
  const std::uint64_t begin = (offset + page - 1) / page * page;
  const std::uint64_t end = (offset + size) / page * page;
  if (begin >= end) return;
  {
    std::lock_guard lock(mappings_mutex_);
    for (const Mapping& mapping : mappings_) {
      const std::uint64_t stop = std::min(end, mapping.size);
      if (begin < stop) ::madvise(mapping.at + begin, stop - begin, MADV_DONTNEED);
    }
  }
  ::posix_fadvise(fd_, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                  POSIX_FADV_DONTNEED);
}

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
  Status create_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) const override;
  bool exists(const std::string& path) const override { return ::access(path.c_str(), F_OK) == 0; }
  Status remove(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string& path) override;
  Result<std::uint64_t> free_space(const std::string& path) const override;
  Result<std::unique_ptr<File>> lock(const std::string& path, Bytes content) override;
};

int open_flags(OpenMode mode) {
  switch (mode) {
    case OpenMode::kReadOnly:
      return O_RDONLY | O_CLOEXEC;
    case OpenMode::kExisting:
      return O_RDWR | O_CLOEXEC;
    case OpenMode::kCreate:
      break;
  }
  return O_RDWR | O_CREAT | O_CLOEXEC;
}

Result<std::unique_ptr<File>> PosixFileSystem::open(const std::string& path, OpenMode mode) {
  const int fd = retry([&] { return ::open(path.c_str(), open_flags(mode), 0600); });
  if (fd < 0) return fail(failure("open", path, errno));
  return std::make_unique<PosixFile>(fd, path, mode != OpenMode::kReadOnly);
}

Status PosixFileSystem::create_directory(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      // A parent may be on a read-only mount and yet exist.
      const int error = errno;
      struct stat info;
      if (::stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return failure("create directory", part, error);
    }
    if (slash == std::string::npos) break;
  }
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return failure("stat", path, errno);
  if (!S_ISDIR(info.st_mode)) return failure("create directory", path, ENOTDIR);
  return {};
}

Result<std::vector<std::string>> PosixFileSystem::list(const std::string& path) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
  if (!directory) return fail(failure("list", path, errno));
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return fail(failure("list", path, errno));
  std::sort(names.begin(), names.end());
  return names;
}

Status PosixFileSystem::remove(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return {};
  int error = errno;
  // unlink() of a directory says EISDIR (Linux) or EPERM (POSIX).
  if (error == EISDIR || error == EPERM) {
    if (::rmdir(path.c_str()) == 0) return {};
    if (errno != ENOTDIR) error = errno;
  }
  return failure("remove", path, error);
}

Status PosixFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failure("rename to " + to, from, errno);
  return {};
}

Status PosixFileSystem::sync_directory(const std::string& path) {
  const int fd = retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) return failure("open", path, errno);
  const int result = retry([&] { return ::fsync(fd); });
  const int error = errno;
  ::close(fd);
  // Some file systems cannot sync a directory and say so with EINVAL; they order names themselves.
  if (result != 0 && error != EINVAL) return failure("sync", path, error);
  return {};
}

Result<std::uint64_t> PosixFileSystem::free_space(const std::string& path) const {
  struct statvfs info;
  if (retry([&] { return ::statvfs(path.c_str(), &info); }) != 0)
    return fail(failure("statvfs", path, errno));
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

// The content is written after the lock is held: a loser must not overwrite the winner's.
Result<std::unique_ptr<File>> PosixFileSystem::lock(const std::string& path, Bytes content) {
  const int fd = retry([&] { return ::open(path.c_str(), open_flags(OpenMode::kCreate), 0600); });
  if (fd < 0) return fail(failure("open", path, errno));
  auto file = std::make_unique<PosixFile>(fd, path, true);
  if (retry([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) != 0) {
    if (errno == EWOULDBLOCK)
      return fail(ErrorCode::kLockBusy, "lock of " + path + " failed: held by another process");
    return fail(failure("lock", path, errno));
  }
  MULTIFORA_TRY_R(file->truncate(0));
  // On a full disk the lock is held all the same: the content only tells people who holds it.
  const Status written = file->write(0, content);
  if (!written.ok() && written.code() != ErrorCode::kOutOfDiskSpace) return fail(written);
  return file;
}

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem& files = *new PosixFileSystem();
  return files;
}

}  // namespace multifora
