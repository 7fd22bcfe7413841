// The leaves: COLLSCAN, IXSCAN, DISTINCT_SCAN, EOF.
#include <unordered_set>

#include "plugins/query-engine/bounds_scan.h"
#include "plugins/query-engine/executor.h"

namespace multifora {
namespace {

class EofStage final : public ExecStage {
 public:
  using ExecStage::ExecStage;
  bool exhausted() const override { return true; }

 protected:
  Result<bool> advance(Row&) override { return false; }
};

class CollScanStage final : public ScanStage {
 public:
  using ScanStage::ScanStage;
  bool exhausted() const override { return done_ && !context_.tailable; }
  void save_position() override { cursor_.reset(); }

 protected:
  Result<bool> advance(Row& row) override {
    if (exhausted()) return false;
    while (true) {
      MULTIFORA_TRY_R(context_.poll());
      if (!cursor_) MULTIFORA_TRY_R(open());
      bool found = false;
      if (!(plan_.backward && last_ == 1)) {  // nothing lies before the first record
        MULTIFORA_ASSIGN_R(found, cursor_->next());
      }
      if (!found) {
        done_ = true;
        cursor_.reset();
        return false;
      }
      last_ = cursor_->id();
      ++docs_examined_;
      const DocumentView document = cursor_->document();
      MULTIFORA_ASSIGN_R(const bool matched, row_matches(plan_.filter, document, context_, row));
      if (!matched) continue;
      row.id = last_;
      row.document = document;
      row.has_document = true;
      row.index = nullptr;
      return true;
    }
  }

 private:
  Status open() {
    cursor_ = context_.view->scan(plan_.backward);
    if (last_ == 0) return {};
    if (context_.tailable) {
      MULTIFORA_ASSIGN(const auto there, context_.view->find(last_));
      if (!there)
        return {ErrorCode::kCappedPositionLost,
                "CollectionScan died due to position in capped collection being deleted. Last seen "
                "record id: RecordId(" + std::to_string(last_) + ")"};
    }
    cursor_->seek(plan_.backward ? last_ - 1 : last_ + 1);
    return {};
  }

  std::unique_ptr<RecordCursor> cursor_;
  RecordId last_ = 0;
  bool done_ = false;
};

// A cursor that stays inside the bounds and finds its place again.
class IndexWalk {
 public:
  IndexWalk(const PlanNode& plan, ExecContext& context) : plan_(plan), context_(context) {}

  bool done() const { return done_; }
  const IndexCursor& cursor() const { return *cursor_; }
  const Index& index() const { return *ref_->index; }

  void save() {
    if (cursor_ && !done_ && cursor_->valid()) {
      last_key_ = cursor_->key();
      last_id_ = cursor_->record_id();
    }
    cursor_.reset();
  }

  // To the next entry inside; false at the end.
  Result<bool> step(std::uint64_t& keys, std::uint64_t& seeks) {
    if (done_) return false;
    if (!cursor_) {
      MULTIFORA_TRY_R(open());
      ++seeks;
    } else if (plan_.backward) {
      MULTIFORA_TRY_R(cursor_->prev());
    } else {
      MULTIFORA_TRY_R(cursor_->next());
    }
    return settle(keys, seeks);
  }

  // To the first entry inside at or after `key`.
  Result<bool> jump(const Buffer& key, std::uint64_t& keys, std::uint64_t& seeks) {
    if (key.empty()) return finish();
    if (!cursor_) MULTIFORA_TRY_R(open());
    in_run_ = false;
    ++seeks;
    MULTIFORA_TRY_R(cursor_->seek(key));
    return settle(keys, seeks);
  }

 private:
  bool finish() {
    done_ = true;
    cursor_.reset();
    return false;
  }

  Status open() {
    MULTIFORA_ASSIGN(ref_, plan_index(plan_, context_));
    if (!bounds_) {
      if (plan_.fixed_range)
        bounds_ = std::make_unique<ScanBounds>(plan_.range_from, plan_.range_to);
      else
        bounds_ = std::make_unique<ScanBounds>(*ref_->index, plan_.key_pattern.view(),
                                               plan_.bounds);
    }
    cursor_ = ref_->index->cursor(ref_->state);
    in_run_ = false;
    if (bounds_->empty()) {
      done_ = true;
      return {};
    }
    if (last_id_ == 0) {
      ref_->note_use();
      return seek(bounds_->start(plan_.backward));
    }
    return reopen();
  }

  // Behind the last entry that was given out.
  Status reopen() {
    if (plan_.backward) {
      MULTIFORA_TRY(cursor_->seek_reverse(last_key_, last_id_));
      if (cursor_->valid() && cursor_->record_id() == last_id_ && cursor_->key() == Bytes(last_key_))
        return cursor_->prev();
      return {};
    }
    MULTIFORA_TRY(cursor_->seek(last_key_, last_id_));
    if (cursor_->valid() && cursor_->record_id() == last_id_ && cursor_->key() == Bytes(last_key_))
      return cursor_->next();
    return {};
  }

