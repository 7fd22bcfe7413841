// The floor of the write rows: a server that takes the same bytes over the same wire, appends them to a
// zero-written file, syncs, and replies with as many bytes. It has no engine: it looks at nothing but
// the lengths of documents and the name of the command.
//   bench_null --dir DIR [--port 0] [--log-mb 256] [--cohort-us 150]
//
// One thread. Writes wait for each other: a sync is started once as many clients wait as the last one
// covered, or when nothing has come in for cohort-us. Prints {"port": N} once it listens; ends with
// SIGTERM. Commands: insert, update, delete and bulkWrite are appended and synced; find gives the
// newest inserted document; serverStatus tells the syncs; everything else is {ok: 1}.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "bench/report.h"
#include "core/bson/builder.h"
#include "server/wire/message.h"

namespace multifora::bench {
namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

// A ring in a zero-written file, so that a sync touches no file metadata: as the log's segments are.
class Log {
 public:
  Log(const std::string& directory, std::size_t size) : size_(size) {
    const std::string path = directory + "/null.log";
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file_ < 0) die(path.c_str());
    const std::string zeros(1 << 20, '\0');
    for (std::size_t at = 0; at < size_; at += zeros.size())
      if (pwrite(file_, zeros.data(), zeros.size(), static_cast<off_t>(at)) < 0) die("write");
    if (fsync(file_) != 0) die("fsync");
  }
  void append(std::vector<iovec>& parts) {
    std::size_t total = 0;
    for (const iovec& part : parts) total += part.iov_len;
    if (at_ + total > size_) at_ = 0;
    for (std::size_t i = 0; i < parts.size();) {
      const int count = static_cast<int>(std::min<std::size_t>(parts.size() - i, IOV_MAX));
      ssize_t written = pwritev(file_, &parts[i], count, static_cast<off_t>(at_));
      if (written < 0) die("write");
      at_ += static_cast<std::size_t>(written);
      while (i < parts.size() && static_cast<std::size_t>(written) >= parts[i].iov_len)
        written -= static_cast<ssize_t>(parts[i++].iov_len);
      if (written == 0) continue;
      parts[i].iov_base = static_cast<char*>(parts[i].iov_base) + written;
      parts[i].iov_len -= static_cast<std::size_t>(written);
    }
  }
  void sync() {
    if (fdatasync(file_) != 0) die("fdatasync");
  }

 private:
  int file_ = -1;
  const std::size_t size_;
  std::size_t at_ = 0;
};

struct Client {
  int socket = -1;
  std::unique_ptr<char[]> in;  // never shrinks: fresh memory is dear
  std::size_t capacity = 0, size = 0;
  std::int64_t documents = 0;  // of the write that waits

  void reserve(std::size_t wanted) {
    if (wanted <= capacity) return;
    auto larger = std::make_unique_for_overwrite<char[]>(wanted);
    std::copy_n(in.get(), size, larger.get());
    in = std::move(larger);
    capacity = wanted;
  }
  std::size_t message_size() const {
    return size < 16 ? 0 : static_cast<std::size_t>(load_le<std::int32_t>(in.get()));
  }
};

// Documents in the message's sequences; the newest one of them.
std::int64_t count_documents(Bytes message, Bytes* newest) {
  std::int64_t count = 0;
  std::size_t at = 20;
  while (at + 5 <= message.size()) {
    const bool sequence = message[at] == 1;
    const auto size = static_cast<std::size_t>(load_le<std::int32_t>(message.data() + ++at));
    if (size < 5 || size > message.size() - at) return count;
    if (sequence) {
      std::size_t document = message.find('\0', at + 4) + 1;
      while (document + 5 <= at + size) {
        const auto length = static_cast<std::size_t>(load_le<std::int32_t>(message.data() + document));
        if (length < 5 || length > at + size - document) return count;
        *newest = message.substr(document, length);
        document += length;
        ++count;
      }
    }
    at += size;
  }
  return count;
}

class NullServer {
 public:
  NullServer(const std::string& directory, std::size_t log_bytes, std::int64_t cohort_us)
      : log_(directory, log_bytes), cohort_us_(cohort_us) {}

  void run(int port) {
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    listen_on(port);
    while (true) {
      epoll_event events[64];
      const int ready = wait(events);
      for (int i = 0; i < ready; ++i) {
        if (events[i].data.ptr == nullptr) accept_client();
        else receive(static_cast<Client*>(events[i].data.ptr));
      }
      if (!waiting_.empty() && (ready == 0 || waiting_.size() >= cohort_)) commit();
    }
  }

 private:
  int wait(epoll_event* events) {
    const bool cohort_waits = !waiting_.empty();
    const timespec patience{0, cohort_us_ * 1000};
    const int ready = epoll_pwait2(poll_, events, 64, cohort_waits ? &patience : nullptr, nullptr);
    if (ready < 0 && errno != EINTR) die("epoll");
    return std::max(ready, 0);
  }

