#include "core/base/file_overlay.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/base/assert.h"

namespace multifora {

namespace {

// Address space of a file until map() asks for more; memory is taken as it is touched.
constexpr std::uint64_t kReserveMin = std::uint64_t{1} << 30;
constexpr std::uint64_t kPage = 4096;

std::uint64_t round_up(std::uint64_t size) {
  return (size + kPage - 1) / kPage * kPage;
}

Status failure(std::string_view operation, const std::string& path, int error) {
  const ErrorCode code = error == ENOENT                     ? ErrorCode::kNoSuchKey
                         : error == EACCES || error == EPERM ? ErrorCode::kUnauthorized
                         : error == EMFILE || error == ENFILE ? ErrorCode::kTooManyFilesOpen
                                                              : ErrorCode::kFileStreamFailed;
  return Status(code, std::string(operation) + " of " + path +
                          " failed: " + std::generic_category().message(error));
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
}

}  // namespace

// One address range: the file below, mapped privately, then zeros.
class OverlayFileSystem::Content {
 public:
  Content() = default;
  Content(const Content&) = delete;
  ~Content() {
    if (at_ != nullptr) ::munmap(at_, reserve_);
    if (fd_ >= 0) ::close(fd_);
  }
  // fd -1: a new file. Owns fd.
  Status open(int fd, const std::string& path) {
    fd_ = fd;
    if (fd >= 0) {
      struct stat info;
      if (::fstat(fd, &info) != 0) return failure("stat", path, errno);
      if (!S_ISREG(info.st_mode)) return failure("open", path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
      size_ = below_size_ = static_cast<std::uint64_t>(info.st_size);
    }
    return reserve(std::max(kReserveMin, 2 * round_up(size_)), path);
  }
  Status reserve(std::uint64_t size, const std::string& path) {
    if (at_ != nullptr && reserve_ >= size) return {};
    void* const range = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return failure("memory mapping", path, errno);
    if (below_size_ > 0 && ::mmap(range, round_up(below_size_), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd_, 0) == MAP_FAILED) {
      const int error = errno;
      ::munmap(range, size);
      return failure("memory mapping", path, error);
    }
    if (at_ != nullptr) {
      if (changed_) take_changes(static_cast<char*>(range));
      ::munmap(at_, reserve_);
    }
    at_ = static_cast<char*>(range);
    reserve_ = size;
    return {};
  }
  Status grow_to(std::uint64_t size, const std::string& path) {
    if (size > reserve_) return failure("extension", path, EFBIG);
    changed_ = true;
    size_ = std::max(size_, size);
    return {};
  }
  void shrink_to(std::uint64_t size) {
    changed_ = true;
    std::memset(at_ + size, 0, size_ - size);
    size_ = size;
  }
  // Somebody uses at() from here on: the range stays where it is.
  Status map(std::uint64_t size, const std::string& path) {
    if (mapped_ && size > reserve_) return failure("memory mapping", path, EFBIG);
    mapped_ = true;
    return reserve(size, path);
  }
  char* at() const { return at_; }
  std::uint64_t size() const { return size_; }

 private:
  void take_changes(char* to) const {
    const std::uint64_t end = round_up(std::max(size_, below_size_));
    for (std::uint64_t page = 0; page < end; page += kPage)
      if (std::memcmp(to + page, at_ + page, kPage) != 0) std::memcpy(to + page, at_ + page, kPage);
  }

  int fd_ = -1;
  char* at_ = nullptr;
  std::uint64_t reserve_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t below_size_ = 0;
  bool changed_ = false;
  bool mapped_ = false;
};

class OverlayFileSystem::OverlayFile final : public File {
 public:
  OverlayFile(OverlayFileSystem& files, std::shared_ptr<Content> content, std::string path)
      : files_(files), content_(std::move(content)), path_(std::move(path)) {}

