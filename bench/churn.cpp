// Churn over the wire: four workloads against a running server, and what the files take after each
// round. One JSON line a round.
//   bench_churn --port N --pid PID --dbpath DIR [--count 40000] [--clients 4] [--size 16384]
//               [--rounds 6] [--updates 2000000] [--patience-s 30] [--only delete|set|sizes|small|shrink]
//               [--settle 0|1]
//
//   delete   rounds of deleting a random half and inserting as many anew
//   set      random $set over 5 times the collection
//   sizes    5 times the collection's documents replaced by others of 1 to 32 KiB
//   small    updates of small documents that grow
//   shrink   90% deleted; what the background gives back within the patience, then compact
//
// Every write is acknowledged with {w: 1, j: true}. `ratio` is the data file's allocated blocks over the
// sum of document sizes, `peak` the same for the largest file seen during the round. With --settle 1
// checkpoints follow each round: what it retired can be used by the next, and how large the file becomes
// does not depend on how much faster the machine writes than it makes checkpoints.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/client.h"
#include "bench/payload.h"
#include "bench/report.h"
#include "core/bson/builder.h"

namespace multifora::bench {
namespace {

struct Options {
  int port = 0;
  int pid = 0;
  std::string path;
  std::string only;
  std::int64_t count = 40'000;
  int clients = 4;
  std::size_t size = 16384;
  int rounds = 6;
  std::int64_t updates = 2'000'000;
  double patience_s = 30;
  bool settle = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--port") options.port = std::atoi(value);
    else if (name == "--pid") options.pid = std::atoi(value);
    else if (name == "--dbpath") options.path = value;
    else if (name == "--only") options.only = value;
    else if (name == "--count") options.count = std::atoll(value);
    else if (name == "--settle") options.settle = std::atoi(value) != 0;
    else if (name == "--clients") options.clients = std::atoi(value);
    else if (name == "--size") options.size = std::strtoull(value, nullptr, 10);
    else if (name == "--rounds") options.rounds = std::atoi(value);
    else if (name == "--updates") options.updates = std::atoll(value);
    else if (name == "--patience-s") options.patience_s = std::atof(value);
    else {
      std::fprintf(stderr, "bench_churn: unknown option %s\n", argv[i]);
      std::exit(1);
    }
  }
  return options;
}

std::uint64_t blocks_of(const std::filesystem::path& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

std::uint64_t blocks_under(const std::filesystem::path& path) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored))
    bytes += blocks_of(entry.path());
  return bytes;
}

class Churn {
 public:
  explicit Churn(const Options& options) : options_(options), client_(options.port) {}

  void run() {
    const auto wanted = [&](const char* name) {
      return options_.only.empty() || options_.only == name;
    };
    if (wanted("delete") || wanted("set") || wanted("sizes") || wanted("shrink")) load();
    if (wanted("delete"))
      for (int round = 1; round <= options_.rounds; ++round)
        measured("delete", round, [&] { delete_and_refill(); });
    if (wanted("set"))
      for (int round = 1; round <= 5; ++round) measured("set", round, [&] { set_fields(); });
    if (wanted("sizes"))
      for (int round = 1; round <= 5; ++round) measured("sizes", round, [&] { change_sizes(); });
    if (wanted("small")) {
      load_small();
      for (int round = 1; round <= 5; ++round)
        measured("small", round, [&] { grow_small(options_.updates / 5); });
      drop("small");
    }
    if (wanted("shrink")) shrink();
  }

 private:
  // --- commands -----------------------------------------------------------------------------------
  static OwnedDocument command(const char* name, const std::string& collection) {
    DocumentBuilder body;
    body.append(name, collection);
    body.object("writeConcern").append("w", 1).append("j", true);
    body.append("$db", "churn");
    return std::move(body).finish();
  }

