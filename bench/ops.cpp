// One kind of operation, many times, in-process: what the instruction gates count and the laboratory
// measures. Prints one JSON line with a hash of the answers.
//   bench_ops --dir DIR --op load|put|get|scan|update|match|decode --n N [--size BYTES] [--documents N]
//             [--payload text|repetitive]
// load makes the collection of `documents` that the other operations work on; with --index true it
// also gets an index on k. put adds documents behind those. Every answer is checked.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <xxhash.h>

#include "bench/payload.h"
#include "bench/report.h"
#include "core/bson/validate.h"
#include "server/embed/multifora.h"

namespace multifora::bench {
namespace {

struct Options {
  std::string dir, op;
  std::int64_t n = 1000;
  std::int64_t documents = 3000;
  std::size_t size = 300;
  bool index = false;
  Payload payload = Payload::kText;
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "bench_ops: %s\n", what.c_str());
  std::exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  if (argc % 2 == 0) die("options come in pairs: name and value");
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* const value = argv[i + 1];
    if (name == "--dir") options.dir = value;
    else if (name == "--op") options.op = value;
    else if (name == "--n") options.n = std::atoll(value);
    else if (name == "--documents") options.documents = std::atoll(value);
    else if (name == "--size") options.size = std::strtoull(value, nullptr, 10);
    else if (name == "--index") options.index = std::string_view(value) == "true";
    else if (name == "--payload") options.payload = payload_named(value);
    else die("unknown option " + std::string(name));
  }
  if (options.dir.empty() || options.op.empty()) die("--dir and --op are needed");
  return options;
}

class Operations {
 public:
  explicit Operations(const Options& options) : options_(options) {
    DatabaseOptions database;
    database.background = false;
    auto opened = Database::open(options.dir, database);
    if (!opened) die(opened.error().message());
    database_ = std::move(*opened);
  }

  void run() {
    if (options_.op == "load") load();
    else if (options_.op == "put") put();
    else if (options_.op == "get") get();
    else if (options_.op == "scan") scan();
    else if (options_.op == "update") update();
    else if (options_.op == "match") match();
    else if (options_.op == "decode") decode();
    else die("unknown operation " + options_.op);
    const Status closed = database_->close();
    if (!closed.ok()) die(closed.message());
  }
  std::uint64_t hash() const { return hash_; }