  Result<std::size_t> read(std::uint64_t offset, void* to, std::size_t size) const override {
    std::uint64_t end = 0;
    {
      const std::lock_guard lock(files_.mutex_);
      end = content_->size();
    }
    if (offset >= end) return std::size_t{0};
    size = static_cast<std::size_t>(std::min<std::uint64_t>(size, end - offset));
    std::memcpy(to, content_->at() + offset, size);
    return size;
  }
  Status write(std::uint64_t offset, Bytes data) override {
    MULTIFORA_TRY(allocate(offset, data.size()));
    std::memcpy(content_->at() + offset, data.data(), data.size());
    return {};
  }
  Status sync() override { return {}; }
  Result<std::uint64_t> size() const override {
    const std::lock_guard lock(files_.mutex_);
    return content_->size();
  }
  Status truncate(std::uint64_t size) override {
    const std::lock_guard lock(files_.mutex_);
    if (size >= content_->size()) return content_->grow_to(size, path_);
    content_->shrink_to(size);
    return {};
  }
  Status allocate(std::uint64_t offset, std::uint64_t size) override {
    const std::lock_guard lock(files_.mutex_);
    return content_->grow_to(offset + size, path_);
  }
  Status punch_hole(std::uint64_t offset, std::uint64_t size) override {
    const std::lock_guard lock(files_.mutex_);
    if (offset >= content_->size()) return {};
    std::memset(content_->at() + offset, 0, std::min(size, content_->size() - offset));
    return {};
  }
  Result<std::uint64_t> allocated_size() const override { return size(); }
  // A second view is the first one again: no trap for stray stores.
  Result<char*> map(std::uint64_t reserve, bool) override {
    const std::lock_guard lock(files_.mutex_);
    MULTIFORA_TRY_R(content_->map(reserve, path_));
    return content_->at();
  }
  void release(std::uint64_t, std::uint64_t) override {}

 private:
  OverlayFileSystem& files_;
  const std::shared_ptr<Content> content_;
  const std::string path_;
};

OverlayFileSystem::OverlayFileSystem() = default;
OverlayFileSystem::~OverlayFileSystem() = default;

Result<std::shared_ptr<OverlayFileSystem::Content>> OverlayFileSystem::find(
    const std::string& path) {
  if (const auto it = contents_.find(path); it != contents_.end()) return it->second;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return nullptr;
  if (fd < 0) return fail(failure("open", path, errno));
  auto content = std::make_shared<Content>();
  MULTIFORA_TRY_R(content->open(fd, path));
  contents_[path] = content;
  return content;
}

Result<std::unique_ptr<File>> OverlayFileSystem::open(const std::string& path, OpenMode mode) {
  const std::lock_guard lock(mutex_);
  MULTIFORA_ASSIGN_R(std::shared_ptr<Content> content, find(path));
  if (!content) {
    if (mode != OpenMode::kCreate) return fail(failure("open", path, ENOENT));
    content = std::make_shared<Content>();
    MULTIFORA_TRY_R(content->open(-1, path));
    contents_[path] = content;
  }
  return std::make_unique<OverlayFile>(*this, std::move(content), path);
}

Status OverlayFileSystem::create_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  struct stat info;
  if (::stat(path.c_str(), &info) == 0)
    return S_ISDIR(info.st_mode) ? Status() : failure("create directory", path, ENOTDIR);
  directories_.insert(path);
  return {};
}

Result<std::vector<std::string>> OverlayFileSystem::list(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  std::set<std::string> names;
  const auto below = posix_file_system().list(path);
  if (below)
    names.insert(below->begin(), below->end());
  else if (!directories_.contains(path))
    return below;
  for (const auto& [name, content] : contents_) {
    if (parent_of(name) != path) continue;
    const std::string last = name.substr(name.rfind('/') + 1);
    if (content)
      names.insert(last);
    else
      names.erase(last);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

bool OverlayFileSystem::exists(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  if (const auto it = contents_.find(path); it != contents_.end()) return it->second != nullptr;
  return directories_.contains(path) || posix_file_system().exists(path);
}

Status OverlayFileSystem::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = contents_.find(path);
  const bool there = it != contents_.end() ? it->second != nullptr
                                           : posix_file_system().exists(path);
  if (!there) return failure("remove", path, ENOENT);
  contents_[path] = nullptr;
  return {};
}

Status OverlayFileSystem::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  MULTIFORA_ASSIGN(std::shared_ptr<Content> content, find(from));
  if (!content) return failure("rename", from, ENOENT);
  contents_[to] = std::move(content);
  contents_[from] = nullptr;
  return {};
}

Status OverlayFileSystem::sync_directory(const std::string&) {
  return {};
}

Result<std::uint64_t> OverlayFileSystem::free_space(const std::string&) const {
  return std::uint64_t{1} << 50;
}

Result<std::unique_ptr<File>> OverlayFileSystem::lock(const std::string& path, Bytes) {
  auto content = std::make_shared<Content>();
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno != ENOENT) return fail(failure("open", path, errno));
  if (fd >= 0 && ::flock(fd, LOCK_SH | LOCK_NB) != 0) {
    const int error = errno;
    ::close(fd);
    if (error == EWOULDBLOCK)
      return fail(ErrorCode::kLockBusy, "lock of " + path + " failed: held by another process");
    return fail(failure("lock", path, error));
  }
  MULTIFORA_TRY_R(content->open(fd, path));
  return std::make_unique<OverlayFile>(*this, std::move(content), path);
}

}  // namespace multifora
