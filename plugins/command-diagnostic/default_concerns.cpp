// getDefaultRWConcern, setDefaultRWConcern. The defaults are one document of config.settings, as in
// MongoDB, so that they survive a restart.
#include <atomic>
#include <mutex>

#include "core/plugin/default_concerns.h"
#include "core/plugin/host.h"
#include "core/plugin/option_check.h"
#include "core/store/kept_setting.h"
#include "core/store/store.h"
#include "plugins/command-diagnostic/commands.h"

namespace multifora::diagnostic_commands {
namespace {

constexpr std::string_view kNamespace = "config.settings";
constexpr std::string_view kId = "ReadWriteConcernDefaults";

class StoredConcerns final : public DefaultConcerns {
 public:
  std::shared_ptr<const Values> get(Store& store) override {
    if (!loaded_.load(std::memory_order_acquire)) load(store);
    return values_.load(std::memory_order_acquire);
  }
  void put(Values values) {
    values_.store(std::make_shared<const Values>(std::move(values)), std::memory_order_release);
  }

 private:
  void load(Store& store) {
    const std::lock_guard hold(mutex_);
    if (loaded_.load(std::memory_order_relaxed)) return;
    if (const auto kept = read_setting(store, kNamespace, kId); kept && !kept->view().empty())
      take(kept->view());
    loaded_.store(true, std::memory_order_release);
  }
  void take(DocumentView document) {
    Values values;
    const auto document_of = [](const ValueView& value) {
      return value.type() == BsonType::kObject ? OwnedDocument(value.as_document())
                                               : OwnedDocument();
    };
    values.read = document_of(document["defaultReadConcern"]);
    values.write = document_of(document["defaultWriteConcern"]);
    if (const ValueView time = document["updateOpTime"]; time.type() == BsonType::kTimestamp)
      values.updated_at = time.as_timestamp();
    if (const ValueView date = document["updateWallClockTime"]; date.type() == BsonType::kDate)
      values.updated_ms = date.as_date_ms();
    put(std::move(values));
  }

