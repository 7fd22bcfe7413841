// $changeStream as a source. At rest it is a position and a few options; the batch that it is telling is
// in memory only while there are events in it to tell.
#pragma once

#include <memory>

#include "plugins/command-change-stream/events.h"
#include "plugins/query-engine/stage.h"

namespace multifora::change_stream {

class ChangeStreamStage final : public PipelineStage, public StreamSource {
 public:
  // ChangeStreamHistoryLost where its beginning is not kept any more.
  static Result<std::unique_ptr<ChangeStreamStage>> open(PipelineContext& context, DocumentView given,
                                                         StreamOptions options);
  // --- the stage ---
  Result<std::optional<DocumentView>> next() override;
  std::string_view name() const override { return "$changeStream"; }
  void append_to(ArrayBuilder& out) const override;
  StreamSource* stream() override { return this; }
  Status check_followers(std::span<const std::unique_ptr<PipelineStage>> followers) const override;

  // --- the stream ---
  void delivered() override;
  bool ended() const override { return ended_ && !pending_; }
  void append_to_reply(DocumentBuilder& cursor) const override;
  Subscribe subscriber() const override;
  Status check_output(DocumentView document) const override;

  // --- for $changeStreamSplitLargeEvent: it gives out several documents for one event ---
  const ResumeToken& start() const { return start_; }
  // The document that it gives out has this token; more are to come or not.
  void set_output(const ResumeToken& token, bool more);

 private:
  ChangeStreamStage(PipelineContext& context, DocumentView given, StreamOptions options);
  Result<bool> load();

  const OwnedDocument given_;
  const StreamOptions options_;
  ChangeFeed& feed_;
  const std::shared_ptr<ChangeFeed::Follower> follower_;
  EventMaker maker_;
  LogPosition position_ = 0;  // batches up to here have been read
  bool in_batch_ = false;     // one is being told
  ResumeToken start_;
  ResumeToken last_;          // the newest event that was made
  ResumeToken delivered_;     // a client that resumes after it misses and repeats nothing
  OwnedDocument current_;     // the _id that the pipeline's output must have
  bool ended_ = false;
  bool pending_ = false;      // fragments of the last event are still to come
};

}  // namespace multifora::change_stream
