// A load generator on the raw wire protocol: one thread, closed loop, one request in flight a client.
// Prints one JSON line. Every insert is acknowledged with {w: 1, j: true}; every reply is checked.
//   bench_load --port N --op insert|bulk|find|update --clients N --size BYTES --seconds S [--count N]
//              [--batch-bytes N] [--collection NAME] [--first-id N] [--ids N]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/payload.h"
#include "bench/report.h"
#include "core/bson/builder.h"
#include "core/bson/validate.h"

namespace multifora::bench {
namespace {

struct Options {
  int port = 27017;
  std::string op = "insert";
  std::string collection = "load";
  int clients = 1;
  std::size_t size = 16384;
  double seconds = 5;
  std::int64_t count = -1;
  std::size_t batch_bytes = 1 << 20;
  std::int64_t first_id = 0;
  std::int64_t ids = 1000;  // find, update: how many there are
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "bench_load: %s\n", what.c_str());
  std::exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--port") options.port = std::atoi(value);
    else if (name == "--op") options.op = value;
    else if (name == "--collection") options.collection = value;
    else if (name == "--clients") options.clients = std::atoi(value);
    else if (name == "--size") options.size = std::strtoull(value, nullptr, 10);
    else if (name == "--seconds") options.seconds = std::atof(value);
    else if (name == "--count") options.count = std::atoll(value);
    else if (name == "--batch-bytes") options.batch_bytes = std::strtoull(value, nullptr, 10);
    else if (name == "--first-id") options.first_id = std::atoll(value);
    else if (name == "--ids") options.ids = std::atoll(value);
    else die("unknown option " + name);
  }
  return options;
}

// The message of a command, with `documents` as a document sequence (may be empty).
std::string message(DocumentView body, const std::vector<OwnedDocument>& documents) {
  std::string out(16, '\0');
  append_le<std::uint32_t>(out, 0);  // flags
  out.push_back(0);
  out.append(body.bytes());
  if (!documents.empty()) {
    out.push_back(1);
    const std::size_t start = out.size();
    append_le<std::int32_t>(out, 0);
    out.append("documents", 10);
    for (const OwnedDocument& document : documents) out.append(document.bytes());
    store_le<std::int32_t>(out.data() + start, static_cast<std::int32_t>(out.size() - start));
  }
  store_le<std::int32_t>(out.data(), static_cast<std::int32_t>(out.size()));
  store_le<std::int32_t>(out.data() + 12, 2013);
  return out;
}

class Load {
 public:
  explicit Load(const Options& options) : options_(options), next_id_(options.first_id) {}

