#include "server/net/network.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>

#include "server/dispatch/dispatcher.h"
#include "server/net/connection.h"

namespace multifora::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int kBacklog = 1024;
// One may lead a sync while the other serves. More than processors only take turns: they wake for single
// requests and then wait for the same locks.
constexpr int kThreadsMin = 2;
// How long all threads must be busy before another one is made.
constexpr auto kSupervisePeriod = std::chrono::milliseconds(5);
constexpr auto kSweepPeriod = std::chrono::seconds(1);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
// A thread beyond the usual number ends when it had nothing to do for this long.
constexpr int kExtraThreadIdleMs = 10'000;

std::string endpoint_text(const tcp::endpoint& endpoint) {
  const asio::ip::address address = endpoint.address();
  const std::string port = std::to_string(endpoint.port());
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string() + ":" +
           port;
  if (address.is_v6()) return "[" + address.to_string() + "]:" + port;
  return address.to_string() + ":" + port;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = list.find(',');
    std::string_view part = list.substr(0, end);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    if (end == std::string_view::npos) break;
    list.remove_prefix(end + 1);
  }
  return parts;
}

// Each connection is a file: take what the system allows.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

// What runs on the control thread, all of Asio's part.
struct Network::Control {
  asio::io_context context{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::vector<tcp::acceptor> acceptors;
  asio::steady_timer sweep_timer{context};
  asio::steady_timer supervise_timer{context};
  asio::steady_timer deadline_timer{context};
  std::thread thread;
  std::uint64_t requests_seen = 0;

  void accept(Network& network, tcp::acceptor& acceptor);
  void pause_accept(Network& network, tcp::acceptor& acceptor);
  void run_deadlines(Network& network);
  void schedule_sweep(Network& network);
  void schedule_supervise(Network& network);
};

void Network::Control::accept(Network& network, tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &network, &acceptor](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
    if (error) return pause_accept(network, acceptor);
    error_code ignored;
    const std::string remote = endpoint_text(socket.remote_endpoint(ignored));
    const std::string local = endpoint_text(socket.local_endpoint(ignored));
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    socket.native_non_blocking(true, ignored);
    const int fd = socket.release(ignored);
    if (fd >= 0) network.accepted(fd, remote, local);
    accept(network, acceptor);
  });
}

// Out of files or memory: others may give some back.
void Network::Control::pause_accept(Network& network, tcp::acceptor& acceptor) {
  auto timer = std::make_shared<asio::steady_timer>(context, kAcceptPause);
  timer->async_wait([this, timer, &network, &acceptor](error_code error) {
    if (!error && acceptor.is_open()) accept(network, acceptor);
  });
}

void Network::Control::run_deadlines(Network& network) {
  const std::int64_t now_us = network.clock_.monotonic_us();
  const std::int64_t next_us = network.timers_.run_due(now_us);
  if (next_us == 0) return;
  deadline_timer.expires_after(std::chrono::microseconds(std::max<std::int64_t>(next_us - now_us, 1)));
  deadline_timer.async_wait([this, &network](error_code error) {
    if (!error) run_deadlines(network);
  });
}

void Network::Control::schedule_sweep(Network& network) {
  sweep_timer.expires_after(kSweepPeriod);
  sweep_timer.async_wait([this, &network](error_code error) {
    if (error) return;
    network.sweep();
    schedule_sweep(network);
  });
}

void Network::Control::schedule_supervise(Network& network) {
  supervise_timer.expires_after(kSupervisePeriod);
  supervise_timer.async_wait([&network](error_code error) {
    if (!error) network.supervise();
  });
}

// ---------------------------------------------------------------- opening

Network::Network(const NetworkOptions& options, Clock& clock, LogSink& log,
                 MetricsRegistry& metrics)
    : options_(options),
      clock_(clock),
      log_(log),
      control_(std::make_unique<Control>()),
      bytes_in_(metrics.counter("network_bytes_in_total", "Bytes received")),
      bytes_out_(metrics.counter("network_bytes_out_total", "Bytes sent")),
      requests_(metrics.counter("network_requests_total", "Messages received")),
      created_(metrics.counter("connections_created_total", "Connections accepted")),
      refused_(metrics.counter("connections_refused_total", "Connections over the limit")),
      metrics_(metrics) {
  if (options_.threads == 0)
    options_.threads = std::max(static_cast<int>(std::thread::hardware_concurrency()), kThreadsMin);
  options_.threads_max = std::max(options_.threads_max, options_.threads);
  for (const NetworkOptions::Compressor& compressor : options_.compressors) {
    const auto counter = [&](std::string_view name, std::string_view help) -> Counter& {
      return metrics.counter(name, help, {{"compressor", compressor.name}});
    };
    compression_.emplace(
        compressor.wire_id,
        CompressionCounters{
            counter("network_compress_in_bytes_total", "Bytes of replies before compression"),
            counter("network_compress_out_bytes_total", "Bytes of replies after compression"),
            counter("network_decompress_in_bytes_total", "Bytes of compressed requests"),
            counter("network_decompress_out_bytes_total", "Bytes of requests decompressed")});
  }
}

