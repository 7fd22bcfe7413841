// A load generator on the raw wire protocol: one thread, one request in flight a client. Prints one JSON
// line. Every write is acknowledged with {w: 1, j: true}; every reply is checked before its time counts.
//   bench_load --port N --op insert|bulk|find|update|update_many|bulk_write|count|ping|group|transaction
//              --clients N --size BYTES --mixed 0|1 --seconds S [--count N] [--batch-bytes N] [--batch-count N]
//              [--collection NAME] [--first-id N] [--ids N] [--rate N] [--warm-up S] [--check 0|1]
// Closed loop: a client sends as soon as it has its reply. With --rate, open loop: so many requests a
// second are due at even times; each is sent by a client that is free, and its latency counts from
// when it was due. --check 0 takes any reply: a null server does not know what a write has reached.
// What is sent before --warm-up seconds have passed is not counted.
// A group is --batch-count inserts one after the other, a transaction the same with its commit; each is one
// request of the report.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/workload.h"
#include "core/bson/builder.h"
#include "core/bson/validate.h"

namespace multifora::bench {
namespace {

struct Options {
  int port = 27017;
  std::string op = "insert";
  int clients = 1;
  double seconds = 5;
  double warm_up = 0;
  double rate = 0;  // requests a second; 0: closed loop
  std::int64_t count = -1;
  bool check = true;
  WorkloadOptions work;
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
    else if (name == "--clients") options.clients = std::atoi(value);
    else if (name == "--seconds") options.seconds = std::atof(value);
    else if (name == "--warm-up") options.warm_up = std::atof(value);
    else if (name == "--rate") options.rate = std::atof(value);
    else if (name == "--count") options.count = std::atoll(value);
    else if (name == "--check") options.check = std::atoi(value) != 0;
    else if (name == "--collection") options.work.collection = value;
    else if (name == "--size") options.work.size = std::strtoull(value, nullptr, 10);
    else if (name == "--mixed") options.work.mixed = std::atoi(value) != 0;
    else if (name == "--batch-bytes") options.work.batch_bytes = std::strtoull(value, nullptr, 10);
    else if (name == "--batch-count") options.work.batch_count = std::strtoull(value, nullptr, 10);
    else if (name == "--first-id") options.work.first_id = std::atoll(value);
    else if (name == "--ids") options.work.ids = std::atoll(value);
    else die("unknown option " + name);
  }
  if (!parse_operation(options.op, &options.work.operation)) die("unknown operation " + options.op);
  return options;
}

int connect_to(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    die("cannot connect to port " + std::to_string(port));
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// The reply's document, once all of it is there; empty before.
Bytes whole_reply(const std::string& in) {
  if (in.size() < 16) return {};
  const auto size = static_cast<std::size_t>(load_le<std::int32_t>(in.data()));
  return in.size() < size ? Bytes() : Bytes(in).substr(21, size - 21);
}

// What the server's log has done so far; negative where it does not tell.
struct LogUse {
  std::int64_t syncs = -1, bytes = -1;
};

LogUse log_use(int port) {
  DocumentBuilder body;
  body.append("serverStatus", 1).append("$db", "admin");
  const OwnedDocument command = std::move(body).finish();
  const std::string out = make_message(command.view(), {});
  const int fd = connect_to(port);
  if (send(fd, out.data(), out.size(), MSG_NOSIGNAL) < 0) die("the server closed a connection");
  std::string in;
  while (whole_reply(in).empty()) {
    char buffer[16384];
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) die("the server closed a connection");
    in.append(buffer, static_cast<std::size_t>(got));
  }
  close(fd);
  const auto reply = validate(whole_reply(in));
  LogUse use;
  if (!reply || (*reply)["multifora"].type() != BsonType::kObject) return use;
  const DocumentView storage = (*reply)["multifora"].as_document();
  if (storage["log_syncs"].is_number()) use.syncs = storage["log_syncs"].number_as_int64();
  if (storage["log_written_bytes"].is_number())
    use.bytes = storage["log_written_bytes"].number_as_int64();
  return use;
}

class Load {
 public:
  explicit Load(const Options& options) : options_(options), work_(options.work) {}

  void run() {
    poll_ = epoll_create1(EPOLL_CLOEXEC);
    clients_.resize(static_cast<std::size_t>(options_.clients));
    for (std::size_t i = 0; i < clients_.size(); ++i) connect_client(i);
    const LogUse before = log_use(options_.port);
    start_ns_ = now_ns();
    counted_from_ns_ = start_ns_ + static_cast<std::int64_t>(options_.warm_up * 1e9);
    end_ns_ = counted_from_ns_ + static_cast<std::int64_t>(options_.seconds * 1e9);
    for (std::size_t i = 0; i < clients_.size(); ++i) free_.push_back(clients_.size() - 1 - i);
    last_progress_ns_ = start_ns_;
    do {
      send_due();
      wait();
    } while (in_flight_ > 0 || !finished());
    const double seconds = static_cast<double>(last_reply_ns_ - counted_from_ns_) / 1e9;
    report(seconds, before, log_use(options_.port));
  }

 private:
  struct Client {
    int socket = -1;
    Workload::Requests requests;
    Workload::Requests::Request request;
    std::size_t sent = 0;
    bool sending = false;  // waits for room in the socket
    std::string in;
    std::int64_t due_ns = 0;
  };

