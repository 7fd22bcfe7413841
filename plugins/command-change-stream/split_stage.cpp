// $changeStreamSplitLargeEvent: an event that is too large for a document becomes several, each with a
// part of its top-level fields and {splitEvent: {fragment, of}}.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "plugins/command-change-stream/change_stream_stage.h"
#include "plugins/command-change-stream/stages.h"

namespace multifora::change_stream {
namespace {

class SplitStage final : public PipelineStage {
 public:
  SplitStage(PipelineContext& context, ChangeStreamStage& stream) : PipelineStage(context), stream_(stream) {}

  Result<std::optional<DocumentView>> next() override {
    while (at_ == fragments_.size()) {
      MULTIFORA_ASSIGN_R(const auto event, source_->next());
      if (!event) return std::nullopt;
      MULTIFORA_ASSIGN_R(const bool split, cut(*event));
      if (!split) return event;
    }
    const OwnedDocument& fragment = fragments_[at_++];
    ResumeToken token = token_;
    token.fragment = static_cast<std::uint16_t>(at_);
    stream_.set_output(token, at_ < fragments_.size());
    return fragment.view();
  }
  std::string_view name() const override { return "$changeStreamSplitLargeEvent"; }
  void append_to(ArrayBuilder& out) const override { out.object().object(name()); }

 private:
  // Fills fragments_; false: the event fits into a document.
  Result<bool> cut(DocumentView event) {
    fragments_.clear();
    at_ = 0;
    if (event.size_bytes() <= limits::kDocumentSizeMax) return false;
    MULTIFORA_ASSIGN_R(token_, token_of(event));
    std::vector<std::vector<Element>> parts(1);
    std::size_t bytes = kOverhead;
    for (const Element& field : event) {
      if (field.name() == "_id") continue;
      const std::size_t size = field.name().size() + 2 + field->size_bytes();
      if (size + kOverhead > limits::kDocumentSizeMax)
        return fail(ErrorCode::kBSONObjectTooLarge,
                    fmt::format("field '{}' of an event is {} bytes, more than a document may have, and cannot be split",
                                field.name(), size));
      if (bytes + size > limits::kDocumentSizeMax) {
        parts.emplace_back();
        bytes = kOverhead;
      }
      parts.back().push_back(field);
      bytes += size;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) fragments_.push_back(fragment(parts, i));
    // A stream that was resumed after a fragment goes on with the next one.
    const ResumeToken& start = stream_.start();
    if (start.fragment > 0 && start.time == token_.time && start.index == token_.index)
      at_ = std::min<std::size_t>(start.fragment, fragments_.size());
    return true;
  }

  OwnedDocument fragment(const std::vector<std::vector<Element>>& parts, std::size_t i) const {
    DocumentBuilder out;
    ResumeToken token = token_;
    token.fragment = static_cast<std::uint16_t>(i + 1);
    token.append_to(out, "_id");
    {
      DocumentBuilder which = out.object("splitEvent");
      which.append("fragment", static_cast<std::int32_t>(i + 1));
      which.append("of", static_cast<std::int32_t>(parts.size()));
    }
    for (const Element& field : parts[i]) out.append(field);
    return std::move(out).finish();
  }

  static constexpr std::size_t kOverhead = 256;  // _id and splitEvent
  ChangeStreamStage& stream_;
  ResumeToken token_;
  std::vector<OwnedDocument> fragments_;
  std::size_t at_ = 0;
};

Status parse(const StageRow& row, const ValueView& spec, PipelineContext& context, StageList& out) {
  if (spec.type() != BsonType::kObject || !spec.as_document().empty())
    return {location_code(7182800),
            fmt::format("{} spec should be an empty object", row.name)};
  auto* const stream = out.empty() ? nullptr : dynamic_cast<ChangeStreamStage*>(out.front().get());
  if (stream == nullptr)
    return {ErrorCode::kIllegalOperation,
            fmt::format("{} can only be used in a $changeStream pipeline", row.name)};
  out.push_back(std::make_unique<SplitStage>(context, *stream));
  return {};
}

}  // namespace

const StageRow kSplitLargeEvent{"$changeStreamSplitLargeEvent", parse, kMustBeLast | kNotInFacet};

Result<ResumeToken> token_of(DocumentView event) {
  const ValueView id = event["_id"];
  if (id.type() != BsonType::kObject)
    return fail(ErrorCode::kChangeStreamFatalError, "an event has lost its resume token");
  return ResumeToken::parse(id.as_document());
}

}  // namespace multifora::change_stream
