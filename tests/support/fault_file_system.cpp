#include "tests/support/fault_file_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/base/assert.h"

namespace multifora {

namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kSector = 512;

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

Status error(ErrorCode code, const char* operation, const std::string& path, const char* why) {
  return Status(code, std::string(operation) + " of " + path + " failed: " + why);
}

Status no_such_file(const char* operation, const std::string& path) {
  return error(ErrorCode::kNoSuchKey, operation, path, "No such file or directory");
}

using Blocks = std::unordered_map<std::uint64_t, std::string>;  // absent: zeros

}  // namespace

// The live content is the memfd; the disk is `durable` and `durable_size`.
struct FaultFileSystem::Inode {
  int fd = -1;
  Blocks durable;
  std::uint64_t durable_size = 0;
  Blocks lost;  // content that a failed sync dropped and that counts as clean
  // Blocks that calls changed since they were last found on the disk. Stores through a writable
  // mapping leave no trace: then every block has to be looked at.
  std::set<std::uint64_t> touched;
  bool mapped_writable = false;
  bool dead = false;
  struct Mapping {
    void* at;
    std::uint64_t size;
  };
  std::vector<Mapping> mappings;

  Inode() : fd(::memfd_create("fault", MFD_CLOEXEC)) { MULTIFORA_ASSERT(fd >= 0); }
  Inode(const Inode&) = delete;
  ~Inode() {
    for (const Mapping& mapping : mappings) ::munmap(mapping.at, mapping.size);
    ::close(fd);
  }

  std::uint64_t size() const {
    struct stat info;
    MULTIFORA_ASSERT(::fstat(fd, &info) == 0);
    return static_cast<std::uint64_t>(info.st_size);
  }
  void touch(std::uint64_t offset, std::uint64_t size) {
    for (std::uint64_t n = offset / kBlock; n * kBlock < offset + size; ++n) touched.insert(n);
  }
  void write(std::uint64_t offset, Bytes data) {
    touch(offset, data.size());
    MULTIFORA_ASSERT(::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset)) ==
                     static_cast<ssize_t>(data.size()));
  }
  std::string block(std::uint64_t number) const {
    std::string bytes(kBlock, '\0');
    MULTIFORA_ASSERT(::pread(fd, bytes.data(), kBlock, static_cast<off_t>(number * kBlock)) >= 0);
    return bytes;
  }
  std::string durable_block(std::uint64_t number) const {
    const auto it = durable.find(number);
    return it == durable.end() ? std::string(kBlock, '\0') : it->second;
  }

  // Blocks of [offset, end) whose live content is not on the disk and that the kernel would still
  // write, in order.
  std::vector<std::uint64_t> changed(std::uint64_t offset = 0,
                                     std::uint64_t end = ~std::uint64_t{0}) const;
  std::vector<std::uint64_t> differing(std::uint64_t first, std::uint64_t last) const;
  bool differs(std::uint64_t number, Bytes now) const;
};

std::vector<std::uint64_t> FaultFileSystem::Inode::changed(std::uint64_t offset,
                                                           std::uint64_t end) const {
  end = std::min(end, size());
  if (offset >= end) return {};
  const std::uint64_t first = offset / kBlock;
  const std::uint64_t last = (end - 1) / kBlock;
  if (mapped_writable) return differing(first, last);
  std::vector<std::uint64_t> numbers;
  for (auto it = touched.lower_bound(first); it != touched.end() && *it <= last; ++it)
    if (differs(*it, block(*it))) numbers.push_back(*it);
  return numbers;
}

// Looks at every block from first to last.
std::vector<std::uint64_t> FaultFileSystem::Inode::differing(std::uint64_t first,
                                                             std::uint64_t last) const {
  constexpr std::uint64_t kBlocksAtOnce = 64;
  std::vector<std::uint64_t> numbers;
  std::string bytes;
  for (std::uint64_t at = first; at <= last; at += kBlocksAtOnce) {
    const std::uint64_t count = std::min(kBlocksAtOnce, last + 1 - at);
    bytes.assign(count * kBlock, '\0');
    MULTIFORA_ASSERT(::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(at * kBlock)) >= 0);
    for (std::uint64_t n = 0; n < count; ++n)
      if (differs(at + n, Bytes(bytes).substr(n * kBlock, kBlock))) numbers.push_back(at + n);
  }
  return numbers;
}