  // Splits `items` between the clients, `batch` at a time.
  template <class Item>
  void in_parallel(const std::vector<Item>& items, std::size_t batch,
                   const std::function<void(Client&, const std::vector<Item>&)>& work) {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (int c = 0; c < options_.clients; ++c) {
      threads.emplace_back([&] {
        Client client(options_.port);
        while (true) {
          const std::size_t from = next.fetch_add(batch);
          if (from >= items.size()) return;
          const std::size_t to = std::min(items.size(), from + batch);
          work(client, {items.begin() + static_cast<std::ptrdiff_t>(from),
                        items.begin() + static_cast<std::ptrdiff_t>(to)});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void insert(const std::vector<std::int64_t>& ids) {
    const std::size_t batch = std::max<std::size_t>(1, (1 << 20) / options_.size);
    in_parallel<std::int64_t>(ids, batch, [&](Client& client, const auto& part) {
      std::vector<OwnedDocument> documents;
      for (const std::int64_t id : part) {
        documents.push_back(make_document(id, options_.size));
        written_ += documents.back().bytes().size();
      }
      client.run(command("insert", "big"), "documents", documents);
    });
  }

  void update(const std::string& collection, const std::vector<std::int64_t>& ids,
              std::size_t batch,
              const std::function<void(DocumentBuilder& update, std::int64_t id)>& change) {
    in_parallel<std::int64_t>(ids, batch, [&](Client& client, const auto& part) {
      std::vector<OwnedDocument> updates;
      for (const std::int64_t id : part) {
        DocumentBuilder statement;
        statement.object("q").append("_id", id);
        {
          DocumentBuilder u = statement.object("u");
          change(u, id);
        }
        updates.push_back(std::move(statement).finish());
      }
      client.run(command("update", collection), "updates", updates);
    });
  }

  void remove(const std::vector<std::int64_t>& ids) {
    in_parallel<std::int64_t>(ids, 500, [&](Client& client, const auto& part) {
      std::vector<OwnedDocument> deletes;
      for (const std::int64_t id : part) {
        DocumentBuilder statement;
        statement.object("q").append("_id", id);
        statement.append("limit", 1);
        deletes.push_back(std::move(statement).finish());
      }
      client.run(command("delete", "big"), "deletes", deletes);
    });
  }

  void index(const std::string& collection) {
    DocumentBuilder body;
    body.append("createIndexes", collection);
    {
      auto indexes = body.array("indexes");
      auto spec = indexes.object();
      spec.object("key").append("k", 1);
      spec.append("name", "k_1");
    }
    body.append("$db", "churn");
    client_.run(std::move(body).finish());
  }

  void drop(const std::string& collection) {
    client_.run(command("drop", collection));
  }

  // --- workloads ----------------------------------------------------------------------------------
  void load() {
    index("big");
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < options_.count; ++i) ids.push_back(next_id_++);
    measured("load", 0, [&] { insert(ids); });
    ids_ = std::move(ids);
  }

  void delete_and_refill() {
    std::shuffle(ids_.begin(), ids_.end(), random_);
    const auto half = static_cast<std::ptrdiff_t>(ids_.size() / 2);
    remove({ids_.begin(), ids_.begin() + half});
    ids_.erase(ids_.begin(), ids_.begin() + half);
    std::vector<std::int64_t> fresh;
    while (ids_.size() + fresh.size() < static_cast<std::size_t>(options_.count))
      fresh.push_back(next_id_++);
    insert(fresh);
    ids_.insert(ids_.end(), fresh.begin(), fresh.end());
  }

  std::vector<std::int64_t> any_ids(std::int64_t count) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(ids_[random_() % ids_.size()]);
    return ids;
  }

  void set_fields() {
    const std::vector<std::int64_t> ids = any_ids(options_.count);
    written_ += ids.size() * options_.size;
    update("big", ids, 32, [&](DocumentBuilder& u, std::int64_t id) {
      const auto stamp = static_cast<std::int32_t>((id * 7919 + ++stamp_) % 100'000);
      u.object("$set").append("k", stamp).append("n", stamp_.load());
    });
  }

  void change_sizes() {
    const std::vector<std::int64_t> ids = any_ids(options_.count);
    update("big", ids, 32, [&](DocumentBuilder& u, std::int64_t id) {
      const std::uint64_t mixed = (static_cast<std::uint64_t>(id) + ++stamp_) * 0x9e3779b97f4a7c15ull;
      const OwnedDocument document = make_document(id, 1024 + (mixed >> 32) % (31 * 1024));
      written_ += document.bytes().size();
      u.append_all(document.view());
    });
  }

  void load_small() {
    index("small");
    std::vector<std::int64_t> ids(static_cast<std::size_t>(options_.count));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
    in_parallel<std::int64_t>(ids, 1000, [&](Client& client, const auto& part) {
      std::vector<OwnedDocument> documents;
      for (const std::int64_t id : part) documents.push_back(make_document(id, 200));
      client.run(command("insert", "small"), "documents", documents);
    });
  }

  void grow_small(std::int64_t updates) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < updates; ++i)
      ids.push_back(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(options_.count)));
    // Each update writes the whole document; what that is on average follows from the sizes.
    const std::uint64_t before = data_bytes();
    update("small", ids, 500, [&](DocumentBuilder& u, std::int64_t) {
      u.object("$push").append("log", "event " + std::to_string(1'000'000 + ++stamp_));
    });
    written_ += static_cast<std::uint64_t>(updates) * ((before + data_bytes()) / 2 - other_bytes()) /
                static_cast<std::uint64_t>(options_.count);
  }

  std::uint64_t other_bytes() { return ids_.empty() ? 0 : collection_bytes("big"); }

  void shrink() {
    std::shuffle(ids_.begin(), ids_.end(), random_);
    const auto most = static_cast<std::ptrdiff_t>(ids_.size() * 9 / 10);
    measured("delete 90%", 1, [&] { remove({ids_.begin(), ids_.begin() + most}); });
    ids_.erase(ids_.begin(), ids_.begin() + most);
    measured("background", 1, [&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(options_.patience_s));
    });
    measured("compact", 1, [&] {
      DocumentBuilder body;
      body.append("compact", "big").append("force", true).append("freeSpaceTargetMB", 1);
      body.append("$db", "churn");
      client_.run(std::move(body).finish());
    });
  }

