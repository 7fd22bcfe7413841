// Loads a data set over the wire: documents 0 to N - 1 in order, in durable batches. Prints one JSON line.
//   bench_fill --port N --documents N --size BYTES [--mixed 0|1] [--collection c] [--batch-bytes 1048576]
//              [--payload text|repetitive]
#include <cstdio>
#include <cstdlib>

#include "bench/client.h"
#include "bench/payload.h"
#include "bench/report.h"
#include "core/bson/builder.h"

int main(int argc, char** argv) {
  using namespace multifora;
  using namespace multifora::bench;
  refuse_unoptimised();
  int port = 27017;
  std::int64_t documents = 1000;
  std::size_t size = 300;
  bool mixed = false;
  std::size_t batch_bytes = 1 << 20;
  Payload payload = Payload::kText;
  std::string collection = "c";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* const value = argv[i + 1];
    if (name == "--port") port = std::atoi(value);
    else if (name == "--documents") documents = std::atoll(value);
    else if (name == "--size") size = std::strtoull(value, nullptr, 10);
    else if (name == "--mixed") mixed = std::atoi(value) != 0;
    else if (name == "--collection") collection = value;
    else if (name == "--batch-bytes") batch_bytes = std::strtoull(value, nullptr, 10);
    else if (name == "--payload") payload = payload_named(value);
    else return std::fprintf(stderr, "bench_fill: unknown option %s\n", argv[i]), 1;
  }
  DocumentBuilder body;
  body.append("insert", collection);
  body.object("writeConcern").append("w", 1).append("j", true);
  body.append("$db", "bench");
  const OwnedDocument command = std::move(body).finish();
  Client client(port);
  std::size_t bytes = 0;
  Latencies times;
  const std::int64_t start = now_ns();
  for (std::int64_t id = 0; id < documents;) {
    std::vector<OwnedDocument> batch;
    for (std::size_t in_batch = 0; in_batch < batch_bytes && id < documents; ++id) {
      batch.push_back(make_document(id, mixed ? mixed_size(id, size) : size, payload));
      in_batch += batch.back().bytes().size();
      bytes += batch.back().bytes().size();
    }
    const std::int64_t begun = now_ns();
    client.run(command.view(), "documents", batch);
    times.add(now_ns() - begun);
  }
  const double seconds = static_cast<double>(now_ns() - start) / 1e9;
  std::printf("{\"op\":\"fill\",\"documents\":%lld,\"bytes\":%zu,\"seconds\":%.3f,\"mb_per_s\":%.1f,"
              "\"p50_us\":%.1f}\n",
              static_cast<long long>(documents), bytes, seconds, static_cast<double>(bytes) / seconds / 1e6,
              times.at_us(0.5));
}
