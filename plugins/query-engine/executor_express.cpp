// EXPRESS: one document by its _id or by a unique key. No iterators, no planning.
#include "core/bson/key_string.h"
#include "plugins/query-engine/executor.h"

namespace multifora {
namespace {

class ExpressStage final : public ExecStage {
 public:
  using ExecStage::ExecStage;
  bool exhausted() const override { return done_; }

 protected:
  Result<bool> advance(Row& row) override {
    if (done_) return false;
    done_ = true;
    MULTIFORA_ASSIGN_R(const RecordId id, find());
    ++keys_examined_;
    if (id == 0) return false;
    MULTIFORA_ASSIGN_R(const auto document, context_.view->find(id));
    if (!document) return false;
    ++docs_examined_;
    if (context_.match_details) {
      MULTIFORA_ASSIGN_R(const bool matched, row_matches({}, *document, context_, row));
      if (!matched) return false;
    }
    row.id = id;
    row.document = *document;
    row.has_document = true;
    row.index = nullptr;
    return true;
  }

 private:
  Result<RecordId> find() {
    if (plan_.kind == PlanKind::kExpressId) {
      if (const auto indexes = context_.view->indexes(); !indexes.empty()) indexes.front().note_use();
      return context_.view->find_id(plan_.point.view());
    }
    MULTIFORA_ASSIGN_R(const IndexRef* ref, plan_index(plan_, context_));
    ref->note_use();
    KeyStringBuilder key;
    ref->index->append_bound(key, 0, plan_.point.view());
    const auto cursor = ref->index->cursor(ref->state);
    MULTIFORA_TRY_R(cursor->seek(key.key()));
    if (!cursor->valid() || cursor->key() != Bytes(key.key())) return RecordId{0};
    return cursor->record_id();
  }

  bool done_ = false;
};

}  // namespace

std::unique_ptr<ExecStage> make_express_stage(const PlanNode& plan, ExecContext& context) {
  return std::make_unique<ExpressStage>(plan, context);
}

}  // namespace multifora
