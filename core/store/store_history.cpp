// The history of changes: what checkpoints put into it, what opening does with it, and batches made whole
// for those who read them.
#include <algorithm>

#include "core/store/change_feed.h"
#include "core/store/history.h"
#include "core/store/logged_document.h"
#include "core/store/store_impl.h"

namespace multifora {

Result<const Codec*> Store::Impl::history_codec() const {
  std::string_view rest = options.history_codecs;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (const Codec* const codec = host.codec(rest.substr(0, comma))) return codec;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return nullptr;
}

Status Store::Impl::open_history(LogPosition image) {
  HistoryOptions history_options;
  history_options.directory = options.path + "/history";
  history_options.bytes_max = options.history_bytes_max;
  history_options.seconds_max = options.history_seconds_max;
  history_options.read_only = options.read_only;
  history_options.find_codec = [this](std::string_view name) { return host.codec(name); };
  MULTIFORA_ASSIGN(history_options.codec, history_codec());
  history = std::make_shared<History>(files, history_options, host.log());
  feed = std::make_shared<ChangeFeed>([this](CollectionId id) {
    const std::shared_lock hold(names_mutex);
    const auto at = by_id.find(id);
    if (at == by_id.end()) return CollectionName();
    return CollectionName{at->second->info->ns, at->second->info->uuid};
  });
  return history->open(image);
}

// After a crash the data file may be ahead of the history; the log has what lies between, but not how the
// collections in it were called before they were renamed or dropped there.
void Store::Impl::recover_names(LogPosition image) {
  if (history->newest() >= image) return;
  const Status read = wal->read(history->newest(), true, [&](LogPosition at, Bytes batch) {
    if (at > image) return false;
    LogFrame frame;
    while (next_frame(batch, &frame)) {
      const bool drop = frame.operation == LogOperation::kDrop;
      if (!drop && frame.operation != LogOperation::kRename) continue;
      const Result<DocumentView> body = catalog_body(frame);
      if (!body) continue;  // replay has seen it, and so has who reads the batch
      CollectionName name{std::string((*body)[drop ? "ns" : "from"].as_string()), {}};
      const Bytes uuid = (*body)["uuid"].binary_bytes();
      std::copy_n(uuid.begin(), std::min(uuid.size(), name.uuid.size()), name.uuid.begin());
      feed->names().will_lose(frame.collection, std::move(name));
    }
    feed->names().settle(at);
    return true;
  });
  if (!read.ok()) history->give_up(image, read);
}

void Store::Impl::keep_history(LogPosition position) {
  if (!history->enabled()) return;
  // Documents come first.
  if (disk_full.exchange(false) && history->size_bytes() > 0)
    history->give_up(history->newest(), {ErrorCode::kOutOfDiskSpace, "the disk is full"});
  Status kept;
  Buffer scratch;
  const History::NameOf name_of = [this](CollectionId id, LogPosition at) {
    return feed->name_at(id, at);
  };
  const Status read =
      wal->read(history->newest(), false, [&](LogPosition at, Bytes batch) {
        if (at > position) return false;
        if (shape_of(batch).changes == 0) return true;
        const auto whole = whole_batch(at, batch, scratch);
        kept = whole ? history->add(at, *whole, name_of) : whole.error();
        return kept.ok();
      });
  if (kept.ok()) kept = read;
  if (kept.ok()) kept = history->flush(position);
  if (!kept.ok()) history->give_up(position, kept);
  history->prune(host.clock().wall_ms() / 1000);
  feed->forget_names(history->newest());
}

void Store::Impl::queue_history(HistoryWork work) {
  const std::lock_guard hold(history_mutex);
  if (work.pin) ++pinned_works;
  // An older pin keeps what was retired later, too.
  if (pinned_works == 0) work.held_bytes = 0;
  held_bytes += work.held_bytes;
  history_work.push_back(std::move(work));
  history_wake.notify_all();
}

Status Store::Impl::finish_history() {
  const std::lock_guard one(history_writing);
  while (true) {
    HistoryWork work;
    {
      const std::lock_guard hold(history_mutex);
      if (history_work.empty()) return {};
      work = std::move(history_work.front());
      history_work.pop_front();
    }
    keep_history(work.position);
    if (work.pin) {
      work.pin = Snapshot();  // what the log refers to may go now
      const std::lock_guard hold(history_mutex);
      --pinned_works;
    }
    held_bytes -= work.held_bytes;
    const Status recycled =
        wal->recycle(std::min(work.position, pager->oldest_needed_position()), work.load);
    log_kept_for_load = work.load;
    log_bytes_gone = work.log_bytes;
    writers.ease();
    if (!recycled.ok()) {
      fail_store(recycled);
      return recycled;
    }
  }
}

void Store::Impl::write_history() {
  std::unique_lock hold(history_mutex);
  while (!history_stopping) {
    if (history_work.empty()) {
      history_wake.wait(hold);
      continue;
    }
    hold.unlock();
    static_cast<void>(finish_history());
    hold.lock();
  }
}

// Documents in place of references to them. Views `batch`, or `scratch`. CappedPositionLost where a place
// is used again: then the history has the batch.
Result<Bytes> Store::Impl::whole_batch(LogPosition position, Bytes batch, Buffer& scratch) const {
  LogFrame frame;
  bool refers = false;
  for (Bytes rest = batch; !refers && next_frame(rest, &frame);)
    refers = frame.operation == LogOperation::kInsertAt;
  if (!refers) return batch;
  scratch.clear();
  Buffer document;
  LogBatch one;
  for (Bytes rest = batch; !rest.empty();) {
    const Bytes from = rest;
    if (!next_frame(rest, &frame))
      return fail(ErrorCode::kDataCorruptionDetected, "a malformed batch in the log");
    const Bytes record_bytes = from.substr(0, from.size() - rest.size());
    if (frame.operation != LogOperation::kInsertAt) {
      scratch.append(record_bytes);
      continue;
    }
    LogBatchReader reader(record_bytes);
    LogRecord record;
    MULTIFORA_TRY_R(status_of(reader.next(&record)));
    MULTIFORA_ASSIGN_R(const DocumentView found, logged_document(*pager, position, record, document));
    one.clear();
    one.insert(record.collection, record.record_id, found);
    scratch.append(one.bytes());
  }
  return Bytes(scratch);
}

}  // namespace multifora
