// A store in memory and the commands of this plugin, without a server.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "core/plugin/host.h"
#include "core/plugin/plugin.h"
#include "core/store/store.h"
#include "core/plugin/command.h"
#include "tests/support/fault_file_system.h"

const multifora::PluginEntry* multifora_plugin_index_btree();
const multifora::PluginEntry* multifora_plugin_index_hashed();
const multifora::PluginEntry* multifora_plugin_index_wildcard();
const multifora::PluginEntry* multifora_plugin_query_engine();
const multifora::PluginEntry* multifora_plugin_command_crud();

namespace multifora::crud {

class Commands {
 public:
  // `more`: plugins beside those that these commands need.
  explicit Commands(std::uint64_t seed = 1,
                    std::initializer_list<const PluginEntry*> more = {})
      : files(seed), interrupt(system_clock()) {
    REQUIRE(host.load(*multifora_plugin_index_btree(), "").ok());
    REQUIRE(host.load(*multifora_plugin_index_hashed(), "").ok());
    REQUIRE(host.load(*multifora_plugin_index_wildcard(), "").ok());
    REQUIRE(host.load(*multifora_plugin_query_engine(), "").ok());
    REQUIRE(host.load(*multifora_plugin_command_crud(), "").ok());
    for (const PluginEntry* plugin : more) REQUIRE(host.load(*plugin, "").ok());
    host.freeze();
    StoreOptions options;
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    auto opened = Store::open(options, host, files, nullptr);
    REQUIRE(opened);
    store = std::move(*opened);
  }

  // The reply; empty where the command failed (see `status`).
  OwnedDocument run(DocumentView command) {
    CommandContext context(host, store.get(), client, interrupt);
    context.session() = session;
    const CommandRequest request(command, "db", {});
    const CommandRow* row = host.command(request.name());
    REQUIRE(row != nullptr);
    DocumentBuilder reply;
    status = row->run(context, request, reply);
    waits = context.take_wait() != nullptr;
    OwnedDocument document = std::move(reply).finish();
    return status.ok() ? document : OwnedDocument();
  }
  // The reply as relaxed extended JSON, or "error <code>".
  std::string operator()(std::string_view json) {
    const auto command = from_extended_json(json);
    if (!command) MESSAGE(json << ": " << command.error().message());
    REQUIRE(command);
    const OwnedDocument reply = run(command->view());
    if (!status.ok()) return "error " + std::to_string(static_cast<int>(status.code()));
    return to_extended_json(reply.view());
  }
  // Only the first batch of a cursor's reply.
  std::string batch(std::string_view json) {
    const auto command = from_extended_json(json);
    REQUIRE(command);
    const OwnedDocument reply = run(command->view());
    if (!status.ok()) return "error " + std::to_string(static_cast<int>(status.code()));
    const DocumentView cursor = reply.view()["cursor"].as_document();
    const ValueView first = cursor["firstBatch"];
    return to_extended_json(first.missing() ? cursor["nextBatch"] : first);
  }
  void create_index(std::string_view ns, std::string_view spec) {
    const auto document = from_extended_json(spec);
    REQUIRE(document);
    const auto built = store->create_indexes(ns, {document->view()}, interrupt);
    if (!built) MESSAGE(built.error().message());
    REQUIRE(built);
  }

  PluginHost host;
  FaultFileSystem files;
  Interrupt interrupt;
  ClientInfo client;
  SessionInfo session;
  std::unique_ptr<Store> store;
  Status status;
  bool waits = false;
};

}  // namespace multifora::crud