bool FaultFileSystem::Inode::differs(std::uint64_t number, Bytes now) const {
  static const std::string zeros(kBlock, '\0');
  const auto on_disk = durable.find(number);
  if (now == (on_disk == durable.end() ? Bytes(zeros) : Bytes(on_disk->second))) return false;
  const auto dropped = lost.find(number);
  return dropped == lost.end() || Bytes(dropped->second) != now;
}

// --- FaultFile ---

class FaultFile final : public File {
 public:
  using Operation = FaultFileSystem::Operation;
  FaultFile(FaultFileSystem& files, std::shared_ptr<FaultFileSystem::Inode> inode, std::string path,
            bool writable)
      : files_(files), inode_(std::move(inode)), path_(std::move(path)), writable_(writable) {}

  Result<std::size_t> read(std::uint64_t offset, void* to, std::size_t size) const override {
    const ssize_t count = ::pread(inode_->fd, to, size, static_cast<off_t>(offset));
    if (count < 0) return fail(error(ErrorCode::kFileStreamFailed, "read", path_, "?"));
    return static_cast<std::size_t>(count);
  }
  Status write(std::uint64_t offset, Bytes data) override;
  Status sync() override { return sync_range(0, ~std::uint64_t{0}); }
  Status sync_range(std::uint64_t offset, std::uint64_t size) override;
  Result<std::uint64_t> size() const override { return inode_->size(); }
  Status truncate(std::uint64_t size) override;
  Status allocate(std::uint64_t offset, std::uint64_t size) override;
  Status punch_hole(std::uint64_t offset, std::uint64_t size) override;
  Result<std::uint64_t> allocated_size() const override { return inode_->size(); }
  Result<char*> map(std::uint64_t reserve, bool writable) override;
  void release(std::uint64_t, std::uint64_t) override {}

 private:
  // The status of an operation on this file, before its effect; under the file system's mutex.
  FaultFileSystem::Outcome begin(Operation operation);
  Status resize(std::uint64_t size);

  FaultFileSystem& files_;
  const std::shared_ptr<FaultFileSystem::Inode> inode_;
  const std::string path_;
  const bool writable_;
};

FaultFileSystem::Outcome FaultFile::begin(Operation operation) {
  if (inode_->dead)
    return {error(ErrorCode::kFileStreamFailed, "use", path_, "the power was cut"), false};
  if (!writable_)
    return {error(ErrorCode::kFileStreamFailed, "write", path_, "Bad file descriptor"), false};
  return files_.begin(operation, path_);
}

Status FaultFile::write(std::uint64_t offset, Bytes data) {
  std::lock_guard lock(files_.mutex_);
  const FaultFileSystem::Outcome outcome = begin(Operation::kWrite);
  if (outcome.short_write && !data.empty())
    inode_->write(offset, data.substr(0, files_.random(data.size())));
  MULTIFORA_TRY(outcome.status);
  MULTIFORA_TRY(files_.room_for(inode_->size(), offset + data.size(), path_));
  inode_->write(offset, data);
  // Even the same bytes make a page dirty again.
  for (std::uint64_t n = offset / kBlock; n * kBlock < offset + data.size(); ++n)
    inode_->lost.erase(n);
  // The kernel may write a block back at any time: now and then this content reaches the disk.
  if (!data.empty() && files_.random(16) == 0) {
    const std::uint64_t number = (offset + files_.random(data.size())) / kBlock;
    inode_->durable[number] = inode_->block(number);
  }
  return {};
}