  // --- what it takes ------------------------------------------------------------------------------
  std::uint64_t collection_bytes(const std::string& name) {
    DocumentBuilder body;
    body.append("collStats", name).append("$db", "churn");
    return static_cast<std::uint64_t>(
        client_.run(std::move(body).finish())["size"].number_as_int64());
  }
  DocumentView stats() {
    DocumentBuilder body;
    body.append("dbStats", 1).append("freeStorage", 1).append("$db", "churn");
    return client_.run(std::move(body).finish());
  }
  std::uint64_t data_bytes() {
    return static_cast<std::uint64_t>(stats()["dataSize"].number_as_int64());
  }

  std::uint64_t process_writes() const {
    std::ifstream io("/proc/" + std::to_string(options_.pid) + "/io");
    std::string name;
    std::uint64_t value = 0;
    while (io >> name >> value)
      if (name == "write_bytes:") return value;
    return 0;
  }

  void measured(const char* workload, int round, const std::function<void()>& work) {
    const std::filesystem::path data = options_.path + "/data.mfdb";
    const std::uint64_t writes_before = process_writes();
    const std::uint64_t documents_before = written_;
    std::atomic<bool> done{false};
    std::uint64_t largest = 0;
    std::thread watch([&] {
      while (!done) {
        largest = std::max(largest, blocks_of(data));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
    const std::int64_t start = now_ns();
    work();
    const double seconds = static_cast<double>(now_ns() - start) / 1e9;
    done = true;
    watch.join();
    const DocumentView all = stats();
    const auto live = static_cast<double>(all["dataSize"].number_as_int64());
    const auto indexes = static_cast<double>(all["indexSize"].number_as_int64());
    const auto free = static_cast<double>(all["freeStorageSize"].number_as_int64());
    const auto file = static_cast<double>(blocks_of(data));
    const auto log = static_cast<double>(blocks_under(options_.path + "/wal"));
    const std::uint64_t documents = written_ - documents_before;
    std::printf(
        "{\"workload\":\"%s\",\"round\":%d,\"seconds\":%.1f,\"live_mb\":%.1f,\"index_mb\":%.1f,"
        "\"free_mb\":%.1f,\"file_mb\":%.1f,\"log_mb\":%.1f,\"ratio\":%.3f,\"peak\":%.3f,"
        "\"write_amplification\":%.2f}\n",
        workload, round, seconds, live / 1e6, indexes / 1e6, free / 1e6, file / 1e6, log / 1e6,
        live > 0 ? file / live : 0.0,
        live > 0 ? static_cast<double>(std::max(largest, blocks_of(data))) / live : 0.0,
        documents > 0 ? static_cast<double>(process_writes() - writes_before) /
                            static_cast<double>(documents)
                      : 0.0);
    std::fflush(stdout);
    if (options_.settle) settle();
  }

  // Two durable checkpoints free what was retired before the first; the third writes what they changed.
  void settle() {
    DocumentBuilder b;
    b.append("fsync", 1);
    b.append("$db", "admin");
    const OwnedDocument fsync = std::move(b).finish();
    for (int i = 0; i < 3; ++i) client_.run(fsync.view());
  }

  Options options_;
  Client client_;
  std::mt19937_64 random_{20240611};
  std::vector<std::int64_t> ids_;
  std::int64_t next_id_ = 0;
  std::atomic<std::int64_t> stamp_{0};
  std::atomic<std::uint64_t> written_{0};  // bytes of documents
};

}  // namespace
}  // namespace multifora::bench

int main(int argc, char** argv) {
  multifora::bench::refuse_unoptimised();
  // For checks of what a server gives back: the text of a document.
  if (argc == 5 && std::strcmp(argv[1], "--print-document") == 0) {
    const auto document = multifora::bench::make_document(std::atoll(argv[2]),
                                                          std::strtoull(argv[4], nullptr, 10));
    std::fputs(std::string(document.view()["text"].as_string()).c_str(), stdout);
    return 0;
  }
  multifora::bench::Churn(multifora::bench::parse(argc, argv)).run();
}
