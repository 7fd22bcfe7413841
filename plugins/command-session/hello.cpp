// hello and its older spellings: what this server is. As the primary of a one-node replica set, or
// as a standalone where the configuration says so.
//
// A client that sends the topologyVersion it knows is told of the next change, or the same again
// after maxAwaitTimeMS; with exhaustAllowed it gets a stream of such replies. The topology of one
// node does not change while it lives.
#include <algorithm>

#include "core/base/limits.h"
#include "core/base/version.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "plugins/command-session/rows.h"

namespace multifora::session {
namespace {

constexpr std::int64_t kTopologyCounter = 6;
constexpr std::int64_t kMetadataBytesMax = 4096;
// Of the first election of a replica set; the same after each restart, as there is no other.
constexpr std::string_view kElectionId = "7fffffff0000000000000001";

// Kept while one request waits and streams.
struct AwaitState {
  bool waiting = false;
};

struct Topology {
  ObjectId process_id;
  bool operator==(const Topology&) const = default;
};

Topology current_topology(const CommandContext& context) {
  const auto* control = context.host().service<ServerControl>();
  return {control == nullptr ? ObjectId() : control->process_id()};
}

struct AwaitRequest {
  bool given = false;
  bool up_to_date = false;  // the client knows the present topology
  std::int64_t wait_ms = 0;
};

Status check_version_fields(DocumentView version) {
  if (version["processId"].type() != BsonType::kObjectId ||
      version["counter"].type() != BsonType::kInt64)
    return {ErrorCode::kTypeMismatch,
            "topologyVersion must have processId (objectId) and counter (long)"};
  if (version["counter"].as_int64() < 0)
    return {location_code(31372), "topologyVersion counter must be non-negative"};
  return {};
}

Result<AwaitRequest> parse_await(const CommandContext& context, const CommandRequest& request) {
  AwaitRequest await;
  const ValueView version = request.option("topologyVersion");
  const ValueView wait = request.option("maxAwaitTimeMS");
  if (version.missing() && wait.missing()) return await;
  if (version.missing() || wait.missing())
    return fail(location_code(31368),
                "A request must have both topologyVersion and maxAwaitTimeMS, or neither");
  if (version.type() != BsonType::kObject || !wait.is_number())
    return fail(ErrorCode::kTypeMismatch,
                "topologyVersion must be an object and maxAwaitTimeMS a number");
  MULTIFORA_TRY_R(check_version_fields(version.as_document()));
  await.given = true;
  await.wait_ms = wait.number_as_int64();
  if (await.wait_ms < 0)
    return fail(location_code(31373), "maxAwaitTimeMS must be a non-negative integer");
  const DocumentView known = version.as_document();
  const std::int64_t counter = known["counter"].as_int64();
  await.up_to_date =
      Topology{known["processId"].as_object_id()} == current_topology(context) &&
      counter == kTopologyCounter;
  if (counter > kTopologyCounter &&
      Topology{known["processId"].as_object_id()} == current_topology(context))
    return fail(location_code(31382),
                "Received a topology version with a counter newer than the server's");
  return await;
}

void wait_ms(CommandContext& context, std::int64_t ms) {
  Wait wait;
  wait.deadline_us = context.host().clock().monotonic_us() + ms * 1000;
  wait.subscribe = [](std::function<void()>) { return [] {}; };
  context.wait_for(std::move(wait));
}

// True: the handler is to return and will be called again.
bool begin_wait(CommandContext& context, const AwaitRequest& await) {
  if (!await.given) return false;
  std::shared_ptr<void>& kept = context.wait_state();
  bool wait = await.up_to_date;
  if (kept) {
    AwaitState& state = *static_cast<AwaitState*>(kept.get());
    wait = !state.waiting;  // the wait is over, or this is the stream's next reply
    state.waiting = wait;
  } else {
    auto state = std::make_shared<AwaitState>();
    state->waiting = wait;
    kept = std::move(state);
  }
  if (wait) wait_ms(context, await.wait_ms);
  return wait;
}

Status take_metadata(CommandContext& context, const CommandRequest& request) {
  ClientInfo& client = context.client();
  client.speaks_hello |= request.flag("helloOk", false) || request.name() == "hello";
  const ValueView metadata = request.option("client");
  if (metadata.missing()) return {};
  if (metadata.type() != BsonType::kObject)
    return {ErrorCode::kTypeMismatch, "The client metadata document must be a document"};
  if (metadata.size_bytes() > kMetadataBytesMax)
    return {location_code(186), "The client metadata document is too large"};
  // Later ones are the same client's monitors: the first stays.
  if (!client.metadata.view().empty()) return {};
  client.metadata = OwnedDocument(metadata.as_document());
  const ValueView application = metadata.as_document()["application"];
  if (application.type() != BsonType::kObject) return {};
  const ValueView name = application.as_document()["name"];
  if (name.type() == BsonType::kString) client.app_name = name.as_string().substr(0, 128);
  return {};
}

void append_topology(CommandContext& context, DocumentBuilder& reply) {
  DocumentBuilder version = reply.object("topologyVersion");
  version.append("processId", current_topology(context).process_id);
  version.append("counter", kTopologyCounter);
}

void append_last_write(CommandContext& context, DocumentBuilder& reply) {
  if (!context.has_store()) return;
  const std::uint64_t position = context.store().last_position();
  const auto date_ms = static_cast<std::int64_t>(position >> 32) * 1000;
  DocumentBuilder last = reply.object("lastWrite");
  const auto append = [&](std::string_view op_time, std::string_view date) {
    {
      DocumentBuilder time = last.object(op_time);
      time.append_timestamp("ts", position);
      time.append("t", std::int64_t{1});
    }
    last.append_date_ms(date, date_ms);
  };
  append("opTime", "lastWriteDate");
  append("majorityOpTime", "majorityWriteDate");
}

// Member fields of a replica set; `primary_field` is isWritablePrimary or ismaster.
void append_member(CommandContext& context, std::string_view primary_field,
                   DocumentBuilder& reply) {
  const auto* control = context.host().service<ServerControl>();
  const std::string set_name = control == nullptr ? "" : control->set_name();
  if (set_name.empty()) {
    reply.append(primary_field, true);
    return;
  }
  const std::string advertised = control->advertised_address();
  const std::string& me = advertised.empty() ? context.client().local : advertised;
  {
    ArrayBuilder hosts = reply.array("hosts");
    hosts.append(me);
  }
  reply.append("setName", set_name).append("setVersion", 1);
  reply.append(primary_field, true).append("secondary", false);
  reply.append("primary", me).append("me", me);
  reply.append("electionId", *ObjectId::from_hex(kElectionId));
  append_last_write(context, reply);
}

void append_limits(CommandContext& context, DocumentBuilder& reply) {
  reply.append("maxBsonObjectSize", static_cast<std::int32_t>(limits::kDocumentSizeMax));
  reply.append("maxMessageSizeBytes", static_cast<std::int32_t>(limits::kMessageSizeMax));
  reply.append("maxWriteBatchSize", static_cast<std::int32_t>(limits::kWriteBatchCountMax));
  reply.append_date_ms("localTime", context.host().clock().wall_ms());
  reply.append("logicalSessionTimeoutMinutes",
               static_cast<std::int32_t>(limits::kSessionIdleMinutes));
  reply.append("connectionId", static_cast<std::int32_t>(context.client().connection_id));
  reply.append("minWireVersion", kWireVersionMin).append("maxWireVersion", kWireVersionMax);
  reply.append("readOnly", context.has_store() && context.store().read_only());
}

// The client's compressors that this server has, in the client's order.
void append_compression(CommandContext& context, const CommandRequest& request,
                        DocumentBuilder& reply) {
  const ValueView asked = request.option("compression");
  const auto* control = context.host().service<ServerControl>();
  if (asked.type() != BsonType::kArray || control == nullptr) return;
  const std::vector<std::string> ours = control->wire_compressors();
  std::vector<std::string_view> both;
  for (const Element& element : asked.as_document()) {
    if (element.type() != BsonType::kString) continue;
    const std::string_view name = element->as_string();
    if (std::find(ours.begin(), ours.end(), name) != ours.end()) both.push_back(name);
  }
  if (both.empty()) return;
  ArrayBuilder names = reply.array("compression");
  for (const std::string_view name : both) names.append(name);
}

Status run(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  MULTIFORA_ASSIGN(const AwaitRequest await, parse_await(context, request));
  MULTIFORA_TRY(take_metadata(context, request));
  if (begin_wait(context, await)) return {};
  const bool modern = request.name() == "hello";
  if (!modern && request.flag("helloOk", false)) reply.append("helloOk", true);
  append_topology(context, reply);
  append_member(context, modern ? "isWritablePrimary" : "ismaster", reply);
  append_limits(context, reply);
  append_compression(context, request, reply);
  // No user exists yet, so none has a mechanism.
  if (request.has("saslSupportedMechs")) reply.array("saslSupportedMechs");
  context.more_to_come = await.given && context.exhaust_allowed;
  return {};
}

}  // namespace

const CommandRow kHello{
    .name = "hello",
    .aliases = {},
    .help = "tells what this server is and which limits it has",
    .privilege = "",
    .lock = LockIntent::kNone,
    .flags = kAnyOptions | kAllowedBeforeAuth | kAllowedInStrictApi | kAllowedInTransaction,
    .options = {},
    .run = run,
};

const CommandRow kIsMaster{
    .name = "isMaster",
    .aliases = {"ismaster"},
    .help = "the older spelling of hello",
    .privilege = "",
    .lock = LockIntent::kNone,
    .flags = kAnyOptions | kAllowedBeforeAuth | kAllowedInTransaction,
    .options = {},
    .run = run,
};

}  // namespace multifora::session
