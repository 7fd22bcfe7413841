// A blocking client of the wire protocol for benchmarks: one connection, one request at a time. Ends
// the program where the server cannot be reached or a command fails. One thread.
#pragma once

#include <string>
#include <vector>

#include "core/bson/view.h"

namespace multifora::bench {

class Client {
 public:
  explicit Client(int port);
  Client(const Client&) = delete;
  ~Client();

  // Sends `body` (with $db), with `sequence` as the document sequence `name` where it is not empty.
  // The reply lives until the next call; it has ok: 1 and no writeErrors.
  DocumentView run(DocumentView body, std::string_view name = {},
                   const std::vector<OwnedDocument>& sequence = {});
  DocumentView run(const OwnedDocument& body, std::string_view name = {},
                   const std::vector<OwnedDocument>& sequence = {}) {
    return run(body.view(), name, sequence);
  }

 private:
  void receive(char* to, std::size_t size);
  int socket_ = -1;
  std::string out_;
  std::string in_;
};

}  // namespace multifora::bench
