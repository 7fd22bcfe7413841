// No database: documents one behind the other in a mapped file, an array of where they begin. What a scan, a
// grouping and an index build cost where nothing but the bytes themselves is looked at: the floor of the
// rows that read every document. Only those rows; nothing here is durable.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "bench/peers/peer.h"
#include "core/base/bytes.h"

namespace multifora::bench {
namespace {

constexpr std::size_t kRoom = std::size_t{64} << 30;
constexpr std::size_t kAhead = 12;  // documents
constexpr std::size_t kIdAt = 4 + 1 + 4, kValueAt = kIdAt + 8 + 1 + 2;  // in a document: {_id: int64, k: int32 ...

class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    void* at = mmap(nullptr, kRoom, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd_, 0);
    if (fd_ < 0 || at == MAP_FAILED) peer_failed("a file cannot be mapped");
    data_ = static_cast<const char*>(at);
    size_ = static_cast<std::size_t>(lseek(fd_, 0, SEEK_END));
  }
  ~File() {
    munmap(const_cast<char*>(data_), kRoom);
    close(fd_);
  }
  File(const File&) = delete;
  void append(Bytes bytes) {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (written <= 0) peer_failed("a write failed");
      size_ += static_cast<std::size_t>(written);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void sync() {
    if (fdatasync(fd_) != 0) peer_failed("a sync failed");
  }
  const char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  int fd_;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

class Ideal final : public Peer {
 public:
  explicit Ideal(const std::string& directory)
      : directory_(directory), documents_(directory + "/documents"), starts_(directory + "/starts") {}
  std::string version() const override { return "ideal"; }
  std::unique_ptr<Session> session() override;
  void create_index() override {
    std::vector<std::uint64_t> entries;
    entries.reserve(count());
    each([&](const char* document) {
      entries.push_back(std::uint64_t{load_le<std::uint32_t>(document + kValueAt)} << 40 |
                        load_le<std::uint64_t>(document + kIdAt));
    });
    std::sort(entries.begin(), entries.end());
    File index(directory_ + "/index");
    index.append({reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof entries[0]});
    index.sync();
  }
  void drop_index() override { unlink((directory_ + "/index").c_str()); }
  void checkpoint() override {}

  std::size_t count() const { return starts_.size() / sizeof(std::uint64_t); }
  void add(Bytes document) {
    char start[8];
    store_le<std::uint64_t>(start, documents_.size());
    starts_.append({start, sizeof start});
    documents_.append(document);
  }
  template <class Each>
  void each(Each see) const {
    const std::size_t n = count();
    const auto* starts = reinterpret_cast<const std::uint64_t*>(starts_.data());
    for (std::size_t i = 0; i < n; ++i) {
      if (i + kAhead < n) __builtin_prefetch(documents_.data() + starts[i + kAhead]);
      see(documents_.data() + starts[i]);
    }
  }

 private:
  const std::string directory_;
  File documents_, starts_;
};

class IdealSession final : public Session {
 public:
  explicit IdealSession(Ideal& ideal) : ideal_(ideal) {}
  void insert(const std::vector<OwnedDocument>& documents) override {
    for (const OwnedDocument& document : documents) ideal_.add(document.bytes());
  }
  Answer count_k(std::int32_t from, std::int32_t to, bool by_index) override {
    if (by_index) none();
    Answer answer;
    ideal_.each([&](const char* document) {
      const auto k = load_le<std::int32_t>(document + kValueAt);
      answer.sum += k >= from && k < to;
    });
    return answer;
  }
  Answer group_k() override {
    std::array<std::int64_t, 1000> groups{};
    ideal_.each([&](const char* document) { ++groups[load_le<std::uint32_t>(document + kValueAt) % 1000]; });
    Answer answer;
    for (std::size_t k = 0; k < groups.size(); ++k) {
      if (groups[k] == 0) continue;
      ++answer.documents;
      answer.sum += static_cast<std::int64_t>(k) + groups[k];
    }
    return answer;
  }
  Answer get(std::int64_t) override { none(); }
  Answer find_k(std::int32_t) override { none(); }
  Answer count_all() override { none(); }
  Answer range(std::int64_t, std::int64_t) override { none(); }
  Answer newest(std::int64_t) override { none(); }
  Answer project_k(std::int64_t) override { none(); }
  Answer distinct_k() override { none(); }
  Answer count_text(std::string_view) override { none(); }
  void increment_k(std::int64_t, std::int64_t) override { none(); }
  void replace(std::int64_t, const OwnedDocument&) override { none(); }

 private:
  [[noreturn]] static void none() { peer_failed("the ideal walk has no such row"); }
  Ideal& ideal_;
};

std::unique_ptr<Session> Ideal::session() { return std::make_unique<IdealSession>(*this); }

}  // namespace

std::unique_ptr<Peer> open_peer(const std::string& where) { return std::make_unique<Ideal>(where); }

}  // namespace multifora::bench