  void listen_on(int port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, any, size) != 0 || listen(listener_, 128) != 0) die("listen");
    getsockname(listener_, any, &size);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(poll_, EPOLL_CTL_ADD, listener_, &event);
    std::printf("{\"port\": %d}\n", ntohs(address.sin_port));
    std::fflush(stdout);
  }

  void accept_client() {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto* const client = new Client();
    client->socket = fd;
    client->reserve(64 * 1024);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = client;
    epoll_ctl(poll_, EPOLL_CTL_ADD, fd, &event);
  }

  void receive(Client* client) {
    while (true) {
      const std::size_t message = client->message_size();
      if (message > 0 && client->size >= message) return handle(client);
      client->reserve(std::max<std::size_t>(message, 64 * 1024));
      const ssize_t got = recv(client->socket, client->in.get() + client->size,
                               client->capacity - client->size, 0);
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return drop(client);
      client->size += static_cast<std::size_t>(got);
    }
  }

  void drop(Client* client) {
    close(client->socket);
    std::erase(waiting_, client);
    delete client;
  }

  void handle(Client* client) {
    const Bytes message(client->in.get(), client->message_size());
    const std::string_view name(message.data() + 26);  // the body's first field
    if (name == "insert" || name == "update" || name == "delete" || name == "bulkWrite") {
      Bytes newest;
      client->documents = std::max<std::int64_t>(count_documents(message, &newest), 1);
      if (name == "insert") newest_.assign(newest);
      waiting_.push_back(client);
      return;
    }
    DocumentBuilder reply;
    if (name == "find") append_found(reply);
    if (name == "serverStatus") append_status(reply);
    answer(client, std::move(reply));
  }

  void append_found(DocumentBuilder& reply) {
    DocumentBuilder cursor = reply.object("cursor");
    {
      ArrayBuilder batch = cursor.array("firstBatch");
      if (!newest_.empty()) batch.append(DocumentView::assume_valid(newest_));
    }
    cursor.append("id", std::int64_t{0}).append("ns", "bench.load");
  }

  void append_status(DocumentBuilder& reply) const {
    reply.object("multifora").append("log_syncs", syncs_).append("log_written_bytes", written_);
  }

  void commit() {
    std::vector<iovec> parts;
    for (Client* client : waiting_) {
      parts.push_back({client->in.get(), client->message_size()});
      written_ += static_cast<std::int64_t>(client->message_size());
    }
    log_.append(parts);
    log_.sync();
    ++syncs_;
    cohort_ = waiting_.size();
    for (Client* client : std::exchange(waiting_, {})) {
      DocumentBuilder reply;
      reply.append("n", static_cast<std::int32_t>(client->documents));
      answer(client, std::move(reply));
    }
  }

  // With the fields that a replica set adds, so that as many bytes go back.
  void answer(Client* client, DocumentBuilder reply) {
    const std::uint64_t time = static_cast<std::uint64_t>(syncs_ + 1);
    reply.append("ok", 1.0);
    {
      DocumentBuilder cluster = reply.object("$clusterTime");
      cluster.append_timestamp("clusterTime", time);
      DocumentBuilder signature = cluster.object("signature");
      signature.append_binary("hash", std::string(20, '\0'), 0);
      signature.append("keyId", std::int64_t{0});
    }
    reply.append_timestamp("operationTime", time);
    Buffer out;
    wire::begin_reply(out, wire::ReplyKind::kMsg);
    const OwnedDocument document = std::move(reply).finish();
    out.append(document.bytes());
    wire::ReplyFrame frame;
    frame.response_to = load_le<std::int32_t>(client->in.get() + 4);
    wire::finish_reply(out, frame);
    // One request at a time: what came in beyond it cannot be.
    client->size = 0;
    // Replies are small: a socket that does not take one belongs to a client that has gone.
    if (send(client->socket, out.data(), out.size(), MSG_NOSIGNAL) < 0)
      shutdown(client->socket, SHUT_RDWR);
  }

  Log log_;
  const std::int64_t cohort_us_;
  int poll_ = -1;
  int listener_ = -1;
  std::vector<Client*> waiting_;
  std::size_t cohort_ = 1;
  std::string newest_;
  std::int64_t syncs_ = 0, written_ = 0;
};

}  // namespace
}  // namespace multifora::bench

int main(int argc, char** argv) {
  using namespace multifora::bench;
  refuse_unoptimised();
  std::string directory = ".";
  int port = 0;
  std::size_t log_mb = 256;
  std::int64_t cohort_us = 150;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--dir") directory = argv[i + 1];
    else if (name == "--port") port = std::atoi(argv[i + 1]);
    else if (name == "--log-mb") log_mb = std::strtoull(argv[i + 1], nullptr, 10);
    else if (name == "--cohort-us") cohort_us = std::atoll(argv[i + 1]);
    else die(argv[i]);
  }
  NullServer(directory, log_mb << 20, cohort_us).run(port);
}