  void run() {
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    clients_.resize(static_cast<std::size_t>(options_.clients));
    for (std::size_t i = 0; i < clients_.size(); ++i) connect_client(i);
    const std::int64_t start = now_ns();
    end_ns_ = start + static_cast<std::int64_t>(options_.seconds * 1e9);
    for (Client& client : clients_) send_next(client);
    epoll_event events[64];
    while (in_flight_ > 0) {
      const int ready = epoll_wait(poll_, events, 64, 10'000);
      if (ready <= 0) die("no reply within 10 seconds");
      for (int i = 0; i < ready; ++i) receive(clients_[events[i].data.u64]);
    }
    report(static_cast<double>(now_ns() - start) / 1e9);
  }

 private:
  struct Client {
    int socket = -1;
    std::string in;
    std::int64_t sent_ns = 0;
    std::size_t documents = 0;
  };

  void connect_client(std::size_t index) {
    Client& client = clients_[index];
    client.socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(options_.port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(client.socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      die("cannot connect to port " + std::to_string(options_.port));
    const int on = 1;
    setsockopt(client.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = index;
    epoll_ctl(poll_, EPOLL_CTL_ADD, client.socket, &event);
  }

  bool finished() const {
    return (options_.count >= 0 && started_ >= options_.count) || now_ns() >= end_ns_;
  }

  std::string next_message(Client& client) {
    DocumentBuilder body;
    if (options_.op == "find") {
      body.append("find", options_.collection);
      const std::int64_t id = static_cast<std::int64_t>((started_ * 2654435761ll) % options_.ids);
      body.object("filter").append("_id", id);
      body.append("limit", 1).append("singleBatch", true);
      client.documents = 1;
    } else if (options_.op == "update") {
      body.append("update", options_.collection);
      const std::int64_t id = static_cast<std::int64_t>((started_ * 2654435761ll) % options_.ids);
      {
        auto updates = body.array("updates");
        auto one = updates.object();
        one.object("q").append("_id", id);
        one.object("u").object("$inc").append("k", 1);
      }
      body.object("writeConcern").append("w", 1).append("j", true);
      client.documents = 1;
    } else {
      body.append("insert", options_.collection);
      body.object("writeConcern").append("w", 1).append("j", true);
    }
    body.append("$db", "bench");
    const OwnedDocument command = std::move(body).finish();
    std::vector<OwnedDocument> documents;
    if (options_.op == "insert" || options_.op == "bulk") {
      const std::size_t wanted =
          options_.op == "bulk" ? std::max<std::size_t>(1, options_.batch_bytes / options_.size) : 1;
      for (std::size_t i = 0; i < wanted; ++i)
        documents.push_back(make_document(next_id_++, options_.size));
      client.documents = wanted;
    }
    return message(command.view(), documents);
  }

  void send_next(Client& client) {
    if (finished()) return;
    const std::string out = next_message(client);
    ++started_;
    ++in_flight_;
    client.sent_ns = now_ns();
    for (std::size_t at = 0; at < out.size();) {
      const ssize_t sent = send(client.socket, out.data() + at, out.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) die("the server closed a connection");
      at += static_cast<std::size_t>(sent);
    }
  }

  void receive(Client& client) {
    char buffer[65536];
    const ssize_t got = recv(client.socket, buffer, sizeof buffer, 0);
    if (got <= 0) die("the server closed a connection");
    client.in.append(buffer, static_cast<std::size_t>(got));
    if (client.in.size() < 16) return;
    const auto size = static_cast<std::size_t>(load_le<std::int32_t>(client.in.data()));
    if (client.in.size() < size) return;
    check(client, Bytes(client.in).substr(21, size - 21));
    client.in.erase(0, size);
    latencies_.add(now_ns() - client.sent_ns);
    documents_ += client.documents;
    --in_flight_;
    send_next(client);
  }

  void check(const Client& client, Bytes bytes) const {
    const auto reply = validate(bytes);
    if (!reply || !(*reply)["ok"].truthy()) die("a command failed");
    if (options_.op == "find") {
      const DocumentView batch = (*reply)["cursor"].as_document()["firstBatch"].as_document();
      if (batch.count() != 1) die("find by _id did not give one document");
    } else if ((*reply)["n"].number_as_int64() != static_cast<std::int64_t>(client.documents)) {
      die("a write did not write all");
    }
  }

  void report(double seconds) {
    std::printf("{\"op\":\"%s\",\"clients\":%d,\"size\":%zu,\"documents\":%zu,\"docs_per_s\":%.0f,"
                "\"mb_per_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"next_id\":%lld}\n",
                options_.op.c_str(), options_.clients, options_.size, documents_,
                static_cast<double>(documents_) / seconds,
                static_cast<double>(documents_ * options_.size) / seconds / 1e6,
                latencies_.at_us(0.5), latencies_.at_us(0.99), latencies_.at_us(1),
                static_cast<long long>(next_id_));
  }

  Options options_;
  int poll_ = -1;
  std::vector<Client> clients_;
  std::int64_t next_id_;
  std::int64_t started_ = 0;
  std::int64_t end_ns_ = 0;
  std::size_t in_flight_ = 0;
  std::size_t documents_ = 0;
  Latencies latencies_;
};

}  // namespace
}  // namespace multifora::bench

int main(int argc, char** argv) {
  multifora::bench::refuse_unoptimised();
  multifora::bench::Load(multifora::bench::parse(argc, argv)).run();
}
