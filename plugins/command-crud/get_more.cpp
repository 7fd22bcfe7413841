// getMore.
#include <algorithm>

#include "core/plugin/fail_points.h"
#include "core/store/transaction.h"
#include "plugins/command-crud/commands.h"

namespace multifora::crud {
namespace {

constexpr std::int64_t kAwaitDefaultMs = 1000;

// Between the calls of one waiting getMore.
struct Waiting {
  std::int64_t deadline_us = 0;
};

Status check(const CommandRequest& request) {
  if (request.target().type() != BsonType::kInt64)
    return {ErrorCode::kTypeMismatch,
            "BSON field 'getMore.getMore' is the wrong type '" +
                std::string(type_name(request.target().type())) + "', expected type 'long'"};
  if (request.option("collection").as_string().empty())
    return {ErrorCode::kInvalidNamespace, "Collection names cannot be empty"};
  return {};
}

// True: the handler will be called again.
bool wait_for_writes(CommandContext& context, const CommandRequest& request, std::int64_t cursor,
                     std::uint64_t position, ClientCursor::Subscribe subscribe) {
  const std::int64_t now = context.host().clock().monotonic_us();
  auto waiting = std::static_pointer_cast<Waiting>(context.wait_state());
  if (!waiting) {
    waiting = std::make_shared<Waiting>();
    waiting->deadline_us = now + request.integer("maxTimeMS", kAwaitDefaultMs) * 1000;
    context.wait_state() = waiting;
  }
  auto* notifier = context.host().service<WriteNotifier>();
  if (now >= waiting->deadline_us || notifier == nullptr) return false;
  Wait wait;
  wait.deadline_us = waiting->deadline_us;
  Store& store = context.store();
  if (!subscribe)
    subscribe = [notifier, &store, position](std::function<void()> wake) {
      return notifier->subscribe(store, position, std::move(wake));
    };
  auto* manager = context.host().service<CursorManager>();
  wait.subscribe = [manager, cursor, subscribe = std::move(subscribe)](std::function<void()> wake) {
    return [killed = manager->on_kill(cursor, wake), written = subscribe(wake)] {
      killed();
      written();
    };
  };
  context.wait_for(std::move(wait));
  return true;
}

// A cursor on a snapshot goes on reading it.
class SnapshotBinding {
 public:
  explicit SnapshotBinding(void* snapshot) : bound_(snapshot != nullptr) {
    if (bound_) bind_transaction(static_cast<Transaction*>(snapshot));
  }
  SnapshotBinding(const SnapshotBinding&) = delete;
  ~SnapshotBinding() {
    if (bound_) unbind_transaction();
  }

 private:
  const bool bound_;
};

// The fail point failGetMoreAfterCursorCheckout: {errorCode, closeConnection}; the cursor ends.
Status strike(CommandContext& context) {
  auto* points = context.host().service<FailPoints>();
  if (points == nullptr || !points->any()) return {};
  const auto hit = points->hit(kFailGetMore);
  if (!hit) return {};
  context.close_connection |= hit->view()["closeConnection"].truthy();
  const ValueView code = hit->view()["errorCode"];
  if (!code.is_number()) return {};
  return {static_cast<ErrorCode>(code.number_as_int64()),
          "Failing getMore via 'failGetMoreAfterCursorCheckout' failpoint"};
}

// Codes after which a change stream may be opened again where it was, as the drivers' specification has
// them; MongoDB marks them.
Status mark_resumable(Status status, const ClientCursor& cursor) {
  static constexpr int kCodes[] = {6,   7,   43,  63,  89,   91,    133,   150,   189,
                                   234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436};
  const bool listed = std::find(std::begin(kCodes), std::end(kCodes),
                                static_cast<int>(status.code())) != std::end(kCodes);
  const bool is_stream = cursor.tailable() && cursor.subscriber() != nullptr;
  if (!listed || !is_stream || !status.extra().empty()) return status;
  DocumentBuilder extra;
  extra.array("errorLabels").append("ResumableChangeStreamError");
  return std::move(status).with_extra(std::move(extra).finish().take());
}

Status get_more(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  MULTIFORA_TRY(check(request));
  const std::string ns =
      std::string(request.db()) + "." + std::string(request.option("collection").as_string());
  CursorManager& manager = *context.host().service<CursorManager>();
  auto pinned = manager.pin(request.target().as_int64(), ns, context.session(), &context.interrupt());
  // One that has waited had the cursor: somebody killed it.
  if (!pinned && pinned.error().code() == ErrorCode::kCursorNotFound && context.wait_state())
    return {ErrorCode::kCursorKilled, "operation was interrupted"};
  MULTIFORA_ASSIGN(auto cursor, std::move(pinned));
  MULTIFORA_TRY(mark_resumable(strike(context), *cursor->cursor));
  const bool awaits = cursor->cursor->tailable() && cursor->cursor->await_data();
  if (request.has("maxTimeMS") && !awaits)
    return {ErrorCode::kBadValue,
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor"};
  const std::uint64_t position = context.store().last_position();
  const SnapshotBinding snapshot(cursor->snapshot.get());
  context.snapshot_time = cursor->snapshot_time;
  MULTIFORA_TRY(cursor->cursor->attach(context));
  BatchLimits limits;
  const std::int64_t batch_size = request.integer("batchSize", 0);
  if (batch_size > 0) limits.documents = batch_size;

  DocumentBuilder shown = reply.object("cursor");
  ArrayBuilder batch = shown.array("nextBatch");
  const Result<bool> filled = fill_batch(*cursor, limits, batch);
  if (!filled) return mark_resumable(filled.error(), *cursor->cursor);
  const bool goes_on = *filled;
  const bool empty = batch.count() == 0;
  batch.close();
  cursor->cursor->append_to_reply(shown);
  MULTIFORA_TRY(cursor->cursor->detach());
  const std::int64_t id = goes_on ? cursor->id : 0;
  if (goes_on) {
    ClientCursor::Subscribe subscribe;
    if (empty && awaits) subscribe = cursor->cursor->subscriber();
    cursor.keep_open();
    if (empty && awaits && wait_for_writes(context, request, id, position, std::move(subscribe)))
      return {};
    context.more_to_come = context.exhaust_allowed;
  }
  shown.append("id", id);
  shown.append("ns", ns);
  if (context.snapshot_time != 0) shown.append_timestamp("atClusterTime", context.snapshot_time);
  return {};
}

}  // namespace

const CommandRow kGetMore{
    .name = "getMore",
    .aliases = {},
    .help = "more documents of a cursor",
    .privilege = "find",
    .lock = LockIntent::kRead,
    .flags = kAllowedInTransaction | kAllowedInStrictApi | kContinuesCursor,
    .options =
        {
            {"collection", kOptString, kRequired},
            {"batchSize", kOptNumber, kNonNegative},
            {"maxTimeMS", kOptNumber, kNonNegative},
            {"term", kOptAny, kUnsupported},
            {"lastKnownCommittedOpTime", kOptAny, kUnsupported},
            {"includeQueryStatsMetrics", kOptAny, kUnsupported},
        },
    .run = get_more,
};

}  // namespace multifora::crud