Status FaultFile::sync_range(std::uint64_t offset, std::uint64_t size) {
  std::lock_guard lock(files_.mutex_);
  const FaultFileSystem::Outcome outcome = begin(Operation::kSync);
  if (inode_->dead || files_.cut_) return outcome.status;
  const std::uint64_t end = size > ~std::uint64_t{0} - offset ? ~std::uint64_t{0} : offset + size;
  for (const std::uint64_t number : inode_->changed(offset, end)) {
    const bool written = outcome.status.ok() || files_.random(2) == 0;
    if (written) {
      inode_->durable[number] = inode_->block(number);
      inode_->lost.erase(number);
    } else {
      inode_->lost[number] = inode_->block(number);
    }
  }
  if (outcome.status.ok()) {
    inode_->durable_size = inode_->size();
    const std::uint64_t last = (std::min(end, inode_->durable_size) + kBlock - 1) / kBlock;
    inode_->touched.erase(inode_->touched.lower_bound(offset / kBlock),
                          inode_->touched.lower_bound(std::max(offset / kBlock, last)));
  }
  return outcome.status;
}

Status FaultFile::resize(std::uint64_t size) {
  // What a cut takes away may come back as zeros.
  for (const auto& [number, bytes] : inode_->durable)
    if ((number + 1) * kBlock > size) inode_->touched.insert(number);
  MULTIFORA_TRY(files_.room_for(inode_->size(), size, path_));
  MULTIFORA_ASSERT(::ftruncate(inode_->fd, static_cast<off_t>(size)) == 0);
  return {};
}

Status FaultFile::truncate(std::uint64_t size) {
  std::lock_guard lock(files_.mutex_);
  MULTIFORA_TRY(begin(Operation::kTruncate).status);
  return resize(size);
}

Status FaultFile::allocate(std::uint64_t offset, std::uint64_t size) {
  std::lock_guard lock(files_.mutex_);
  MULTIFORA_TRY(begin(Operation::kAllocate).status);
  return offset + size > inode_->size() ? resize(offset + size) : Status{};
}

Status FaultFile::punch_hole(std::uint64_t offset, std::uint64_t size) {
  std::lock_guard lock(files_.mutex_);
  MULTIFORA_TRY(begin(Operation::kWrite).status);
  inode_->touch(offset, size);
  if (size > 0)
    MULTIFORA_ASSERT(::fallocate(inode_->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 static_cast<off_t>(offset), static_cast<off_t>(size)) == 0);
  return {};
}

Result<char*> FaultFile::map(std::uint64_t reserve, bool writable) {
  std::lock_guard lock(files_.mutex_);
  void* at = ::mmap(nullptr, reserve, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                    MAP_SHARED | MAP_NORESERVE, inode_->fd, 0);
  if (at == MAP_FAILED)
    return fail(error(ErrorCode::kFileStreamFailed, "memory mapping", path_, "no address space"));
  inode_->mappings.push_back({at, reserve});
  inode_->mapped_writable |= writable;
  return static_cast<char*>(at);
}

// --- FaultFileSystem: failures ---

FaultFileSystem::FaultFileSystem(std::uint64_t seed) : random_(seed) {}
FaultFileSystem::~FaultFileSystem() = default;

std::uint64_t FaultFileSystem::random(std::uint64_t below) {
  return random_() % below;
}

void FaultFileSystem::fail(Operation operation, std::uint64_t nth, Failure failure,
                           std::string path_part, bool sticky) {
  std::lock_guard lock(mutex_);
  MULTIFORA_ASSERT(nth > 0);
  plans_.push_back({operation, nth, failure, std::move(path_part), sticky});
}

void FaultFileSystem::clear_failures() {
  std::lock_guard lock(mutex_);
  plans_.clear();
}

void FaultFileSystem::power_cut_after(std::uint64_t nth) {
  std::lock_guard lock(mutex_);
  cut_in_ = nth;
}

bool FaultFileSystem::power_is_cut() const {
  std::lock_guard lock(mutex_);
  return cut_;
}

std::uint64_t FaultFileSystem::count(Operation operation) const {
  std::lock_guard lock(mutex_);
  return counts_[static_cast<int>(operation)];
}

