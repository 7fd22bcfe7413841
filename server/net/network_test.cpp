#include "server/net/network.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>

#include "core/bson/builder.h"
#include "core/bson/validate.h"
#include "core/plugin/host.h"
#include "core/plugin/plugin.h"
#include "server/dispatch/dispatcher.h"
#include "server/wire/compression.h"
#include "server/wire/message.h"

const multifora::PluginEntry* multifora_plugin_codec_zstd();

namespace multifora::net {
namespace {

using namespace std::chrono_literals;

// ---------------------------------------------------------------- commands

// Wakes the waiting `await` commands.
struct Event {
  std::mutex mutex;
  std::function<void()> wake;
  void fire() {
    std::function<void()> call;
    {
      std::lock_guard lock(mutex);
      call.swap(wake);
    }
    if (call) call();
  }
};
Event event;

Status run_ping(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  reply.append("me", context.client().local);
  if (request.has("payload")) reply.append("payload", request.option("payload"));
  return {};
}

Status run_sleep(CommandContext& context, const CommandRequest& request, DocumentBuilder&) {
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(request.integer("ms", 0));
  while (std::chrono::steady_clock::now() < until) {
    MULTIFORA_TRY(context.interrupt().check_slow());
    std::this_thread::sleep_for(1ms);
  }
  return {};
}

Status run_await(CommandContext& context, const CommandRequest& request, DocumentBuilder& reply) {
  std::shared_ptr<void>& kept = context.wait_state();
  if (!kept) kept = std::make_shared<int>(0);
  int& calls = *static_cast<int*>(kept.get());
  if (calls++ % 2 == 0) {
    context.wait_for({context.host().clock().monotonic_us() + request.integer("ms", 0) * 1000,
                      [](std::function<void()> wake) {
                        std::lock_guard lock(event.mutex);
                        event.wake = std::move(wake);
                        return [] {};
                      }});
    return {};
  }
  reply.append("calls", calls);
  context.more_to_come = context.exhaust_allowed && calls < 6;
  return {};
}

Status run_write(CommandContext& context, const CommandRequest&, DocumentBuilder& reply) {
  context.note_write(500);
  reply.append("n", 1);
  return {};
}

const CommandRow* row(std::string_view name, decltype(CommandRow::run) run,
                      std::uint32_t flags = kAnyOptions) {
  auto* made = new CommandRow();
  made->name = name;
  made->run = run;
  made->flags = flags;
  return made;
}
const CommandRow* const kRows[] = {
    row("ping", run_ping), row("hello", run_ping), row("sleep", run_sleep),
    row("await", run_await), row("write", run_write, kAnyOptions | kAcceptsWriteConcern)};

// Answers from a thread of its own, as the log's does.
class SlowDisk final : public Durability {
 public:
  std::uint64_t last_position() const override { return 400; }
  std::uint64_t durable_position() const override { return 400; }
  void when_durable(std::uint64_t, Callback callback) override {
    std::thread([callback = std::move(callback), takes = takes_ms.load()] {
      std::this_thread::sleep_for(std::chrono::milliseconds(takes));
      callback({});
    }).detach();
  }
  Status health() const override { return {}; }
  std::atomic<int> takes_ms{20};
};

class Server {
 public:
  explicit Server(NetworkOptions options = {}) {
    REQUIRE(host.load(*multifora_plugin_codec_zstd(), "").ok());
    for (const CommandRow* one : kRows) REQUIRE(host.add_command(one).ok());
    host.freeze();
    dispatcher = std::make_unique<Dispatcher>(host, nullptr, &disk, DispatchOptions{"rs0", 100'000});
    options.port = 0;
    options.compressors = {{3, "zstd"}};
    auto opened = Network::open(options, system_clock(), null_log(), host.metrics());
    REQUIRE(opened.has_value());
    network = std::move(*opened);
    network->start(*dispatcher);
  }
  ~Server() {
    if (network) CHECK(network->drain(1000));
  }

  PluginHost host;
  SlowDisk disk;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<Network> network;
};

// ---------------------------------------------------------------- a client

class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    timeval patience{5, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~Client() { ::close(fd_); }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  // Empty: the server closed the connection.
  Buffer receive() {
    Buffer message(4, '\0');
    if (!read(message.data(), 4)) return {};
    message.resize(static_cast<std::size_t>(load_le<std::int32_t>(message.data())));
    if (!read(message.data() + 4, message.size() - 4)) return {};
    return message;
  }
  OwnedDocument reply(bool* more = nullptr) {
    raw = receive();
    wire::Message message;
    REQUIRE(raw.size() > wire::kHeaderSize);
    REQUIRE(wire::parse_message(raw, message).ok());
    if (more != nullptr) *more = message.more_to_come();
    return OwnedDocument(message.body);
  }
  bool closed() {
    char byte;
    return ::recv(fd_, &byte, 1, 0) == 0;
  }

  Buffer raw;

 private:
  bool read(char* to, std::size_t size) {
    while (size > 0) {
      const ssize_t count = ::recv(fd_, to, size, 0);
      if (count <= 0) return false;
      to += count;
      size -= static_cast<std::size_t>(count);
    }
    return true;
  }
  int fd_;
};

template <class Fill>
Buffer command(std::string_view name, Fill fill, std::uint32_t flags = 0) {
  Buffer message;
  wire::begin_reply(message, wire::ReplyKind::kMsg);
  {
    DocumentBuilder b(&message);
    b.append(name, 1);
    fill(b);
    b.append("$db", "admin");
  }
  wire::finish_reply(message, {.request_id = 42});
  store_le(message.data() + wire::kHeaderSize, flags);
  return message;
}
Buffer command(std::string_view name) {
  return command(name, [](auto&) {});
}
bool ok(const OwnedDocument& reply) { return reply.view()["ok"].as_double() == 1.0; }
int number(const OwnedDocument& reply, std::string_view name) {
  return static_cast<int>(reply.view()[name].number_as_int64());
}
Buffer sleep_for(int ms) {
  return command("sleep", [&](auto& b) { b.append("ms", ms); });
}

}  // namespace

TEST_CASE("a round trip; the address that the client dialled") {
  Server server;
  Client client(server.network->port());
  client.send(command("ping"));
  const OwnedDocument reply = client.reply();
  CHECK(ok(reply));
  CHECK(reply.view()["me"].as_string() ==
        "127.0.0.1:" + std::to_string(server.network->port()));
  CHECK(wire::parse_header(client.raw).response_to == 42);
  CHECK(server.network->connections() == 1);
}

TEST_CASE("messages in pieces, several at once, and large ones") {
  Server server;
  Client client(server.network->port());
  const Buffer ping = command("ping");
  for (const char byte : ping) client.send({&byte, 1});
  CHECK(ok(client.reply()));
  Buffer many;
  for (int i = 0; i < 1000; ++i) many += ping;
  client.send(many);
  for (int i = 0; i < 1000; ++i) CHECK(ok(client.reply()));
  // A large message behind the half of a small one.
  const std::string payload(15'000'000, 'x');
  client.send(ping + command("ping", [&](auto& b) { b.append("payload", payload); }) + ping);
  CHECK(ok(client.reply()));
  {
    const OwnedDocument large = client.reply();
    CHECK((large.view()["payload"].as_string() == payload));
  }
  CHECK(ok(client.reply()));
}

TEST_CASE("compressed requests get compressed replies") {
  Server server;
  Client client(server.network->port());
  Buffer packed, unpacked;
  REQUIRE(wire::compress_message(server.host, 3, command("ping"), packed));
  client.send(packed);
  const Buffer reply = client.receive();
  REQUIRE(wire::parse_header(reply).op_code == wire::kOpCompressed);
  std::uint8_t id = 0;
  REQUIRE(wire::decompress_message(server.host, reply, unpacked, &id).ok());
  wire::Message message;
  REQUIRE(wire::parse_message(unpacked, message).ok());
  CHECK(message.body["ok"].as_double() == 1.0);
}

TEST_CASE("hostile clients lose their connection and hurt nobody") {
  Server server;
  Client good(server.network->port());
  const auto refused = [&](std::string_view bytes) {
    Client bad(server.network->port());
    bad.send(bytes);
    return bad.receive().empty() || bad.closed();
  };
  Buffer ping = command("ping");
  CHECK(refused(std::string(100, '\xff')));
  CHECK(refused(std::string(100, '\0')));
  CHECK(refused("GET / HTTP/1.1\r\n\r\n"));
  Buffer legacy = ping;
  store_le(legacy.data() + 12, std::int32_t{2002});
  CHECK(refused(legacy));
  Buffer packed = ping;
  store_le(packed.data() + 12, std::int32_t{wire::kOpCompressed});
  CHECK(refused(packed));
  Buffer huge = ping;
  store_le(huge.data(), std::int32_t{48'000'001});
  CHECK(refused(huge));
  good.send(ping);
  CHECK(ok(good.reply()));
  // Damaged BSON inside a sound frame is an error reply.
  Buffer damaged = ping;
  damaged[22] = '\x7f';
  good.send(damaged);
  CHECK(number(good.reply(), "code") == 22);
  good.send(ping);
  CHECK(ok(good.reply()));
}

TEST_CASE("OP_QUERY: hello is answered, anything else refused with 352") {
  Server server;
  Client client(server.network->port());
  const auto query = [&](std::string_view name, std::string_view ns) {
    Buffer message(wire::kHeaderSize, '\0');
    append_le(message, std::int32_t{0});
    message.append(ns).push_back('\0');
    append_le(message, std::int32_t{0});
    append_le(message, std::int32_t{-1});
    DocumentBuilder(&message).append(name, 1);
    store_le(message.data(), static_cast<std::int32_t>(message.size()));
    store_le(message.data() + 12, std::int32_t{wire::kOpQuery});
    client.send(message);
    const Buffer reply = client.receive();
    REQUIRE(reply.size() > 36);
    CHECK(wire::parse_header(reply).op_code == wire::kOpReply);
    return OwnedDocument(*validate(Bytes(reply).substr(36)));
  };
  CHECK(ok(query("hello", "admin.$cmd")));
  CHECK(number(query("find", "admin.$cmd"), "code") == 352);
  CHECK(number(query("hello", "test.c"), "code") == 352);
}

TEST_CASE("waits end by their event or their deadline") {
  Server server;
  Client client(server.network->port());
  client.send(command("await", [](auto& b) { b.append("ms", 60'000); }));
  const auto woken_by = std::chrono::steady_clock::now() + 5s;
  while (std::chrono::steady_clock::now() < woken_by) {
    std::lock_guard lock(event.mutex);
    if (event.wake) break;
  }
  event.fire();
  CHECK(number(client.reply(), "calls") == 2);
  const auto begun = std::chrono::steady_clock::now();
  client.send(command("await", [](auto& b) { b.append("ms", 50); }));
  CHECK(number(client.reply(), "calls") == 2);
  const auto waited = std::chrono::steady_clock::now() - begun;
  CHECK(waited >= 45ms);
  CHECK(waited < 1s);
}

TEST_CASE("exhaust: a stream of replies to one request") {
  Server server;
  Client client(server.network->port());
  client.send(command("await", [](auto& b) { b.append("ms", 5); }, wire::kExhaustAllowed));
  bool more = false;
  CHECK(number(client.reply(&more), "calls") == 2);
  CHECK(more);
  const std::int32_t first = wire::parse_header(client.raw).request_id;
  CHECK(number(client.reply(&more), "calls") == 4);
  CHECK(wire::parse_header(client.raw).response_to == first);
  CHECK(more);
  CHECK(number(client.reply(&more), "calls") == 6);
  CHECK_FALSE(more);
  client.send(command("ping"));
  CHECK(ok(client.reply()));
}

TEST_CASE("moreToCome requests get no reply") {
  Server server;
  Client client(server.network->port());
  client.send(command("ping", [](auto&) {}, wire::kMoreToCome));
  client.send(command("write", [](auto&) {}, wire::kMoreToCome));
  client.send(command("ping", [](auto& b) { b.append("payload", 7); }));
  CHECK(number(client.reply(), "payload") == 7);
}

TEST_CASE("replies of writes are held, and others are served meanwhile") {
  Server server;
  Client writer(server.network->port()), reader(server.network->port());
  for (int i = 0; i < 5; ++i) {
    // The second message waits behind the first reply.
    writer.send(command("write") + command("ping"));
    reader.send(command("ping"));
    CHECK(ok(reader.reply()));
    CHECK(number(writer.reply(), "n") == 1);
    CHECK(ok(writer.reply()));
  }
}

TEST_CASE("a majority that takes longer than wtimeout is an error of the write concern") {
  Server server;
  Client client(server.network->port());
  const auto write = [&](std::string_view w, std::int32_t wtimeout) {
    client.send(command("write", [&](auto& b) {
      auto concern = b.object("writeConcern");
      concern.append("w", w).append("wtimeout", wtimeout);
    }));
    return client.reply();
  };
  server.disk.takes_ms = 400;
  for (int round = 0; round < 3; ++round) {
    const OwnedDocument late = write("majority", 10);
    CHECK(ok(late));
    CHECK(late.view()["n"].as_int32() == 1);
    const DocumentView error = late.view()["writeConcernError"].as_document();
    CHECK(error["code"].as_int32() == 64);
    CHECK(error["errmsg"].as_string() == "waiting for replication timed out");
    CHECK(error["errInfo"].as_document()["wtimeout"].as_bool());
    client.send(command("ping"));
    CHECK(ok(client.reply()));
  }
  // In time, without a limit, and what has none because only this node is asked.
  server.disk.takes_ms = 1;
  for (const std::int32_t wtimeout : {5000, 0}) {
    const OwnedDocument done = write("majority", wtimeout);
    CHECK(done.view()["writeConcernError"].missing());
  }
  server.disk.takes_ms = 60;
  client.send(command("write", [](auto& b) {
    b.object("writeConcern").append("w", 1).append("wtimeout", 5);
  }));
  CHECK(client.reply().bytes().find("writeConcernError") == Bytes::npos);
  // The connection is gone when the disk answers at last.
  server.disk.takes_ms = 300;
  {
    Client brief(server.network->port());
    brief.send(command("write", [](auto& b) {
      b.object("writeConcern").append("w", "majority").append("wtimeout", 5);
    }));
    CHECK(ok(brief.reply()));
  }
  std::this_thread::sleep_for(500ms);
  client.send(command("ping"));
  CHECK(ok(client.reply()));
}

TEST_CASE("long commands on every thread do not keep others waiting") {
  NetworkOptions options;
  options.threads = 2;
  Server server(options);
  std::vector<std::unique_ptr<Client>> sleepers;
  for (int i = 0; i < 8; ++i) {
    sleepers.push_back(std::make_unique<Client>(server.network->port()));
    sleepers.back()->send(sleep_for(1500));
  }
  std::this_thread::sleep_for(100ms);
  const auto begun = std::chrono::steady_clock::now();
  Client client(server.network->port());
  client.send(command("ping"));
  CHECK(ok(client.reply()));
  CHECK(std::chrono::steady_clock::now() - begun < 500ms);
  for (auto& sleeper : sleepers) CHECK(ok(sleeper->reply()));
}

TEST_CASE("the connection limit") {
  NetworkOptions options;
  options.connections_max = 2;
  Server server(options);
  Client one(server.network->port()), two(server.network->port());
  one.send(command("ping"));
  two.send(command("ping"));
  CHECK(ok(one.reply()));
  CHECK(ok(two.reply()));
  Client three(server.network->port());
  CHECK(three.closed());
}

TEST_CASE("a message that stands still is given up") {
  NetworkOptions options;
  options.stall_ms = 100;
  Server server(options);
  Client idle(server.network->port()), stalled(server.network->port());
  const Buffer ping = command("ping");
  stalled.send(Bytes(ping).substr(0, 20));
  CHECK(stalled.closed());
  idle.send(ping);
  CHECK(ok(idle.reply()));
}

TEST_CASE("draining ends waits, finishes what runs, closes the idle") {
  Server server;
  Client idle(server.network->port()), waiter(server.network->port());
  Client busy(server.network->port());
  idle.send(command("ping"));
  CHECK(ok(idle.reply()));
  waiter.send(command("await", [](auto& b) { b.append("ms", 60'000); }));
  busy.send(sleep_for(200));
  std::this_thread::sleep_for(50ms);
  CHECK(server.network->drain(5000));
  server.network.reset();
  CHECK(idle.closed());
  CHECK(ok(waiter.reply()));
  CHECK(ok(busy.reply()));
  CHECK(busy.closed());
}

TEST_CASE("draining kills what does not end") {
  Server server;
  Client busy(server.network->port());
  busy.send(sleep_for(60'000));
  std::this_thread::sleep_for(50ms);
  const auto begun = std::chrono::steady_clock::now();
  CHECK(server.network->drain(200));
  server.network.reset();
  CHECK(std::chrono::steady_clock::now() - begun < 2s);
}

TEST_CASE("a port in use is refused with advice") {
  Server server;
  NetworkOptions options;
  options.port = server.network->port();
  MetricsRegistry metrics;
  const auto second = Network::open(options, system_clock(), null_log(), metrics);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().message().find("--port") != std::string::npos);
  options.bind_ip = "no.such.host.invalid";
  CHECK(Network::open(options, system_clock(), null_log(), metrics).error().code() ==
        ErrorCode::kHostNotFound);
}

TEST_CASE("many clients at once") {
  Server server;
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 16; ++i)
    clients.emplace_back([&] {
      Client client(server.network->port());
      for (int n = 0; n < 200; ++n) {
        client.send(n % 20 == 0 ? command("write") : command("ping"));
        if (ok(client.reply())) ++good;
      }
    });
  for (std::thread& client : clients) client.join();
  CHECK(good == 16 * 200);
}

}  // namespace multifora::net