Network::~Network() = default;

Result<std::unique_ptr<Network>> Network::open(const NetworkOptions& options, Clock& clock,
                                               LogSink& log, MetricsRegistry& metrics) {
  raise_file_limit();
  std::unique_ptr<Network> network(new Network(options, clock, log, metrics));
  MULTIFORA_TRY_R(network->poller_.open());
  MULTIFORA_TRY_R(network->bind());
  return network;
}

namespace {

Status bind_failure(const std::string& where, const error_code& error) {
  std::string hint;
  if (error == asio::error::address_in_use)
    hint = "; another server uses this port: stop it, or choose another with --port";
  else if (error == asio::error::access_denied)
    hint = "; ports below 1024 need privileges: choose another with --port";
  else if (error == boost::system::errc::address_not_available)
    hint = "; it is no address of this machine: correct net.bind_ip or --bind_ip";
  return {ErrorCode::kInternalError,
          "cannot listen on " + where + ": " + error.message() + hint};
}

error_code listen_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (error) return error;
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  // So that "0.0.0.0,::" is two sockets that do not clash.
  if (endpoint.protocol() == tcp::v6()) acceptor.set_option(asio::ip::v6_only(true), error);
  acceptor.bind(endpoint, error);
  if (error) return error;
  acceptor.listen(kBacklog, error);
  return error;
}

}  // namespace

Status Network::bind() {
  tcp::resolver resolver(control_->context);
  const std::vector<std::string> hosts = split(options_.bind_ip);
  if (hosts.empty()) return {ErrorCode::kBadValue, "net.bind_ip is empty"};
  port_ = options_.port;
  for (const std::string& host : hosts) {
    error_code error;
    const auto found = resolver.resolve(host == "*" ? "0.0.0.0" : host, std::to_string(port_),
                                        tcp::resolver::passive, error);
    if (error)
      return {ErrorCode::kHostNotFound, "cannot resolve '" + host + "': " + error.message() +
                                            "; correct net.bind_ip or --bind_ip"};
    // A name may stand for several addresses (localhost: IPv4 and IPv6); one that works is enough.
    bool bound = false;
    for (const auto& entry : found) {
      tcp::acceptor acceptor(control_->context);
      tcp::endpoint endpoint = entry.endpoint();
      endpoint.port(static_cast<unsigned short>(port_));
      error = listen_on(acceptor, endpoint);
      if (error == asio::error::address_in_use) break;
      if (error) continue;
      port_ = acceptor.local_endpoint().port();
      addresses_.push_back(endpoint_text(acceptor.local_endpoint()));
      control_->acceptors.push_back(std::move(acceptor));
      bound = true;
    }
    if (!bound || error == asio::error::address_in_use)
      return bind_failure(host + ":" + std::to_string(port_), error);
  }
  return {};
}

void Network::start(Dispatcher& dispatcher) {
  dispatcher_ = &dispatcher;
  current_ = metrics_.gauge_callback(
      "connections_current", [this] { return static_cast<double>(connections()); },
      "Open connections");
  for (int i = 0; i < options_.threads; ++i) add_thread(false);
  control_->work.emplace(control_->context.get_executor());
  for (tcp::acceptor& acceptor : control_->acceptors) control_->accept(*this, acceptor);
  control_->schedule_sweep(*this);
  control_->thread = std::thread([this] { control_->context.run(); });
}

// ---------------------------------------------------------------- serving threads

bool Network::add_thread(bool extra) {
  std::lock_guard lock(mutex_);
  if (thread_count_.load() >= options_.threads_max) return false;
  try {
    threads_.emplace_back([this, extra] { serve(extra); });
  } catch (const std::system_error&) {
    return false;  // the system has no more: go on with those that are
  }
  thread_count_.fetch_add(1);
  return true;
}

