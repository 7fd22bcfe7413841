// OR (one scan after the other, each record once) and SORT_MERGE (scans side by side, in order).
#include <algorithm>
#include <unordered_set>

#include "core/bson/key_string.h"
#include "plugins/query-engine/executor.h"

namespace multifora {
namespace {

class OrStage final : public ExecStage {
 public:
  using ExecStage::ExecStage;
  bool exhausted() const override { return at_ >= children_.size(); }

 protected:
  Result<bool> advance(Row& row) override {
    while (at_ < children_.size()) {
      MULTIFORA_ASSIGN_R(const bool found, children_[at_]->next(row));
      if (!found) {
        ++at_;
      } else if (seen_.insert(row.id).second) {
        return true;
      }
    }
    return false;
  }

 private:
  std::size_t at_ = 0;
  std::unordered_set<RecordId> seen_;
};

// Children are scans of one index whose first fields are fixed; they are merged by the rest of their
// keys. Heads are kept as copies, because other scans may give the view up meanwhile.
class MergeStage final : public ExecStage {
 public:
  MergeStage(const PlanNode& plan, ExecContext& context) : ExecStage(plan, context) {
    const PlanNode& scan = *plan.children.front();
    for (const Element& part : scan.key_pattern.view())
      descending_.push_back(part->is_number() && part->number_as_double() < 0);
  }
  bool exhausted() const override { return started_ && heap_.empty(); }

 protected:
  Result<bool> advance(Row& row) override {
    if (!started_) {
      started_ = true;
      heads_.resize(children_.size());
      for (std::size_t i = 0; i < children_.size(); ++i) MULTIFORA_TRY_R(pull(i));
    } else if (!heap_.empty()) {
      const std::size_t last = heap_.back();
      heap_.pop_back();
      MULTIFORA_TRY_R(pull(last));
    }
    while (!heap_.empty()) {
      pop_heap();
      const Head& head = heads_[heap_.back()];
      if (!plan_.dedup || seen_.insert(head.id).second) {
        give(head, row);
        return true;
      }
      const std::size_t again = heap_.back();
      heap_.pop_back();
      MULTIFORA_TRY_R(pull(again));
    }
    return false;
  }

 private:
  struct Head {
    RecordId id = 0;
    Buffer key, type_bits, rest;
    const Index* index = nullptr;
    std::uint64_t epoch = 0;
  };

  bool comes_later(std::size_t a, std::size_t b) const {
    const int order = heads_[a].rest.compare(heads_[b].rest);
    if (order != 0) return plan_.backward ? order < 0 : order > 0;
    return heads_[a].id > heads_[b].id;
  }
  void pop_heap() {
    std::pop_heap(heap_.begin(), heap_.end(),
                  [this](std::size_t a, std::size_t b) { return comes_later(a, b); });
  }
  void push_heap() {
    std::push_heap(heap_.begin(), heap_.end(),
                   [this](std::size_t a, std::size_t b) { return comes_later(a, b); });
  }

  Status pull(std::size_t which) {
    Row row;
    MULTIFORA_ASSIGN(const bool found, children_[which]->next(row));
    if (!found) return {};
    Head& head = heads_[which];
    head.id = row.id;
    head.key = row.key;
    head.type_bits = row.type_bits;
    head.index = row.index;
    head.epoch = row.epoch;
    std::size_t at = 0;
    for (std::size_t i = 0; i < plan_.merge_prefix; ++i)
      at += key_string_field_size(row.key.substr(at), descending_[i]);
    head.rest = row.key.substr(at);
    heap_.push_back(which);
    push_heap();
    return {};
  }

  static void give(const Head& head, Row& row) {
    row.id = head.id;
    row.key = head.key;
    row.type_bits = head.type_bits;
    row.index = head.index;
    row.epoch = head.epoch;
    row.has_document = false;
  }

  std::vector<bool> descending_;
  std::vector<Head> heads_;
  std::vector<std::size_t> heap_;  // its last one was given out, and is refilled first
  std::unordered_set<RecordId> seen_;
  bool started_ = false;
};

}  // namespace

std::unique_ptr<ExecStage> make_combine_stage(const PlanNode& plan, ExecContext& context) {
  if (plan.kind == PlanKind::kOr) return std::make_unique<OrStage>(plan, context);
  return std::make_unique<MergeStage>(plan, context);
}

}  // namespace multifora