void FaultFileSystem::set_capacity(std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

FaultFileSystem::Outcome FaultFileSystem::begin(Operation operation, const std::string& path) {
  ++counts_[static_cast<int>(operation)];
  if (operation != Operation::kChange) ++counts_[static_cast<int>(Operation::kChange)];
  if (!cut_ && cut_in_ > 0 && --cut_in_ == 0) cut_power();
  if (cut_) return {error(ErrorCode::kFileStreamFailed, "use", path, "the power was cut"), false};
  Outcome outcome;
  for (Plan& plan : plans_) {
    if (plan.operation != operation && plan.operation != Operation::kChange) continue;
    if (path.find(plan.path_part) == std::string::npos) continue;
    if (plan.left > 0)
      --plan.left;
    else if (!plan.sticky)
      continue;
    if (plan.left > 0) continue;
    const bool full = plan.failure == Failure::kNoSpace || plan.failure == Failure::kShortNoSpace;
    outcome.short_write =
        plan.failure == Failure::kShortWrite || plan.failure == Failure::kShortNoSpace;
    outcome.status =
        full ? error(ErrorCode::kOutOfDiskSpace, "planned failure", path, "No space left on device")
             : error(ErrorCode::kFileStreamFailed, "planned failure", path, "Input/output error");
  }
  // A plan that has fired once is over; a left of zero means exactly that.
  std::erase_if(plans_, [](const Plan& plan) { return plan.left == 0 && !plan.sticky; });
  return outcome;
}

Status FaultFileSystem::room_for(std::uint64_t old_size, std::uint64_t new_size,
                                 const std::string& path) const {
  if (new_size <= old_size) return {};
  std::uint64_t total = new_size - old_size;
  for (const auto& [name, inode] : names_) total += inode->size();
  if (total <= capacity_) return {};
  return error(ErrorCode::kOutOfDiskSpace, "extension", path, "No space left on device");
}

// --- crash ---

// What the disk holds if the power goes now; the live content and the open files stay as they are.
void FaultFileSystem::cut_power() {
  cut_ = true;
  Names survivors = durable_names_;
  for (const auto& [directory, changes] : journal_) {
    const std::uint64_t kept = random(changes.size() + 1);
    for (std::uint64_t i = 0; i < kept; ++i) apply(&survivors, changes[i]);
  }
  after_crash_.clear();
  std::map<Inode*, std::shared_ptr<Inode>> copies;
  for (const auto& [name, inode] : survivors) {
    std::shared_ptr<Inode>& copy = copies[inode.get()];
    if (!copy) {
      copy = new_inode();
      const std::uint64_t size = random(2) == 0 ? inode->size() : inode->durable_size;
      Blocks disk = inode->durable;
      for (const std::uint64_t number : inode->changed()) {
        const std::uint64_t fate = random(8);
        if (fate < 3) continue;
        std::string block = inode->block(number);
        if (fate == 3) {  // torn: each sector old or new
          const std::string old = inode->durable_block(number);
          for (std::uint64_t at = 0; at < kBlock; at += kSector)
            if (random(2) == 0) block.replace(at, kSector, old, at, kSector);
        }
        disk[number] = std::move(block);
      }
      MULTIFORA_ASSERT(::ftruncate(copy->fd, static_cast<off_t>(size)) == 0);
      for (const auto& [number, block] : disk) {
        if (number * kBlock >= size) continue;
        copy->write(number * kBlock,
                    Bytes(block).substr(0, std::min(kBlock, size - number * kBlock)));
        copy->durable[number] = copy->block(number);
      }
      copy->durable_size = size;
    }
    after_crash_[name] = copy;
  }
}

void FaultFileSystem::crash() {
  std::lock_guard lock(mutex_);
  if (!cut_) cut_power();
  for (const auto* names : {&names_, &durable_names_})
    for (const auto& [name, inode] : *names) inode->dead = true;
  for (const auto& [directory, changes] : journal_)
    for (const NameChange& change : changes)
      if (change.inode) change.inode->dead = true;
  names_ = after_crash_;
  durable_names_ = after_crash_;
  after_crash_.clear();
  journal_.clear();
  locks_.clear();
  plans_.clear();
  cut_ = false;
  cut_in_ = 0;
}

void FaultFileSystem::poke(const std::string& path, std::uint64_t offset, Bytes bytes) {
  std::lock_guard lock(mutex_);
  Inode& inode = *names_.at(path);
  inode.write(offset, bytes);
  for (std::uint64_t n = offset / kBlock; n * kBlock < offset + bytes.size(); ++n)
    inode.durable[n] = inode.block(n);
}

std::string FaultFileSystem::content(const std::string& path) const {
  std::lock_guard lock(mutex_);
  const Inode& inode = *names_.at(path);
  std::string bytes(inode.size(), '\0');
  MULTIFORA_ASSERT(::pread(inode.fd, bytes.data(), bytes.size(), 0) ==
                   static_cast<ssize_t>(bytes.size()));
  return bytes;
}

// --- names ---

std::shared_ptr<FaultFileSystem::Inode> FaultFileSystem::new_inode() {
  return std::make_shared<Inode>();
}

void FaultFileSystem::apply(Names* names, const NameChange& change) const {
  if (!change.renamed_from.empty()) names->erase(change.renamed_from);
  if (change.inode)
    (*names)[change.name] = change.inode;
  else
    names->erase(change.name);
}

void FaultFileSystem::change_name(NameChange change) {
  apply(&names_, change);
  const std::string directory = parent_of(change.name);
  journal_[directory].push_back(std::move(change));
}

Result<std::unique_ptr<File>> FaultFileSystem::open(const std::string& path, OpenMode mode) {
  std::lock_guard lock(mutex_);
  auto it = names_.find(path);
  if (it == names_.end()) {
    if (mode != OpenMode::kCreate) return multifora::fail(no_such_file("open", path));
    MULTIFORA_TRY_R(begin(Operation::kChange, path).status);
    change_name({path, new_inode(), {}});
    it = names_.find(path);
  }
  return std::make_unique<FaultFile>(*this, it->second, path, mode != OpenMode::kReadOnly);
}

Status FaultFileSystem::create_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  directories_[path] = true;
  return {};
}