  void connect_client(std::size_t index) {
    Client& client = clients_[index];
    client.requests = work_.make_requests(index);
    client.socket = connect_to(options_.port);
    fcntl(client.socket, F_SETFL, O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = index;
    epoll_ctl(poll_, EPOLL_CTL_ADD, client.socket, &event);
  }

  bool finished() const {
    return (options_.count >= 0 && started_ >= options_.count) || now_ns() >= end_ns_;
  }
  std::int64_t next_due_ns() const {
    return start_ns_ + static_cast<std::int64_t>(static_cast<double>(started_) * 1e9 / options_.rate);
  }

  void send_due() {
    while (!free_.empty() && !finished()) {
      const std::int64_t due = options_.rate > 0 ? next_due_ns() : now_ns();
      if (due > now_ns()) return;
      Client& client = clients_[free_.back()];
      const std::size_t index = free_.back();
      free_.pop_back();
      client.request = work_.next(client.requests);
      client.sent = 0;
      client.due_ns = due;
      ++started_;
      ++in_flight_;
      send_some(index);
    }
  }

  void wait() {
    epoll_event events[64];
    timespec patience{0, 100'000'000};
    if (options_.rate > 0 && !free_.empty() && !finished())
      patience.tv_nsec = std::clamp<std::int64_t>(next_due_ns() - now_ns(), 0, 100'000'000);
    const int ready = epoll_pwait2(poll_, events, 64, &patience, nullptr);
    if (ready < 0 && errno != EINTR) die("epoll failed");
    if (ready > 0) last_progress_ns_ = now_ns();
    if (in_flight_ > 0 && now_ns() - last_progress_ns_ > 60'000'000'000) die("no reply within a minute");
    for (int i = 0; i < ready; ++i) {
      const std::size_t index = events[i].data.u64;
      if ((events[i].events & EPOLLOUT) != 0) send_some(index);
      if ((events[i].events & ~EPOLLOUT) != 0) receive(index);
    }
  }

  void send_some(std::size_t index) {
    Client& client = clients_[index];
    const Bytes out = client.request.message;
    while (client.sent < out.size()) {
      const ssize_t sent =
          send(client.socket, out.data() + client.sent, out.size() - client.sent, MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) return watch(index, true);
      if (sent <= 0) die("the server closed a connection");
      client.sent += static_cast<std::size_t>(sent);
    }
    watch(index, false);
  }

  void watch(std::size_t index, bool sending) {
    Client& client = clients_[index];
    if (std::exchange(client.sending, sending) == sending) return;
    epoll_event event{};
    event.events = sending ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.u64 = index;
    epoll_ctl(poll_, EPOLL_CTL_MOD, client.socket, &event);
  }

  void receive(std::size_t index) {
    Client& client = clients_[index];
    char buffer[65536];
    const ssize_t got = recv(client.socket, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the server closed a connection");
    client.in.append(buffer, static_cast<std::size_t>(got));
    const Bytes bytes = whole_reply(client.in);
    if (bytes.empty()) return;
    const auto reply = validate(bytes);
    std::string wrong = reply ? "" : "a reply is no document";
    if (reply && options_.check) wrong = work_.check(client.request, *reply);
    if (!wrong.empty()) die(wrong);
    last_reply_ns_ = now_ns();
    client.in.clear();
    const bool counts = client.due_ns >= counted_from_ns_;
    if (counts) {
      documents_ += client.request.documents;
      bytes_ += client.request.bytes;
    }
    if (client.request.more) {
      client.request = work_.next(client.requests);
      client.sent = 0;
      return send_some(index);
    }
    --in_flight_;
    ++answered_;
    if (counts) latencies_.add(last_reply_ns_ - client.due_ns);
    free_.push_back(index);
    if (options_.rate <= 0) send_due();
  }

  void report(double seconds, const LogUse& before, const LogUse& after) {
    const std::int64_t syncs = before.syncs < 0 ? -1 : after.syncs - before.syncs;
    const double per_request = 1.0 / static_cast<double>(std::max<std::size_t>(answered_, 1));
    std::printf("{\"op\":\"%s\",\"clients\":%d,\"size\":%zu,\"requests\":%zu,\"documents\":%lld,"
                "\"requests_per_s\":%.0f,\"docs_per_s\":%.0f,\"mb_per_s\":%.1f,\"p50_us\":%.1f,"
                "\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"log_syncs\":%lld,"
                "\"requests_per_sync\":%.2f,\"log_bytes_per_request\":%.0f,\"next_id\":%lld}\n",
                options_.op.c_str(), options_.clients, options_.work.size, latencies_.count(),
                static_cast<long long>(documents_), static_cast<double>(latencies_.count()) / seconds,
                static_cast<double>(documents_) / seconds, static_cast<double>(bytes_) / seconds / 1e6,
                latencies_.at_us(0.5), latencies_.at_us(0.99), latencies_.at_us(0.999),
                latencies_.at_us(1), static_cast<long long>(syncs),
                syncs > 0 ? static_cast<double>(answered_) / static_cast<double>(syncs) : 0.0,
                static_cast<double>(after.bytes - before.bytes) * per_request,
                static_cast<long long>(work_.next_id()));
  }

  const Options options_;
  Workload work_;
  int poll_ = -1;
  std::vector<Client> clients_;
  std::vector<std::size_t> free_;
  std::int64_t started_ = 0;
  std::int64_t start_ns_ = 0, counted_from_ns_ = 0, end_ns_ = 0;
  std::int64_t last_progress_ns_ = 0, last_reply_ns_ = 0;
  std::size_t in_flight_ = 0;
  std::size_t answered_ = 0;
  std::int64_t documents_ = 0;
  std::size_t bytes_ = 0;
  Latencies latencies_;
};

}  // namespace
}  // namespace multifora::bench

int main(int argc, char** argv) {
  multifora::bench::refuse_unoptimised();
  multifora::bench::Load(multifora::bench::parse(argc, argv)).run();
}
