// Every registered command on an empty database: the dispatcher as the server sets it up, with a
// ServerControl that only answers. One thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "core/plugin/command.h"
#include "core/plugin/host.h"
#include "core/store/store.h"
#include "server/dispatch/dispatcher.h"
#include "server/dispatch/operation.h"

namespace multifora::contract {

class CommandFixture {
 public:
  CommandFixture();
  ~CommandFixture();

  const std::vector<const CommandRow*>& rows() const { return host_.commands(); }
  // The whole reply, checked to be valid BSON with `ok`, and with code and errmsg where that is 0.
  OwnedDocument run(DocumentView command);
  static int code(DocumentView reply);
  Store& store() { return *store_; }

 private:
  class Control;
  class Runner;

  std::filesystem::path directory_;
  PluginHost host_;
  std::shared_ptr<Runner> runner_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Dispatcher> dispatcher_;
  ClientInfo client_;
  std::unique_ptr<Operation> operation_;
};

}  // namespace multifora::contract
