// $changeStream: reads the feed from a position on and tells events, for ever.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/limits.h"
#include "core/bson/builder.h"
#include "core/store/store.h"
#include "plugins/command-change-stream/change_stream_stage.h"
#include "plugins/command-change-stream/stages.h"

namespace multifora::change_stream {
namespace {

// What may follow: stages that look at one event at a time.
constexpr std::string_view kFollowers[] = {"$addFields", "$changeStreamSplitLargeEvent",
                                           "$match",     "$project",
                                           "$redact",    "$replaceRoot",
                                           "$replaceWith", "$set",
                                           "$unset"};

Status history_lost() {
  return for_good({ErrorCode::kChangeStreamHistoryLost,
                   "Resume of change stream was not possible, as the resume point may no longer be in the oplog."});
}

Status parse(const StageRow&, const ValueView& spec, PipelineContext& context, StageList& out) {
  MULTIFORA_ASSIGN(StreamOptions options, StreamOptions::parse(spec, context));
  MULTIFORA_ASSIGN(auto stage, ChangeStreamStage::open(context, spec.as_document(), std::move(options)));
  out.push_back(std::move(stage));
  return {};
}

}  // namespace

Status for_good(Status status) {
  DocumentBuilder extra;
  extra.array("errorLabels").append("NonResumableChangeStreamError");
  return std::move(status).with_extra(std::move(extra).finish().take());
}

const StageRow kChangeStream{"$changeStream", parse,
                             kMustBeFirst | kMakesDocuments | kNotInFacet | kNotInSubPipeline | kAnyTarget};

ChangeStreamStage::ChangeStreamStage(PipelineContext& context, DocumentView given, StreamOptions options)
    : PipelineStage(context),
      given_(given),
      options_(std::move(options)),
      feed_(context.store->changes()),
      follower_(std::make_shared<ChangeFeed::Follower>(feed_)),
      maker_(*context.store, *context.host, options_) {}

Result<std::unique_ptr<ChangeStreamStage>> ChangeStreamStage::open(PipelineContext& context, DocumentView given,
                                                                   StreamOptions options) {
  auto stage = std::unique_ptr<ChangeStreamStage>(new ChangeStreamStage(context, given, std::move(options)));
  const LogPosition now = stage->feed_.newest();
  stage->last_ = stage->options_.start.value_or(ResumeToken::seen(now));
  stage->delivered_ = stage->start_ = stage->last_;
  // An event's batch has a position at or after the event's.
  const std::uint64_t time = stage->last_.time;
  stage->position_ = stage->last_.kind == ResumeToken::Kind::kSeen ? time : time - (time > 0 ? 1 : 0);
  if (stage->position_ < stage->feed_.oldest()) return fail(history_lost());
  return stage;
}

void ChangeStreamStage::append_to(ArrayBuilder& out) const {
  DocumentBuilder shown = out.object();
  shown.append("$changeStream", given_.view());
}

Status ChangeStreamStage::check_followers(std::span<const StagePtr> followers) const {
  for (const StagePtr& follower : followers) {
    const std::string_view name = follower->name();
    if (std::find(std::begin(kFollowers), std::end(kFollowers), name) == std::end(kFollowers))
      return {ErrorCode::kIllegalOperation, fmt::format("{} is not permitted in a $changeStream pipeline", name)};
  }
  return {};
}

// Loads the next batch that may hold an event; false: there is none now.
Result<bool> ChangeStreamStage::load() {
  bool loaded = false;
  LogPosition reached = position_;
  const Status status = feed_.read(position_, options_.interest, &reached, [&](const ChangeBatch& batch) {
    maker_.load(batch);
    loaded = true;
    return false;
  });
  if (status.code() == ErrorCode::kCappedPositionLost) return fail(history_lost());
  MULTIFORA_TRY_R(status);
  position_ = reached;
  return loaded;
}

void ChangeStreamStage::set_output(const ResumeToken& token, bool more) {
  last_ = token;
  current_ = token.to_document();
  pending_ = more;
}

Result<std::optional<DocumentView>> ChangeStreamStage::next() {
  if (ended_) return std::nullopt;
  while (true) {
    MULTIFORA_TRY_R(poll());
    if (in_batch_) {
      MULTIFORA_ASSIGN_R(const auto event, maker_.next(last_));
      if (event) {
        last_ = event->token;
        ended_ = event->invalidate;
        current_ = event->token.to_document();
        return event->document;
      }
      in_batch_ = false;
      maker_.unload();
    }
    MULTIFORA_ASSIGN_R(in_batch_, load());
    if (in_batch_) continue;
    // Nothing up to here that the client has not got, or will not get.
    const ResumeToken seen = ResumeToken::seen(position_);
    if (position_ >= last_.time && seen > last_ && last_.fragment == 0) last_ = seen;
    if (last_ > delivered_) delivered_ = last_;
    return std::nullopt;
  }
}

void ChangeStreamStage::delivered() {
  if (last_ > delivered_) delivered_ = last_;
}

void ChangeStreamStage::append_to_reply(DocumentBuilder& cursor) const {
  delivered_.append_to(cursor, "postBatchResumeToken");
}

StreamSource::Subscribe ChangeStreamStage::subscriber() const {
  return [feed = &feed_, follower = follower_, interest = options_.interest,
          after = position_](std::function<void()> wake) {
    return feed->subscribe(interest, after, std::move(wake));
  };
}

Status ChangeStreamStage::check_output(DocumentView document) const {
  if (document.size_bytes() > limits::kDocumentSizeMax + limits::kDocumentSizeSlack)
    return {ErrorCode::kBSONObjectTooLarge,
            fmt::format("BSONObj size: {} is invalid. Size must be between 0 and {}: use $changeStreamSplitLargeEvent for "
                        "events that may be larger", document.size_bytes(),
                        limits::kDocumentSizeMax + limits::kDocumentSizeSlack)};
  const ValueView id = document["_id"];
  const bool unchanged =
      id.type() == BsonType::kObject && id.as_document().bytes() == current_.bytes();
  if (unchanged) return {};
  return for_good({ErrorCode::kChangeStreamFatalError,
          "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying "
          "the _id field of an event makes it impossible to resume the stream from that point. Only transformations that "
          "retain the unmodified _id field are allowed."});
}

}  // namespace multifora::change_stream
