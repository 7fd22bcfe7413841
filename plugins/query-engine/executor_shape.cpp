// FETCH, SKIP, LIMIT, projections, returnKey and $recordId.
#include "plugins/query-engine/executor.h"

namespace multifora {
namespace {

class FetchStage final : public ExecStage {
 public:
  using ExecStage::ExecStage;
  bool exhausted() const override { return child().exhausted(); }

 protected:
  Result<bool> advance(Row& row) override {
    while (true) {
      MULTIFORA_ASSIGN_R(const bool found, child().next(row));
      if (!found) return false;
      if (row.has_document) return true;
      MULTIFORA_ASSIGN_R(const auto document, context_.view->find(row.id));
      if (!document) continue;  // deleted while the scan had given way
      ++docs_examined_;
      MULTIFORA_ASSIGN_R(const bool matched, still_matches(*document, row));
      if (!matched) continue;
      row.document = *document;
      row.has_document = true;
      return true;
    }
  }

 private:
  // An entry read before the view was given up may not speak for the document any more.
  Result<bool> still_matches(DocumentView document, Row& row) {
    if (row.epoch != context_.epoch && context_.matcher != nullptr && !context_.match_details)
      return context_.matcher->matches(document, context_.eval);
    return row_matches(plan_.filter, document, context_, row);
  }
};

class SkipStage final : public ExecStage {
 public:
  using ExecStage::ExecStage;
  bool exhausted() const override { return child().exhausted(); }

 protected:
  Result<bool> advance(Row& row) override {
    for (; skipped_ < plan_.number; ++skipped_) {
      MULTIFORA_ASSIGN_R(const bool found, child().next(row));
      if (!found) return false;
    }
    return child().next(row);
  }

 private:
  std::int64_t skipped_ = 0;
};

class LimitStage final : public ExecStage {
 public:
  using ExecStage::ExecStage;
  bool exhausted() const override { return given_ >= plan_.number || child().exhausted(); }

 protected:
  Result<bool> advance(Row& row) override {
    if (given_ >= plan_.number) return false;
    MULTIFORA_ASSIGN_R(const bool found, child().next(row));
    if (found) ++given_;
    return found;
  }

 private:
  std::int64_t given_ = 0;
};

// A stage that makes a new document of each.
class RewriteStage : public ExecStage {
 public:
  using ExecStage::ExecStage;
  bool exhausted() const override { return child().exhausted(); }

 protected:
  Result<bool> advance(Row& row) final {
    MULTIFORA_ASSIGN_R(const bool found, child().next(row));
    if (!found) return false;
    buffer_.clear();
    MULTIFORA_TRY_R(rewrite(row, buffer_));
    row.document = DocumentView::assume_valid(Bytes(buffer_));
    row.has_document = true;
    return true;
  }
  virtual Status rewrite(Row& row, Buffer& out) = 0;

  Status project(DocumentView document, const Row& row, Buffer& out) {
    MatchDetails details;
    details.array_index = row.array_index;
    ProjectionInput input;
    input.document = document;
    input.match = &details;
    return plan_.projection->apply(input, *context_.eval, out);
  }

 private:
  Buffer buffer_;
};

class ProjectionStage final : public RewriteStage {
 public:
  using RewriteStage::RewriteStage;

 protected:
  Status rewrite(Row& row, Buffer& out) override { return project(row.document, row, out); }
};

class CoveredStage final : public RewriteStage {
 public:
  using RewriteStage::RewriteStage;

 protected:
  Status rewrite(Row& row, Buffer& out) override {
    MULTIFORA_ASSIGN(const auto values, key_document(*row.index, row.key, row.type_bits));
    if (values) return project(values->view(), row, out);
    MULTIFORA_ASSIGN(const auto document, context_.view->find(row.id));
    if (!document)
      return {ErrorCode::kDataCorruptionDetected, "an index entry leads to no document"};
    ++docs_examined_;
    return project(*document, row, out);
  }
};

class ReturnKeyStage final : public RewriteStage {
 public:
  using RewriteStage::RewriteStage;

 protected:
  Status rewrite(Row& row, Buffer& out) override {
    DocumentBuilder key(&out);
    if (row.index == nullptr) return {};
    if ((row.index->capabilities() & kIndexCovered) == 0) return {};
    DocumentBuilder values;
    MULTIFORA_TRY(row.index->decode(row.key, row.type_bits, values));
    const OwnedDocument decoded = std::move(values).finish();
    key.append_all(decoded.view());
    return {};
  }
};

class RecordIdStage final : public RewriteStage {
 public:
  using RewriteStage::RewriteStage;

 protected:
  Status rewrite(Row& row, Buffer& out) override {
    DocumentBuilder document(&out);
    document.append_all(row.document);
    document.append("$recordId", static_cast<std::int64_t>(row.id));
    return {};
  }
};

}  // namespace

std::unique_ptr<ExecStage> make_shape_stage(const PlanNode& plan, ExecContext& context) {
  switch (plan.kind) {
    case PlanKind::kFetch:
      return std::make_unique<FetchStage>(plan, context);
    case PlanKind::kSkip:
      return std::make_unique<SkipStage>(plan, context);
    case PlanKind::kLimit:
      return std::make_unique<LimitStage>(plan, context);
    case PlanKind::kProjectionCovered:
      return std::make_unique<CoveredStage>(plan, context);
    case PlanKind::kReturnKey:
      return std::make_unique<ReturnKeyStage>(plan, context);
    case PlanKind::kRecordId:
      return std::make_unique<RecordIdStage>(plan, context);
    default:
      return std::make_unique<ProjectionStage>(plan, context);
  }
}

}  // namespace multifora