void Network::serve(bool extra) {
  free_threads_.fetch_add(1);
  while (!stopped_.load(std::memory_order_relaxed)) {
    Connection* ready = poller_.wait(extra ? kExtraThreadIdleMs : -1);
    if (ready == nullptr && extra) break;
    if (ready == nullptr) continue;
    const bool last_free = free_threads_.fetch_sub(1, std::memory_order_relaxed) == 1;
    if (last_free && !supervising_.load(std::memory_order_relaxed) &&
        !supervising_.exchange(true))
      asio::post(control_->context, [this] { control_->schedule_supervise(*this); });
    ready->on_ready();
    free_threads_.fetch_add(1, std::memory_order_relaxed);
  }
  free_threads_.fetch_sub(1);
  thread_count_.fetch_sub(1);
  if (!extra) return;
  std::lock_guard lock(mutex_);
  ended_threads_.push_back(std::this_thread::get_id());
}

// Joins extra threads that ended. Requires mutex_.
void Network::reap_threads() {
  for (const std::thread::id id : ended_threads_) {
    const auto at = std::find_if(threads_.begin(), threads_.end(),
                                 [&](const std::thread& thread) { return thread.get_id() == id; });
    if (at == threads_.end()) continue;
    std::swap(*at, threads_.back());
    threads_.back().join();  // it needs nothing more than to return
    threads_.pop_back();
  }
  ended_threads_.clear();
}

// All threads were busy a moment ago. If they still are, and hardly a request was begun meanwhile,
// they hold long commands: another thread takes the others' requests.
void Network::supervise() {
  const std::uint64_t begun = requests_.value();
  const auto moved = static_cast<std::int64_t>(begun - control_->requests_seen);
  control_->requests_seen = begun;
  if (free_threads_.load() > 0) {
    supervising_.store(false);
    // One may have become busy between the two: its nudge was not heard.
    if (free_threads_.load() > 0) return;
    supervising_.store(true);
  } else if (moved < thread_count_.load()) {
    add_thread(true);
  }
  control_->schedule_supervise(*this);
}

// ---------------------------------------------------------------- connections

void Network::accepted(int fd, std::string remote, std::string local) {
  created_.add();
  Connection* connection = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!draining() &&
        connections_.size() < static_cast<std::size_t>(options_.connections_max)) {
      connection = new Connection(*this, fd, next_connection_id_++, remote, std::move(local));
      connections_.insert(connection);
    }
  }
  if (connection == nullptr) {
    ::close(fd);
    refused_.add();
    const auto now = static_cast<std::uint64_t>(now_ms());
    if (now - last_refusal_ms_.exchange(now) > 1000)
      log_.event(LogLevel::kWarning, "network",
                 "connection refused: net.connections_max reached or shutting down",
                 {{"remote", std::string_view(remote)}});
    return;
  }
  if (log_.wants(LogLevel::kDebug))
    log_.event(LogLevel::kDebug, "network", "connection accepted",
               {{"remote", std::string_view(remote)}});
  if (const Status status = poller_.add(fd, connection, Poller::Want::kRead); !status.ok()) {
    log_.event(LogLevel::kWarning, "network", status.message(), {});
    remove(connection);
    delete connection;
  }
}

void Network::remove(Connection* connection) {
  std::lock_guard lock(mutex_);
  connections_.erase(connection);
}

std::size_t Network::connections() const {
  std::lock_guard lock(mutex_);
  return connections_.size();
}

const Network::CompressionCounters* Network::compression(std::uint8_t wire_id) const {
  const auto found = compression_.find(wire_id);
  return found == compression_.end() ? nullptr : &found->second;
}

void Network::wake_for_timer() {
  asio::post(control_->context, [this] { control_->run_deadlines(*this); });
}

void Network::sweep() {
  std::lock_guard lock(mutex_);
  reap_threads();
  const std::int64_t now = now_ms();
  for (Connection* connection : connections_) connection->sweep(now);
}

// ---------------------------------------------------------------- the end

bool Network::drain(std::int64_t patience_ms) {
  asio::post(control_->context, [this] {
    error_code ignored;
    for (tcp::acceptor& acceptor : control_->acceptors) acceptor.close(ignored);
  });
  {
    std::lock_guard lock(mutex_);
    draining_.store(true);
    for (Connection* connection : connections_) connection->begin_drain();
  }
  const std::int64_t begun = now_ms();
  bool killed = false;
  while (connections() > 0) {
    const std::int64_t waited = now_ms() - begun;
    if (waited > 2 * patience_ms) return false;
    if (waited > patience_ms && !std::exchange(killed, true)) {
      std::lock_guard lock(mutex_);
      for (Connection* connection : connections_) {
        connection->kill(ErrorCode::kInterruptedAtShutdown);
        // A client that does not take its reply, too, has had its time.
        ::shutdown(connection->fd(), SHUT_RDWR);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(waited < 20 ? 1 : 10));
  }
  stopped_.store(true);
  poller_.wake_all();
  control_->work.reset();
  control_->context.stop();
  if (control_->thread.joinable()) control_->thread.join();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return true;
}

}  // namespace multifora::net
