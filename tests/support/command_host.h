// Commands of some plugins over a store in memory, without a server: for the unit tests of command
// plugins. Handlers are called directly; what the dispatcher does is not here.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "core/plugin/command.h"
#include "core/plugin/host.h"
#include "core/plugin/plugin.h"
#include "core/store/store.h"
#include "tests/support/fault_file_system.h"

namespace multifora::test {

class CommandHost {
 public:
  explicit CommandHost(std::initializer_list<const PluginEntry*> plugins,
                       std::shared_ptr<ServerControl> control = nullptr)
      : files(1), interrupt(system_clock()) {
    for (const PluginEntry* plugin : plugins) REQUIRE(host.load(*plugin, "").ok());
    if (control) REQUIRE(host.add_service<ServerControl>(std::move(control)).ok());
    host.freeze();
    StoreOptions options;
    options.path = "/db";
    options.memory_budget_bytes = 256u << 20;
    auto opened = Store::open(options, host, files, nullptr);
    REQUIRE(opened);
    store = std::move(*opened);
  }

  // The reply as relaxed extended JSON, or "error <code>" (see `status`).
  std::string run(std::string_view json, std::string_view db = "db") {
    const auto command = from_extended_json(json);
    REQUIRE(command);
    CommandContext context(host, store.get(), client, interrupt);
    const CommandRequest request(command->view(), db, {});
    const CommandRow* row = host.command(request.name());
    REQUIRE(row != nullptr);
    DocumentBuilder reply;
    status = row->run(context, request, reply);
    const OwnedDocument document = std::move(reply).finish();
    if (!status.ok()) return "error " + std::to_string(static_cast<int>(status.code()));
    return to_extended_json(document.view());
  }
  // Inserts {_id: from} ... {_id: to - 1}, each with a string of `padding` bytes.
  void fill(std::string_view ns, int from, int to, std::size_t padding = 0) {
    auto writer = store->write(ns, true);
    REQUIRE(writer);
    for (int i = from; i < to; ++i) {
      DocumentBuilder builder;
      builder.append("_id", i);
      if (padding > 0) builder.append("pad", std::string(padding, 'x'));
      const OwnedDocument document = std::move(builder).finish();
      REQUIRE((*writer)->insert(document.view()));
    }
    REQUIRE((*writer)->commit());
  }
  // The _ids of a collection in natural order: "0 1 2".
  std::string ids(std::string_view ns) {
    std::string text;
    const auto view = store->read(ns);
    REQUIRE(*view);
    const auto cursor = (*view)->scan(false);
    while (*cursor->next()) {
      if (!text.empty()) text += ' ';
      text += std::to_string(cursor->document()["_id"].number_as_int64());
    }
    return text;
  }

  PluginHost host;
  FaultFileSystem files;
  Interrupt interrupt;
  ClientInfo client;
  std::unique_ptr<Store> store;
  Status status;
};

}  // namespace multifora::test