 private:
  OwnedDocument command(DocumentBuilder& builder) {
    const OwnedDocument request = std::move(builder).finish();
    OwnedDocument reply = database_->run_command("bench", request.view());
    if (!reply.view()["ok"].truthy() || !reply.view()["writeErrors"].missing())
      die("a command failed: " + to_extended_json(reply.view()));
    return reply;
  }
  void see(Bytes bytes) { hash_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), hash_); }
  OwnedDocument document(std::int64_t id) const {
    return make_document(id, options_.size, options_.payload);
  }
  // An id of the loaded ones; the same sequence each time.
  std::int64_t some_id(std::int64_t i) const { return i * 2654435761LL % options_.documents; }

  void insert(std::int64_t first, std::int64_t count) {
    DocumentBuilder b;
    b.append("insert", "c");
    {
      auto documents = b.array("documents");
      for (std::int64_t i = 0; i < count; ++i) {
        const OwnedDocument one = document(first + i);
        documents.append(one.view());
      }
    }
    const OwnedDocument reply = command(b);
    if (reply.view()["n"].number_as_int64() != count) die("an insert did not insert all");
  }
  void load() {
    if (options_.index) {
      DocumentBuilder b;
      b.append("createIndexes", "c");
      {
        auto indexes = b.array("indexes");
        auto one = indexes.object();
        one.object("key").append("k", 1);
        one.append("name", "k_1");
      }
      command(b);
    }
    constexpr std::int64_t kBatch = 500;
    for (std::int64_t at = 0; at < options_.documents; at += kBatch)
      insert(at, std::min(kBatch, options_.documents - at));
  }
  // The document is made once and gets its number: making texts is no part of an insert.
  void put() {
    constexpr std::size_t kIdInDocument = 4 + 1 + 4;  // size, type, "_id"
    Buffer bytes = document(options_.documents).take();
    for (std::int64_t i = 0; i < options_.n; ++i) {
      store_le<std::int64_t>(bytes.data() + kIdInDocument, options_.documents + i);
      DocumentBuilder b;
      b.append("insert", "c");
      b.array("documents").append(DocumentView::assume_valid(bytes));
      b.object("writeConcern").append("w", 1).append("j", false);
      const OwnedDocument reply = command(b);
      if (reply.view()["n"].number_as_int64() != 1) die("an insert did not insert");
    }
  }
  void get() {
    for (std::int64_t i = 0; i < options_.n; ++i) {
      DocumentBuilder b;
      b.append("find", "c");
      b.object("filter").append("_id", some_id(i));
      b.append("limit", 1).append("singleBatch", true);
      const OwnedDocument reply = command(b);
      const DocumentView batch = reply.view()["cursor"].as_document()["firstBatch"].as_document();
      if (batch.count() != 1) die("find by _id did not give one document");
      see(batch.first()->as_document().bytes());
    }
  }
  void scan() {
    DocumentBuilder b;
    b.append("find", "c").append("limit", options_.n).append("batchSize", options_.n).append("singleBatch", true);
    const OwnedDocument reply = command(b);
    const DocumentView batch = reply.view()["cursor"].as_document()["firstBatch"].as_document();
    if (static_cast<std::int64_t>(batch.count()) != options_.n) die("a scan missed documents");
    see(batch.bytes());
  }
  void update() {
    for (std::int64_t i = 0; i < options_.n; ++i) {
      DocumentBuilder b;
      b.append("update", "c");
      {
        auto updates = b.array("updates");
        auto one = updates.object();
        one.object("q").append("_id", some_id(i));
        auto change = one.object("u");
        change.object("$inc").append("n", 1);
      }
      b.object("writeConcern").append("w", 1).append("j", false);
      const OwnedDocument reply = command(b);
      if (reply.view()["nModified"].number_as_int64() != 1) die("an update changed nothing");
    }
  }
  // Matches every document it looks at, so that `n` of them are looked at.
  void match() {
    DocumentBuilder b;
    b.append("count", "c");
    {
      auto query = b.object("query");
      query.object("n").append("$exists", false);
      query.object("text").append("$type", "string");
    }
    b.append("limit", options_.n);
    const OwnedDocument reply = command(b);
    if (reply.view()["n"].number_as_int64() != options_.n) die("a match missed documents");
  }
  void decode() {
    const OwnedDocument one = document(1);
    std::int64_t fields = 0;
    for (std::int64_t i = 0; i < options_.n; ++i) {
      const auto valid = validate(one.bytes());
      if (!valid) die("a document is not valid");
      for (const Element& field : *valid) fields += field.name().size() > 0;
    }
    if (fields != options_.n * 3) die("a document lost fields");
  }

  const Options options_;
  std::unique_ptr<Database> database_;
  std::uint64_t hash_ = 0;
};

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace
}  // namespace multifora::bench

int main(int argc, char** argv) {
  using namespace multifora::bench;
  refuse_unoptimised();
  const Options options = parse(argc, argv);
  Operations operations(options);
  const std::int64_t start = now_ns();
  const double cpu = cpu_s();
  operations.run();
  std::printf("{\"op\":\"%s\",\"n\":%lld,\"us_per_op\":%.3f,\"cpu_us_per_op\":%.3f,\"hash\":\"%016llx\"}\n",
              options.op.c_str(), static_cast<long long>(options.n),
              static_cast<double>(now_ns() - start) / 1000.0 / static_cast<double>(options.n),
              (cpu_s() - cpu) * 1e6 / static_cast<double>(options.n),
              static_cast<unsigned long long>(operations.hash()));
}
