// What a $changeStream stage was told, checked against the surroundings.
#pragma once

#include <optional>

#include "core/store/change_feed.h"
#include "plugins/command-change-stream/resume_token.h"
#include "plugins/query-engine/pipeline.h"

namespace multifora::change_stream {

enum class FullDocument { kDefault, kUpdateLookup, kWhenAvailable, kRequired };
enum class BeforeChange { kOff, kWhenAvailable, kRequired };

struct StreamOptions {
  FullDocument full_document = FullDocument::kDefault;
  BeforeChange before_change = BeforeChange::kOff;
  bool expanded = false;
  // Where to begin; none: now.
  std::optional<ResumeToken> start;
  ChangeInterest interest;

  // MongoDB's codes for options, namespaces, read concerns and transactions that do not allow it.
  static Result<StreamOptions> parse(const ValueView& spec, const PipelineContext& context);
};

}  // namespace multifora::change_stream