  Status seek(const ScanBounds::Position& position) {
    if (!plan_.backward) return cursor_->seek(position.key);
    if (position.strictly_before) return cursor_->seek_reverse(position.key, 0);
    return cursor_->seek_reverse(position.key);
  }

  Result<bool> settle(std::uint64_t& keys, std::uint64_t& seeks) {
    ScanBounds::Position next;
    while (!done_ && cursor_->valid()) {
      ++keys;
      if (in_run_ && still_in_run()) return true;
      const Bytes key = cursor_->key();
      switch (bounds_->check(key, plan_.backward, next)) {
        case ScanBounds::Verdict::kInside:
          in_run_ = bounds_->run_end(key, plan_.backward, run_end_);
          return true;
        case ScanBounds::Verdict::kDone:
          return finish();
        case ScanBounds::Verdict::kSeek:
          in_run_ = false;
          ++seeks;
          MULTIFORA_TRY_R(seek(next));
          break;
      }
    }
    return finish();
  }

  bool still_in_run() const {
    if (run_end_.empty()) return true;
    const int order = cursor_->compare_key(run_end_);
    return plan_.backward ? order >= 0 : order < 0;
  }

  const PlanNode& plan_;
  ExecContext& context_;
  const IndexRef* ref_ = nullptr;
  std::unique_ptr<ScanBounds> bounds_;
  std::unique_ptr<IndexCursor> cursor_;
  Buffer last_key_;
  RecordId last_id_ = 0;
  Buffer run_end_;
  bool in_run_ = false;
  bool done_ = false;
};

class IndexScanStage final : public ScanStage {
 public:
  IndexScanStage(const PlanNode& plan, ExecContext& context)
      : ScanStage(plan, context), walk_(plan, context) {}
  bool exhausted() const override { return walk_.done(); }
  void save_position() override { walk_.save(); }

 protected:
  Result<bool> advance(Row& row) override {
    while (true) {
      MULTIFORA_TRY_R(context_.poll());
      MULTIFORA_ASSIGN_R(const bool found, walk_.step(keys_examined_, seeks_));
      if (!found) return false;
      const RecordId id = walk_.cursor().record_id();
      if (plan_.dedup && !seen_.insert(id).second) continue;
      row.id = id;
      row.key = walk_.cursor().key();
      row.type_bits = walk_.cursor().type_bits();
      row.index = &walk_.index();
      row.has_document = false;
      row.epoch = context_.epoch;
      return true;
    }
  }

 private:
  IndexWalk walk_;
  std::unordered_set<RecordId> seen_;
};

// One entry for each different value of one field (the fields before it are fixed).
class DistinctScanStage final : public ScanStage {
 public:
  DistinctScanStage(const PlanNode& plan, ExecContext& context)
      : ScanStage(plan, context), walk_(plan, context) {
    for (const Element& part : plan.key_pattern.view())
      descending_.push_back(part->is_number() && part->number_as_double() < 0);
  }
  bool exhausted() const override { return walk_.done(); }
  void save_position() override { walk_.save(); }

 protected:
  Result<bool> advance(Row& row) override {
    MULTIFORA_TRY_R(context_.poll());
    bool found = false;
    if (group_.empty()) {
      MULTIFORA_ASSIGN_R(found, walk_.step(keys_examined_, seeks_));
    } else {
      MULTIFORA_ASSIGN_R(found, walk_.jump(key_string_successor(group_), keys_examined_, seeks_));
    }
    if (!found) return false;
    const Bytes key = walk_.cursor().key();
    std::size_t size = 0;
    for (std::size_t i = 0; i <= plan_.distinct_field; ++i)
      size += key_string_field_size(key.substr(size), descending_[i]);
    row.id = walk_.cursor().record_id();
    row.key = key;
    row.type_bits = walk_.cursor().type_bits();
    row.index = &walk_.index();
    row.has_document = false;
    row.epoch = context_.epoch;
    // A null key may be a missing field: every entry of that group has to be looked at.
    DocumentBuilder values;
    MULTIFORA_TRY_R(row.index->decode(key, row.type_bits, values));
    const OwnedDocument decoded = std::move(values).finish();
    std::size_t number = 0;
    group_ = key.substr(0, size);
    for (const Element& field : decoded.view())
      if (number++ == plan_.distinct_field && field->is_nullish()) group_.clear();
    return true;
  }

 private:
  IndexWalk walk_;
  std::vector<bool> descending_;
  Buffer group_;
};

}  // namespace

std::unique_ptr<ExecStage> make_scan_stage(const PlanNode& plan, ExecContext& context) {
  switch (plan.kind) {
    case PlanKind::kCollScan:
      return std::make_unique<CollScanStage>(plan, context);
    case PlanKind::kIndexScan:
      return std::make_unique<IndexScanStage>(plan, context);
    case PlanKind::kDistinctScan:
      return std::make_unique<DistinctScanStage>(plan, context);
    default:
      return std::make_unique<EofStage>(plan, context);
  }
}

}  // namespace multifora
