// One command again and again over the wire: one client, closed loop, cursors read to their end. Prints one
// JSON line, with the answers of the first rounds, which bench/run compares between sides.
//   bench_query --port N --command JSON [--db bench] [--documents N] [--seconds S] [--count N]
// In the command (extended JSON) the string "@id" stands for an _id and "@k" for a k that differ from
// round to round, {"@ids": n} for an array of n ids.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/client.h"
#include "bench/pick.h"
#include "bench/report.h"
#include "core/bson/builder.h"
#include "core/bson/extended_json.h"

namespace multifora::bench {
namespace {

struct Options {
  int port = 27017;
  std::string db = "bench", command;
  std::int64_t documents = 1000;
  double seconds = 1;
  std::int64_t count = 1 << 30;
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "bench_query: %s\n", what.c_str());
  std::exit(1);
}

Options parse(int argc, char** argv) {
  Options options;
  if (argc % 2 == 0) die("options come in pairs: name and value");
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* const value = argv[i + 1];
    if (name == "--port") options.port = std::atoi(value);
    else if (name == "--db") options.db = value;
    else if (name == "--command") options.command = value;
    else if (name == "--documents") options.documents = std::atoll(value);
    else if (name == "--seconds") options.seconds = std::atof(value);
    else if (name == "--count") options.count = std::atoll(value);
    else die("unknown option " + std::string(name));
  }
  return options;
}

// A command whose numbers change from round to round, in its bytes.
class Template {
 public:
  Template(const std::string& json, const std::string& db, std::int64_t documents) {
    const auto parsed = from_extended_json(json);
    if (!parsed) die("--command: " + parsed.error().message());
    DocumentBuilder out;
    copy(parsed->view(), out);
    out.append("$db", db);
    bytes_ = std::move(out).finish().take();
    find_holes(kIdHole, documents);
    find_holes(kValueHole, std::min<std::int64_t>(documents, 1000));
  }
  DocumentView round(std::uint64_t i) {
    for (std::size_t j = 0; j < holes_.size(); ++j)
      store_le<std::int64_t>(bytes_.data() + holes_[j].at, pick(i * holes_.size() + j, holes_[j].below));
    return DocumentView::assume_valid(bytes_);
  }

 private:
  // Stand where a number will be filled in; nothing else looks like them.
  static constexpr std::int64_t kIdHole = 0x6b1f5a3c97d2e481, kValueHole = 0x6b1f5a3c97d2e482;
  struct Hole {
    std::size_t at;
    std::int64_t below;
  };
  static std::int64_t hole_of(const ValueView& value) {
    if (value.type() != BsonType::kString) return 0;
    return value.as_string() == "@id" ? kIdHole : value.as_string() == "@k" ? kValueHole : 0;
  }
  static void copy(DocumentView from, DocumentBuilder& out) {
    for (const Element& element : from) copy_value(element.name(), element.value(), out);
  }
  static void copy_value(std::string_view name, const ValueView& value, DocumentBuilder& out) {
    if (const std::int64_t hole = hole_of(value)) {
      out.append(name, hole);
    } else if (value.type() == BsonType::kObject && !value.as_document()["@ids"].missing()) {
      auto array = out.array(name);
      for (std::int64_t n = value.as_document()["@ids"].number_as_int64(); n > 0; --n) array.append(kIdHole);
    } else if (value.type() == BsonType::kObject) {
      auto object = out.object(name);
      copy(value.as_document(), object);
    } else if (value.type() == BsonType::kArray) {
      auto array = out.array(name);
      for (const Element& element : value.as_document()) copy_value(array.next_name(), element.value(), array.raw());
    } else {
      out.append(name, value);
    }
  }
  void find_holes(std::int64_t hole, std::int64_t below) {
    char text[sizeof hole];
    store_le(text, hole);
    for (std::size_t at = 0; (at = bytes_.find(Bytes(text, sizeof text), at)) != Buffer::npos; at += sizeof hole)
      holes_.push_back({at, below});
  }

  Buffer bytes_;
  std::vector<Hole> holes_;
};

// As in bench/peers/peer.h: what came back, and the sum of the numbers at its top.
struct Answer {
  std::int64_t documents = 0;
  std::int64_t sum = 0;
  std::int64_t bytes = 0;
};

void add_number(const ValueView& value, Answer* answer) {
  if (value.is_number()) answer->sum += value.number_as_int64();
}

void add_batch(DocumentView batch, Answer* answer) {
  for (const Element& element : batch) {
    ++answer->documents;
    if (element->type() != BsonType::kObject) {
      add_number(element.value(), answer);
      continue;
    }
    for (const Element& field : element->as_document()) add_number(field.value(), answer);
  }
}

class Query {
 public:
  explicit Query(const Options& options)
      : options_(options), client_(options.port), template_(options.command, options.db, options.documents) {}

  Answer round(std::uint64_t i) {
    Answer answer;
    DocumentView reply = client_.run(template_.round(i));
    answer.bytes = static_cast<std::int64_t>(reply.size_bytes());
    if (!reply["values"].missing()) add_batch(reply["values"].as_document(), &answer);
    if (!reply["n"].missing()) add_number(reply["n"], &answer);
    if (reply["cursor"].missing()) return answer;
    const DocumentView cursor = reply["cursor"].as_document();
    add_batch(cursor["firstBatch"].as_document(), &answer);
    const std::string ns(cursor["ns"].as_string());
    for (std::int64_t id = cursor["id"].number_as_int64(); id != 0;) {
      DocumentBuilder more;
      more.append("getMore", id).append("collection", std::string_view(ns).substr(ns.find('.') + 1));
      more.append("$db", options_.db);
      const OwnedDocument request = std::move(more).finish();
      reply = client_.run(request.view());
      answer.bytes += static_cast<std::int64_t>(reply.size_bytes());
      add_batch(reply["cursor"].as_document()["nextBatch"].as_document(), &answer);
      id = reply["cursor"].as_document()["id"].number_as_int64();
    }
    return answer;
  }

  void run() {
    constexpr std::uint64_t kChecked = 8;  // as in bench/peers
    Answer total;
    for (std::uint64_t i = 0; i < kChecked; ++i) {
      const Answer one = round(i);
      total.documents += one.documents;
      total.sum += one.sum;
      total.bytes += one.bytes;
    }
    Latencies times;
    const std::int64_t start = now_ns(), end = start + static_cast<std::int64_t>(options_.seconds * 1e9);
    for (std::uint64_t i = 0; (i < 3 || now_ns() < end) && i < static_cast<std::uint64_t>(options_.count); ++i) {
      const std::int64_t begun = now_ns();
      static_cast<void>(round(i));
      times.add(now_ns() - begun);
    }
    std::printf("{\"op\":\"query\",\"requests\":%zu,\"docs_per_s\":%.1f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"min_us\":%.2f,"
                "\"reply_bytes\":%lld,\"answer\":[%lld,%lld]}\n",
                times.count(), static_cast<double>(times.count()) / (static_cast<double>(now_ns() - start) / 1e9),
                times.at_us(0.5), times.at_us(0.99), times.at_us(0),
                static_cast<long long>(total.bytes / static_cast<std::int64_t>(kChecked)),
                static_cast<long long>(total.documents), static_cast<long long>(total.sum));
  }

 private:
  const Options options_;
  Client client_;
  Template template_;
};

}  // namespace
}  // namespace multifora::bench

int main(int argc, char** argv) {
  multifora::bench::refuse_unoptimised();
  multifora::bench::Query(multifora::bench::parse(argc, argv)).run();
}
