// multiforadb backup: asks a running server for createBackup, and shows how far it is.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <thread>

#include "core/bson/builder.h"
#include "core/bson/validate.h"
#include "server/tools/tools.h"
#include "server/wire/message.h"

namespace multifora::tools {
namespace {

constexpr int kProgressMs = 500;

struct BackupArguments {
  std::string out, host = "127.0.0.1", port = "27017";
};

// One connection, one command at a time. One thread.
class Client {
 public:
  Client() = default;
  Client(const Client&) = delete;
  ~Client() {
    if (socket_ >= 0) ::close(socket_);
  }
  Status connect(const std::string& host, const std::string& port) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
      return {ErrorCode::kHostNotFound, host + ": " + ::gai_strerror(error)};
    int error = 0;
    for (const addrinfo* one = found; one != nullptr && socket_ < 0; one = one->ai_next) {
      socket_ = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
      if (socket_ >= 0 && ::connect(socket_, one->ai_addr, one->ai_addrlen) == 0) continue;
      error = errno;
      if (socket_ >= 0) ::close(socket_);
      socket_ = -1;
    }
    ::freeaddrinfo(found);
    if (socket_ >= 0) return {};
    return {ErrorCode::kHostUnreachable, "cannot connect to " + host + ":" + port + ": " +
                                             std::strerror(error) + "; is the server running?"};
  }
  // The reply, whatever its `ok` is.
  Result<OwnedDocument> run(DocumentView command) {
    Buffer request;
    wire::begin_reply(request, wire::ReplyKind::kMsg);
    request.append(command.bytes());
    wire::finish_reply(request, {.request_id = ++requests_});
    MULTIFORA_TRY_R(send(request));
    Buffer reply(wire::kHeaderSize, '\0');
    MULTIFORA_TRY_R(receive(reply, 0));
    MULTIFORA_ASSIGN_R(const std::size_t length, wire::message_length(reply));
    reply.resize(std::max(length, wire::kHeaderSize));
    MULTIFORA_TRY_R(receive(reply, wire::kHeaderSize));
    wire::Message message;
    MULTIFORA_TRY_R(wire::parse_message(reply, message));
    return OwnedDocument(message.body);
  }

 private:
  Status send(Bytes bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return lost();
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
  }
  Status receive(Buffer& to, std::size_t from) const {
    while (from < to.size()) {
      const ssize_t n = ::recv(socket_, to.data() + from, to.size() - from, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return lost();
      from += static_cast<std::size_t>(n);
    }
    return {};
  }
  static Status lost() {
    return {ErrorCode::kHostUnreachable, "the connection to the server was lost"};
  }

  int socket_ = -1;
  std::int32_t requests_ = 0;
};

OwnedDocument command(std::string_view name, const std::string* directory) {
  DocumentBuilder out;
  out.append(name, 1);
  if (directory != nullptr) out.append("backupDir", *directory);
  out.append("$db", "admin");
  return std::move(out).finish();
}

int refuse(const std::string& why) {
  std::cerr << "multiforadb backup: " << why << "\nUsage: multiforadb backup "
            << find("backup")->usage
            << "\nDIR is made by the server, on its machine; it must be absent or empty.\n";
  return 2;
}

// 0: go on.
int parse(const Arguments& arguments, BackupArguments* parsed) {
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    std::string* const value = arguments[i] == "--out"    ? &parsed->out
                               : arguments[i] == "--host" ? &parsed->host
                               : arguments[i] == "--port" ? &parsed->port
                                                          : nullptr;
    if (value == nullptr) return refuse("unknown option " + arguments[i]);
    if (i + 1 == arguments.size()) return refuse(arguments[i] + " needs a value");
    *value = arguments[i + 1];
  }
  if (parsed->out.empty()) return refuse("--out is missing");
  parsed->out = std::filesystem::absolute(parsed->out).lexically_normal().string();
  return 0;
}

// A second connection asks now and then. It is only for show: what fails here is left out.
void show_progress(const BackupArguments& arguments, const std::atomic<bool>& done) {
  Client client;
  if (!client.connect(arguments.host, arguments.port).ok()) return;
  const OwnedDocument current_op = command("currentOp", nullptr);
  for (int waited_ms = 0; !done; waited_ms += 50) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (waited_ms % kProgressMs != kProgressMs - 50) continue;
    const auto reply = client.run(current_op.view());
    if (!reply) return;
    const ValueView operations = reply->view()["inprog"];
    if (operations.type() != BsonType::kArray) return;
    for (const Element& row : operations.as_document()) {
      const DocumentView fields = row->as_document();
      if (fields["desc"].type() != BsonType::kString || fields["desc"].as_string() != "Backup")
        continue;
      const DocumentView progress = fields["progress"].as_document();
      std::cerr << progress["done"].number_as_int64() / (1 << 20) << " of "
                << progress["total"].number_as_int64() / (1 << 20) << " MiB\n";
    }
  }
}

}  // namespace

int run_backup(const Arguments& arguments) {
  BackupArguments parsed;
  if (const int status = parse(arguments, &parsed); status != 0) return status;
  Client client;
  if (const Status status = client.connect(parsed.host, parsed.port); !status.ok()) {
    std::cerr << "multiforadb backup: " << status.message() << "\n";
    return 1;
  }
  std::atomic<bool> done{false};
  std::thread progress([&] { show_progress(parsed, done); });
  const OwnedDocument create_backup = command("createBackup", &parsed.out);
  const auto reply = client.run(create_backup.view());
  done = true;
  progress.join();
  if (!reply) {
    std::cerr << "multiforadb backup: " << reply.error().message() << "\n";
    return 1;
  }
  const DocumentView fields = reply->view();
  if (!fields["ok"].truthy()) {
    std::cerr << "multiforadb backup: " << fields["errmsg"].as_string() << "\n";
    return 1;
  }
  std::cout << "backup in " << parsed.out << ": "
            << fields["copiedBytes"].number_as_int64() / (1 << 20) << " MiB in "
            << fields["millis"].number_as_int64() << " ms; to restore, start a server with --dbpath "
            << parsed.out << "\n";
  return 0;
}

}  // namespace multifora::tools
