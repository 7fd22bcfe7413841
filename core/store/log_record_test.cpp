#include "core/store/log_record.h"

#include <doctest/doctest.h>

#include "core/bson/builder.h"

namespace multifora {
namespace {

OwnedDocument id_document(int id) {
  DocumentBuilder b;
  b.append("_id", id);
  return std::move(b).finish();
}

OwnedDocument dropped(const char* ns) {
  DocumentBuilder b;
  b.append("ns", ns);
  b.append_binary("uuid", std::string(16, 'u'), 4);
  return std::move(b).finish();
}

LogBatch sample() {
  LogBatch batch;
  const OwnedDocument document = id_document(7);
  batch.insert(3, 11, document.view());
  batch.update(3, 11, document.view(), "patch bytes");
  batch.remove(3, 11, document.view(), true);
  batch.truncate(4);
  const OwnedDocument drop = dropped("a.b");
  batch.catalog(LogOperation::kDrop, 4, drop.view());
  batch.statement("0123456789abcdef", 5, 2, document.view());
  batch.insert_at(3, 12, 4711, 16'384, 0x1234567890abcdef, document.view());
  return batch;
}

TEST_CASE("records come back as they were written, in order") {
  const LogBatch batch = sample();
  LogBatchReader reader(batch.bytes());
  LogRecord record;
  REQUIRE(reader.next(&record).value());
  CHECK(record.operation == LogOperation::kInsert);
  CHECK(record.collection == 3);
  CHECK(record.record_id == 11);
  CHECK(record.document["_id"].as_int32() == 7);
  REQUIRE(reader.next(&record).value());
  CHECK(record.operation == LogOperation::kUpdate);
  CHECK(record.patch == "patch bytes");
  REQUIRE(reader.next(&record).value());
  CHECK(record.operation == LogOperation::kCappedDelete);
  REQUIRE(reader.next(&record).value());
  CHECK(record.operation == LogOperation::kTruncate);
  CHECK(record.collection == 4);
  REQUIRE(reader.next(&record).value());
  CHECK(record.operation == LogOperation::kDrop);
  REQUIRE(reader.next(&record).value());
  CHECK(record.operation == LogOperation::kStatement);
  CHECK(record.lsid == "0123456789abcdef");
  CHECK(record.txn_number == 5);
  CHECK(record.statement == 2);
  REQUIRE(reader.next(&record).value());
  CHECK(record.operation == LogOperation::kInsertAt);
  CHECK(record.record_id == 12);
  CHECK(record.location == 4711);
  CHECK(record.size_bytes == 16'384);
  CHECK(record.hash == 0x1234567890abcdef);
  CHECK(record.document["_id"].as_int32() == 7);
  CHECK(!reader.next(&record).value());
}

TEST_CASE("a change of the catalog without its fields is damage, not a null pointer") {
  using enum LogOperation;
  const OwnedDocument empty = DocumentBuilder().finish();
  for (const LogOperation operation :
       {kCreate, kDrop, kRename, kSetOptions, kCreateIndex, kDropIndex, kSetIndexSpec, kDropDatabase}) {
    LogBatch batch;
    batch.catalog(operation, 4, empty.view());
    LogBatchReader reader(batch.bytes());
    LogRecord record;
    const auto read = reader.next(&record);
    REQUIRE(!read);
    CHECK(read.error().code() == ErrorCode::kDataCorruptionDetected);
    Bytes rest = batch.bytes();
    LogFrame frame;
    REQUIRE(next_frame(rest, &frame));
    CHECK(!catalog_body(frame));
  }
}

TEST_CASE("fields of a change of the catalog have their types") {
  const auto read = [](LogOperation operation, auto fill) {
    DocumentBuilder b;
    fill(b);
    const OwnedDocument body = std::move(b).finish();
    LogBatch batch;
    batch.catalog(operation, 4, body.view());
    LogBatchReader reader(batch.bytes());
    LogRecord record;
    return reader.next(&record).has_value();
  };
  const auto drop = [&](std::size_t uuid_size, auto ns) {
    return read(LogOperation::kDrop, [&](DocumentBuilder& b) {
      b.append("ns", ns).append_binary("uuid", std::string(uuid_size, 'u'), 4);
    });
  };
  CHECK(drop(16, "a.b"));
  CHECK(!drop(15, "a.b"));
  CHECK(!drop(16, 5));
  const auto create = [&](auto number) {
    return read(LogOperation::kCreate, [&](DocumentBuilder& b) {
      b.append("ns", "a.b").append_binary("uuid", std::string(16, 'u'), 4);
      b.append("options", DocumentView());
      ArrayBuilder indexes = b.array("indexes");
      DocumentBuilder row = indexes.object();
      row.append("number", number).append("kind", "btree").append("spec", DocumentView());
    });
  };
  CHECK(create(1));
  CHECK(!create(-1));
  CHECK(!create(1.5));
  CHECK(!create(std::int64_t{1} << 32));
  CHECK(!create("1"));
}

TEST_CASE("references are found without looking at the rest") {
  const LogBatch batch = sample();
  LogBatchReader reader(batch.bytes());
  LogRecord record;
  REQUIRE(reader.next_reference(&record).value());
  CHECK(record.location == 4711);
  CHECK(!reader.next_reference(&record).value());
}

TEST_CASE("every cut and every flipped byte is an error or a record, never a crash") {
  const LogBatch batch = sample();
  const Bytes whole = batch.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Buffer cut(whole.substr(0, size));  // its own memory, so that ASan sees an overrun
    LogBatchReader reader(cut);
    LogRecord record;
    while (true) {
      const auto more = reader.next(&record);
      if (!more || !*more) break;
    }
  }
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      Buffer flipped(whole);
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      LogBatchReader reader(flipped);
      LogRecord record;
      while (true) {
        const auto more = reader.next(&record);
        if (!more || !*more) break;
      }
    }
}

}  // namespace
}  // namespace multifora
