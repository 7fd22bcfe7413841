#include "plugins/command-change-stream/oplog.h"

#include <algorithm>

#include "plugins/command-change-stream/oplog_entry.h"

namespace multifora::change_stream {
namespace {

constexpr std::string_view kNamespace = "local.oplog.rs";

// A record's id is the entry's ts. Batches are read one by one in either direction; backwards from
// windows of positions that double until there is something in them.
class OplogCursor final : public RecordCursor {
 public:
  OplogCursor(Store& store, bool backward)
      : feed_(store.changes()), backward_(backward), end_(feed_.newest()) {
    at_ = backward ? end_ : feed_.oldest();
  }

  Result<bool> next() override {
    while (current_ + 1 >= entries_.size()) {
      MULTIFORA_ASSIGN_R(const bool loaded, backward_ ? load_before() : load_after());
      if (!loaded) {
        current_ = entries_.size();
        return false;
      }
    }
    ++current_;
    return true;
  }
  RecordId id() const override { return entries_[current_].time; }
  DocumentView document() const override { return entries_[current_].document.view(); }
  void seek(RecordId id) override {
    clear();
    older_.clear();
    window_ = kFirstWindow;
    seek_ = id;
    at_ = backward_ ? std::min(end_, id) : std::max(feed_.oldest(), id > 0 ? id - 1 : 0);
    // Backwards the batch that holds the entry may have a later position.
    if (backward_) at_ = end_;
  }

 private:
  static constexpr LogPosition kFirstWindow = 64;
  static constexpr std::size_t kBefore = static_cast<std::size_t>(-1);

  void clear() {
    entries_.clear();
    current_ = kBefore;
  }

  // The next batch with entries after at_. Those that come in later are seen by a later look.
  Result<bool> load_after() {
    while (at_ < feed_.newest()) {
      MULTIFORA_ASSIGN_R(const bool any, load_one(at_));
      if (!any) return false;
      std::erase_if(entries_, [&](const OplogEntry& entry) { return entry.time < seek_; });
      if (!entries_.empty()) return true;
    }
    return false;
  }

  // The batch before the one that was given last.
  Result<bool> load_before() {
    while (true) {
      while (!older_.empty()) {
        LogPosition from = older_.back() - 1;
        older_.pop_back();
        MULTIFORA_ASSIGN_R(const bool any, load_one(from));
        if (!any) continue;
        std::reverse(entries_.begin(), entries_.end());
        if (seek_ > 0)
          std::erase_if(entries_, [&](const OplogEntry& entry) { return entry.time > seek_; });
        if (!entries_.empty()) return true;
      }
      const LogPosition oldest = feed_.oldest();
      if (at_ <= oldest) return false;
      const LogPosition from = std::max(oldest, at_ > window_ ? at_ - window_ : 0);
      window_ *= 2;
      LogPosition reached = 0;
      MULTIFORA_TRY_R(feed_.read(from, {}, &reached, [&](const ChangeBatch& batch) {
        if (batch.position > at_) return false;
        older_.push_back(batch.position);
        return true;
      }));
      at_ = from;
    }
  }

  // The first batch after `at`, which is moved to it. False: there is none.
  Result<bool> load_one(LogPosition& at) {
    clear();
    bool found = false;
    Status status;
    LogPosition reached = at;
    const Status read = feed_.read(at, {}, &reached, [&](const ChangeBatch& batch) {
      found = true;
      auto entries = oplog_entries(batch);
      if (entries)
        entries_ = std::move(*entries);
      else
        status = std::move(entries).error();
      return false;
    });
    if (read.code() == ErrorCode::kCappedPositionLost)
      return fail(ErrorCode::kCappedPositionLost,
                  "CollectionScan died due to position in capped collection being deleted. " + read.message());
    MULTIFORA_TRY_R(read);
    MULTIFORA_TRY_R(status);
    at = reached;
    return found;
  }

  ChangeFeed& feed_;
  const bool backward_;
  const LogPosition end_;
  LogPosition at_ = 0;
  LogPosition window_ = kFirstWindow;
  RecordId seek_ = 0;
  std::vector<LogPosition> older_;  // batches of the window, the newest last
  std::vector<OplogEntry> entries_;
  std::size_t current_ = kBefore;
};

class OplogView final : public CollectionView {
 public:
  OplogView(Store& store, std::shared_ptr<const CollectionInfo> info)
      : store_(store), info_(std::move(info)) {}
  const CollectionInfo& info() const override { return *info_; }
  // Not known without reading everything; no plan relies on it.
  std::uint64_t record_count() const override {
    const ChangeFeed& feed = store_.changes();
    return feed.newest() > feed.oldest() ? 1 : 0;
  }
  std::uint64_t data_bytes() const override { return store_.stats().history_bytes; }
  Result<std::optional<DocumentView>> find(RecordId id) const override {
    OplogCursor cursor(store_, false);
    cursor.seek(id);
    MULTIFORA_ASSIGN_R(const bool found, cursor.next());
    if (!found || cursor.id() != id) return std::nullopt;
    found_ = OwnedDocument(cursor.document());
    return found_.view();
  }
  std::unique_ptr<RecordCursor> scan(bool backward) const override {
    return std::make_unique<OplogCursor>(store_, backward);
  }
  std::span<const IndexRef> indexes() const override { return {}; }
  Result<RecordId> find_id(const ValueView&) const override { return RecordId{0}; }
  Status yield() override { return {}; }
  bool contended() const override { return false; }

 private:
  Store& store_;
  const std::shared_ptr<const CollectionInfo> info_;
  mutable OwnedDocument found_;
};

class Oplog final : public VirtualCollection {
 public:
  Oplog() {
    auto info = std::make_shared<CollectionInfo>();
    info->id = kVirtualCollectionIdMin;
    info->db = "local";
    info->name = "oplog.rs";
    info->ns = kNamespace;
    constexpr char kUuid[] = "oplog.rs\x80\x40local.";  // 16 bytes, fixed
    std::copy_n(kUuid, 16, info->uuid.begin());
    info->capped = true;
    info->capped_size_bytes = std::int64_t{1} << 30;
    DocumentBuilder options;
    options.append("capped", true);
    options.append("size", info->capped_size_bytes);
    options.append("autoIndexId", false);
    info->options = std::move(options).finish();
    info_ = std::move(info);
  }
  std::shared_ptr<const CollectionInfo> info() const override { return info_; }
  Result<std::unique_ptr<CollectionView>> open(Store& store) const override {
    return std::make_unique<OplogView>(store, info_);
  }
  Store::CollectionStats stats(const Store& store) const override {
    Store::CollectionStats stats;
    stats.data_bytes = stats.storage_bytes = store.stats().history_bytes;
    return stats;
  }

 private:
  std::shared_ptr<const CollectionInfo> info_;
};

}  // namespace

std::unique_ptr<const VirtualCollection> make_oplog() { return std::make_unique<Oplog>(); }

}  // namespace multifora::change_stream