  std::mutex mutex_;
  std::atomic<bool> loaded_{false};
  std::atomic<std::shared_ptr<const Values>> values_;
};

StoredConcerns& concerns_of(CommandContext& context) {
  return static_cast<StoredConcerns&>(*context.host().service<DefaultConcerns>());
}

void append_values(CommandContext& context, const DefaultConcerns::Values* values,
                   DocumentBuilder& reply) {
  const bool has_read = values != nullptr && !values->read.view().empty();
  const bool has_write = values != nullptr && !values->write.view().empty();
  if (has_read)
    reply.append("defaultReadConcern", values->read.view());
  else
    reply.object("defaultReadConcern").append("level", "local");
  if (has_write) {
    reply.append("defaultWriteConcern", values->write.view());
  } else {
    auto write = reply.object("defaultWriteConcern");
    write.append("w", "majority").append("wtimeout", 0);
  }
  if (values != nullptr) {
    reply.append_timestamp("updateOpTime", values->updated_at);
    reply.append_date_ms("updateWallClockTime", values->updated_ms);
  }
  reply.append("defaultWriteConcernSource", has_write ? "global" : "implicit");
  reply.append("defaultReadConcernSource", has_read ? "global" : "implicit");
  reply.append_date_ms("localUpdateWallClockTime", context.host().clock().wall_ms());
}

Status run_get(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  std::shared_ptr<const DefaultConcerns::Values> values;
  if (context.has_store()) values = concerns_of(context).get(context.store());
  append_values(context, values.get(), reply);
  return {};
}

Status check_read(DocumentView concern) {
  for (const Element& field : concern) {
    if (field.name() != "level") return unknown_field("defaultReadConcern", field.name());
    if (field.type() != BsonType::kString)
      return wrong_type("defaultReadConcern", {"level", kOptString}, field.type());
    const std::string_view level = field->as_string();
    if (level != "local" && level != "available" && level != "majority")
      return {ErrorCode::kBadValue, "level: '" + std::string(level) +
                                        "' is not suitable for the default read concern"};
  }
  return {};
}

const OptionSpec kWriteFields[] = {{"w", kOptNumber | kOptString},
                                   // Nothing to decide here: kept as given, and read by the dispatcher.
                                   {"j", kOptBoolish, kNoEffect},
                                   {"wtimeout", kOptNumber, kNonNegative}};

Status check_write(DocumentView concern) {
  for (const Element& field : concern) {
    const OptionSpec* option = nullptr;
    for (const OptionSpec& one : kWriteFields)
      if (one.name == field.name()) option = &one;
    if (option == nullptr) return unknown_field("defaultWriteConcern", field.name());
    MULTIFORA_TRY(check_option("defaultWriteConcern", *option, field.value()));
  }
  const ValueView w = concern["w"];
  if (w.missing())
    return {ErrorCode::kBadValue, "the default write concern must have a 'w' field"};
  if (w.is_number() && w.number_as_int64() < 1)
    return {ErrorCode::kBadValue,
            "Unacknowledged write concern is not suitable for the default write concern"};
  return {};
}

Status store_values(CommandContext& context, const DefaultConcerns::Values& values) {
  DocumentBuilder document;
  document.append("_id", kId);
  document.append("defaultReadConcern", values.read.view());
  document.append("defaultWriteConcern", values.write.view());
  document.append_timestamp("updateOpTime", values.updated_at);
  document.append_date_ms("updateWallClockTime", values.updated_ms);
  const OwnedDocument after = std::move(document).finish();
  MULTIFORA_ASSIGN(const LogPosition position,
                   write_setting(context.store(), kNamespace, after.view()));
  context.note_write(position);
  return {};
}

Status run_set(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  const bool sets_read = request.has("defaultReadConcern");
  const bool sets_write = request.has("defaultWriteConcern");
  if (!sets_read && !sets_write)
    return {ErrorCode::kBadValue,
            "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must be "
            "present"};
  StoredConcerns& concerns = concerns_of(context);
  const auto before = concerns.get(context.store());
  DefaultConcerns::Values values = before ? *before : DefaultConcerns::Values();
  if (sets_read) {
    MULTIFORA_TRY(check_read(request.document("defaultReadConcern")));
    values.read = OwnedDocument(request.document("defaultReadConcern"));
  }
  if (sets_write) {
    const DocumentView write = request.document("defaultWriteConcern");
    if (write.empty() && !values.write.view().empty())
      return {ErrorCode::kIllegalOperation,
              "The global default write concern cannot be unset once it is set."};
    if (!write.empty()) MULTIFORA_TRY(check_write(write));
    values.write = OwnedDocument(write);
  }
  values.updated_at = context.store().last_position();
  values.updated_ms = context.host().clock().wall_ms();
  MULTIFORA_TRY(store_values(context, values));
  append_values(context, &values, reply);
  concerns.put(std::move(values));
  return {};
}

}  // namespace

std::shared_ptr<DefaultConcerns> make_default_concerns() {
  return std::make_shared<StoredConcerns>();
}

const CommandRow kGetDefaultRwConcern{.name = "getDefaultRWConcern",
                                      .aliases = {},
                                      .help = "Default read and write concern.",
                                      .privilege = "getDefaultRWConcern",
                                      .flags = kAdminOnly,
                                      // What is in memory is what is kept.
                                      .options = {{"inMemory", kOptBoolish, kNoEffect}},
                                      .run = run_get};
const CommandRow kSetDefaultRwConcern{.name = "setDefaultRWConcern",
                                      .aliases = {},
                                      .help = "Sets the default read and write concern.",
                                      .privilege = "setDefaultRWConcern",
                                      .lock = LockIntent::kWrite,
                                      .flags = kAdminOnly | kAcceptsWriteConcern,
                                      .options = {{"defaultReadConcern", kOptObject},
                                                  {"defaultWriteConcern", kOptObject}},
                                      .run = run_set};

}  // namespace multifora::diagnostic_commands