Result<std::vector<std::string>> FaultFileSystem::list(const std::string& path) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (const auto& [name, inode] : names_)
    if (parent_of(name) == path) found.push_back(name.substr(path.size() + 1));
  if (found.empty() && !directories_.contains(path))
    return multifora::fail(no_such_file("list", path));
  return found;
}

bool FaultFileSystem::exists(const std::string& path) const {
  std::lock_guard lock(mutex_);
  return names_.contains(path) || directories_.contains(path);
}

Status FaultFileSystem::remove(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (!names_.contains(path)) return no_such_file("remove", path);
  MULTIFORA_TRY(begin(Operation::kChange, path).status);
  change_name({path, nullptr, {}});
  return {};
}

Status FaultFileSystem::rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  const auto it = names_.find(from);
  if (it == names_.end()) return no_such_file("rename", from);
  MULTIFORA_TRY(begin(Operation::kChange, from).status);
  MULTIFORA_ASSERT(parent_of(from) == parent_of(to));  // one journal entry is one directory's
  change_name({to, it->second, from});
  return {};
}

Status FaultFileSystem::sync_directory(const std::string& path) {
  std::lock_guard lock(mutex_);
  MULTIFORA_TRY(begin(Operation::kSync, path).status);
  for (const NameChange& change : journal_[path]) apply(&durable_names_, change);
  journal_.erase(path);
  return {};
}

Result<std::uint64_t> FaultFileSystem::free_space(const std::string&) const {
  std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const auto& [name, inode] : names_) total += inode->size();
  return capacity_ > total ? capacity_ - total : 0;
}

Result<std::unique_ptr<File>> FaultFileSystem::lock(const std::string& path, Bytes content) {
  std::lock_guard lock(mutex_);
  if (!locks_[path].expired())
    return multifora::fail(error(ErrorCode::kLockBusy, "lock", path, "held by another process"));
  // The lock is the inode's life in the returned file; it has no name, so no crash brings it back.
  const std::shared_ptr<Inode> inode = new_inode();
  inode->write(0, content);
  locks_[path] = inode;
  return std::make_unique<FaultFile>(*this, inode, path, true);
}

}  // namespace multifora
