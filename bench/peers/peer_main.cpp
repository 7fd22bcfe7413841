// Rows of bench/run on one peer. Prints one JSON line.
//   bench_peer_NAME --where DIR|CONNECTION --row ROW [--documents N] [--size BYTES] [--mixed 0|1]
//                   [--clients N] [--seconds S] [--batch-bytes N] [--first-id N] [--count N]
// ROW: load, index, checkpoint, insert, bulk, update, update_many, replace, mixed95, mixed50 and the read rows
// of kReads below. Read rows print the answers of their first rounds; bench/run compares them between sides.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "bench/payload.h"
#include "bench/peers/peer.h"
#include "bench/pick.h"
#include "bench/report.h"

namespace multifora::bench {

void peer_failed(std::string_view what) {
  std::fprintf(stderr, "bench_peer: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

namespace {

struct Options {
  std::string where, row;
  std::int64_t documents = 1000;
  std::size_t size = 300;
  bool mixed = false;
  int clients = 1;
  double seconds = 1;
  std::size_t batch_bytes = 1 << 20;
  std::int64_t first_id = 0;
  std::int64_t count = 1 << 30;
};

Options parse(int argc, char** argv) {
  Options options;
  if (argc % 2 == 0) peer_failed("options come in pairs: name and value");
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* const value = argv[i + 1];
    if (name == "--where") options.where = value;
    else if (name == "--row") options.row = value;
    else if (name == "--documents") options.documents = std::atoll(value);
    else if (name == "--size") options.size = std::strtoull(value, nullptr, 10);
    else if (name == "--mixed") options.mixed = std::atoi(value) != 0;
    else if (name == "--clients") options.clients = std::atoi(value);
    else if (name == "--seconds") options.seconds = std::atof(value);
    else if (name == "--batch-bytes") options.batch_bytes = std::strtoull(value, nullptr, 10);
    else if (name == "--first-id") options.first_id = std::atoll(value);
    else if (name == "--count") options.count = std::atoll(value);
    else peer_failed("unknown option " + std::string(name));
  }
  return options;
}

// Round `i` of a read row, over `n` documents.
using Read = Answer (*)(Session& session, std::int64_t n, std::uint64_t i);
const std::map<std::string_view, Read> kReads = {
    {"count_all", [](Session& s, std::int64_t, std::uint64_t) { return s.count_all(); }},
    {"count_index", [](Session& s, std::int64_t, std::uint64_t) { return s.count_k(100, 200, true); }},
    {"count_scan", [](Session& s, std::int64_t, std::uint64_t) { return s.count_k(100, 200, false); }},
    {"get", [](Session& s, std::int64_t n, std::uint64_t i) { return s.get(pick(i, n)); }},
    {"find_k",
     [](Session& s, std::int64_t n, std::uint64_t i) {
       return s.find_k(static_cast<std::int32_t>(pick(i, std::min<std::int64_t>(n, 1000))));
     }},
    {"range", [](Session& s, std::int64_t n, std::uint64_t) { return s.range(n / 2, 1000); }},
    {"newest", [](Session& s, std::int64_t, std::uint64_t) { return s.newest(20); }},
    {"project", [](Session& s, std::int64_t, std::uint64_t) { return s.project_k(1000); }},
    {"full", [](Session& s, std::int64_t, std::uint64_t) { return s.range(0, 1000); }},
    {"group", [](Session& s, std::int64_t, std::uint64_t) { return s.group_k(); }},
    {"distinct", [](Session& s, std::int64_t, std::uint64_t) { return s.distinct_k(); }},
    {"regex", [](Session& s, std::int64_t, std::uint64_t) { return s.count_text("lantern quarry"); }},
};
constexpr std::uint64_t kChecked = 8;  // rounds whose answers are printed, before any is timed

void print_times(const std::string& row, Latencies& times, std::int64_t documents, double seconds, const std::string& more) {
  std::printf("{\"op\":\"%s\",\"requests\":%zu,\"docs_per_s\":%.1f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"min_us\":%.2f%s}\n",
              row.c_str(), times.count(), static_cast<double>(documents) / seconds, times.at_us(0.5), times.at_us(0.99),
              times.at_us(0), more.c_str());
}

void read_row(const Options& options, Peer& peer, Read read) {
  const auto session = peer.session();
  Answer total;
  for (std::uint64_t i = 0; i < kChecked; ++i) {
    const Answer one = read(*session, options.documents, i);
    total.documents += one.documents;
    total.sum += one.sum;
  }
  Latencies times;
  const std::int64_t start = now_ns(), end = start + static_cast<std::int64_t>(options.seconds * 1e9);
  for (std::uint64_t i = 0; (i < 3 || now_ns() < end) && i < static_cast<std::uint64_t>(options.count); ++i) {
    const std::int64_t begun = now_ns();
    static_cast<void>(read(*session, options.documents, i));
    times.add(now_ns() - begun);
  }
  print_times(options.row, times, static_cast<std::int64_t>(times.count()), static_cast<double>(now_ns() - start) / 1e9,
              ",\"answer\":[" + std::to_string(total.documents) + "," + std::to_string(total.sum) + "]");
}

// Each client calls `step(session, client, number)` until the time is over; the step says how many documents.
void write_row(const Options& options, Peer& peer,
               const std::function<std::int64_t(Session&, int, std::int64_t)>& step) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (int c = 0; c < options.clients; ++c) sessions.push_back(peer.session());
  std::vector<std::vector<std::int64_t>> times(sessions.size());
  std::vector<std::int64_t> documents(sessions.size());
  std::vector<std::int64_t> rounds(sessions.size());
  const std::int64_t start = now_ns(), end = start + static_cast<std::int64_t>(options.seconds * 1e9);
  std::vector<std::thread> threads;
  for (std::size_t c = 0; c < sessions.size(); ++c)
    threads.emplace_back([&, c] {
      for (std::int64_t i = 0; now_ns() < end && i < options.count; ++i) {
        const std::int64_t begun = now_ns();
        documents[c] += step(*sessions[c], static_cast<int>(c), i);
        times[c].push_back(now_ns() - begun);
        rounds[c] = i + 1;
      }
    });
  for (std::thread& thread : threads) thread.join();
  const double seconds = static_cast<double>(now_ns() - start) / 1e9;
  Latencies all;
  std::int64_t total = 0, longest = 0;
  for (std::size_t c = 0; c < sessions.size(); ++c) {
    for (const std::int64_t ns : times[c]) all.add(ns);
    total += documents[c];
    longest = std::max(longest, rounds[c]);
  }
  char more[160];
  std::snprintf(more, sizeof more, ",\"clients\":%d,\"mb_per_s\":%.1f,\"next_id\":%lld", options.clients,
                static_cast<double>(total) * static_cast<double>(options.size) / seconds / 1e6,
                static_cast<long long>(options.first_id + longest * options.clients *
                                       static_cast<std::int64_t>(std::max<std::size_t>(1, options.batch_bytes / options.size))));
  print_times(options.row, all, total, seconds, more);
}

std::size_t size_of(const Options& options, std::int64_t id) {
  return options.mixed ? mixed_size(id, options.size) : options.size;
}

void load(const Options& options, Peer& peer) {
  const auto session = peer.session();
  const std::int64_t start = now_ns();
  std::int64_t id = 0, bytes = 0;
  while (id < options.documents) {
    std::vector<OwnedDocument> batch;
    for (std::size_t in_batch = 0; in_batch < options.batch_bytes && id < options.documents; ++id) {
      batch.push_back(make_document(id, size_of(options, id)));
      in_batch += batch.back().bytes().size();
      bytes += static_cast<std::int64_t>(batch.back().bytes().size());
    }
    session->insert(batch);
  }
  const double seconds = static_cast<double>(now_ns() - start) / 1e9;
  std::printf("{\"op\":\"load\",\"documents\":%lld,\"seconds\":%.3f,\"mb_per_s\":%.1f,\"version\":\"%s\"}\n",
              static_cast<long long>(options.documents), seconds, static_cast<double>(bytes) / seconds / 1e6,
              peer.version().c_str());
}

void timed(const Options& options, const std::function<void()>& what) {
  const std::int64_t start = now_ns();
  what();
  std::printf("{\"op\":\"%s\",\"p50_us\":%.1f}\n", options.row.c_str(), static_cast<double>(now_ns() - start) / 1e3);
}

// Ids above those of the data, apart for each client; documents made before the clock runs.
void insert(const Options& options, Peer& peer, bool bulk) {
  const std::int64_t each = bulk ? static_cast<std::int64_t>(std::max<std::size_t>(1, options.batch_bytes / options.size)) : 1;
  std::vector<OwnedDocument> texts;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(each, 64); ++i)
    texts.push_back(make_document(options.first_id + i, size_of(options, i)));
  constexpr std::size_t kIdInDocument = 4 + 1 + 4;  // size, type, "_id"
  write_row(options, peer, [&](Session& session, int client, std::int64_t i) {
    std::vector<OwnedDocument> batch;
    for (std::int64_t j = 0; j < each; ++j) {
      const std::int64_t number = (i * options.clients + client) * each + j;
      std::string bytes(texts[static_cast<std::size_t>(number) % texts.size()].bytes());
      store_le<std::int64_t>(bytes.data() + kIdInDocument, options.first_id + number);
      batch.emplace_back(DocumentView::assume_valid(bytes));
    }
    session.insert(batch);
    return each;
  });
}

void mixed(const Options& options, Peer& peer, std::uint64_t reads_of_100) {
  const Zipf zipf(options.documents);
  write_row(options, peer, [&](Session& session, int client, std::int64_t i) {
    const std::uint64_t n = static_cast<std::uint64_t>(i) * 64 + static_cast<std::uint64_t>(client);
    const std::int64_t id = zipf.pick(n);
    if (static_cast<std::uint64_t>(pick(n ^ 0x5555, 100)) < reads_of_100) {
      if (session.get(id).documents != 1) peer_failed("a document is not there");
    } else {
      session.increment_k(id, 1);
    }
    return 1;
  });
}

void run(const Options& options) {
  const auto peer = open_peer(options.where);
  if (const auto read = kReads.find(options.row); read != kReads.end()) return read_row(options, *peer, read->second);
  const std::int64_t n = options.documents;
  if (options.row == "load") return load(options, *peer);
  if (options.row == "index") {
    peer->drop_index();
    return timed(options, [&] { peer->create_index(); });
  }
  if (options.row == "checkpoint") return timed(options, [&] { peer->checkpoint(); });
  if (options.row == "insert" || options.row == "bulk") return insert(options, *peer, options.row == "bulk");
  if (options.row == "mixed95") return mixed(options, *peer, 95);
  if (options.row == "mixed50") return mixed(options, *peer, 50);
  if (options.row == "update")
    return write_row(options, *peer, [&](Session& s, int client, std::int64_t i) {
      s.increment_k(pick(static_cast<std::uint64_t>(i) * 64 + static_cast<std::uint64_t>(client), n), 1);
      return 1;
    });
  if (options.row == "update_many")
    return write_row(options, *peer, [&](Session& s, int, std::int64_t i) {
      s.increment_k(pick(static_cast<std::uint64_t>(i), n - 65), 65);
      return 65;
    });
  if (options.row == "replace")
    return write_row(options, *peer, [&](Session& s, int client, std::int64_t i) {
      const std::int64_t id = pick(static_cast<std::uint64_t>(i) * 64 + static_cast<std::uint64_t>(client), n);
      s.replace(id, make_document(id, size_of(options, id)));
      return 1;
    });
  peer_failed("there is no row " + options.row);
}

}  // namespace
}  // namespace multifora::bench

int main(int argc, char** argv) {
  multifora::bench::refuse_unoptimised();
  multifora::bench::run(multifora::bench::parse(argc, argv));
}
