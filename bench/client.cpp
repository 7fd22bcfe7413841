#include "bench/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/base/bytes.h"
#include "core/bson/extended_json.h"
#include "core/bson/validate.h"

namespace multifora::bench {
namespace {

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace

Client::Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    die("cannot connect to port " + std::to_string(port));
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Client::~Client() { ::close(socket_); }

void Client::receive(char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(socket_, to, size, 0);
    if (got <= 0) die("the server closed a connection");
    to += got;
    size -= static_cast<std::size_t>(got);
  }
}

DocumentView Client::run(DocumentView body, std::string_view name,
                         const std::vector<OwnedDocument>& sequence) {
  out_.assign(16, '\0');
  append_le<std::uint32_t>(out_, 0);  // flags
  out_.push_back(0);
  out_.append(body.bytes());
  if (!sequence.empty()) {
    out_.push_back(1);
    const std::size_t start = out_.size();
    append_le<std::int32_t>(out_, 0);
    out_.append(name).push_back('\0');
    for (const OwnedDocument& document : sequence) out_.append(document.bytes());
    store_le<std::int32_t>(out_.data() + start, static_cast<std::int32_t>(out_.size() - start));
  }
  store_le<std::int32_t>(out_.data(), static_cast<std::int32_t>(out_.size()));
  store_le<std::int32_t>(out_.data() + 12, 2013);
  for (std::size_t at = 0; at < out_.size();) {
    const ssize_t sent = ::send(socket_, out_.data() + at, out_.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) die("the server closed a connection");
    at += static_cast<std::size_t>(sent);
  }
  char header[21];
  receive(header, sizeof header);
  const auto size = static_cast<std::size_t>(load_le<std::int32_t>(header));
  if (size < sizeof header + 5 || size > (std::size_t{64} << 20)) die("an impossible reply");
  in_.resize(size - sizeof header);
  receive(in_.data(), in_.size());
  const auto reply = validate(in_);
  if (!reply) die("a reply that is not BSON");
  if (!(*reply)["ok"].truthy() || (*reply)["writeErrors"].type() == BsonType::kArray)
    die("a command failed: " + to_extended_json(*reply).substr(0, 500));
  return *reply;
}

}  // namespace multifora::bench
