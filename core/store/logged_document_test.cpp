// References in the log are followed as long as they may be, and never to other bytes.
#include "core/store/logged_document.h"

#include <doctest/doctest.h>

#include "core/bson/builder.h"
#include "core/storage/storage_test_support.h"

namespace multifora {
namespace {

constexpr CollectionId kCollection = 7;

OwnedDocument make_document(int id, char fill) {
  DocumentBuilder b;
  b.append("_id", id).append("pad", std::string(5000, fill));
  return std::move(b).finish();
}

struct Logged : test::StorageFixture {
  std::unique_ptr<RecordAllocator> allocator = pager->records().make_allocator(kCollection, 1u << 30);
  Buffer scratch;

  ~Logged() { allocator.reset(); }

  // Puts the document into the file and makes a batch that refers to it.
  LogBatch put(RecordId id, DocumentView document, RecordLocation* location) {
    PageStash stash(*pager);
    REQUIRE(stash.ensure(RecordSpace::kPublishPages).ok());
    auto place = pager->records().reserve(*allocator, stash, document.size_bytes());
    REQUIRE(place.has_value());
    *location = place->location();
    std::uint64_t hash = 0;
    REQUIRE(pager->records()
                .publish(std::move(*place), id, kCollection, document.bytes(), stash, &hash)
                .ok());
    DocumentBuilder builder;
    builder.append("_id", document["_id"]);
    const OwnedDocument key = std::move(builder).finish();
    LogBatch batch;
    batch.insert_at(kCollection, id, *location, static_cast<std::uint32_t>(document.size_bytes()), hash,
                    key.view());
    return batch;
  }
  void retire(RecordLocation location, std::size_t size_bytes) {
    PageStash stash(*pager);
    REQUIRE(stash.ensure(RecordSpace::kRetirePages).ok());
    pager->records().retire(location, size_bytes, stash);
  }
  static LogRecord only_record(const LogBatch& batch) {
    LogBatchReader reader(batch.bytes());
    LogRecord record;
    REQUIRE(reader.next(&record).value());
    return record;
  }
};

TEST_CASE_FIXTURE(Logged, "the document of an insert, whichever way it was logged") {
  const OwnedDocument document = make_document(1, 'a');
  LogBatch whole;
  whole.insert(kCollection, 11, document.view());
  const auto inlined = logged_document(*pager, 1, only_record(whole), scratch);
  REQUIRE(inlined.has_value());
  CHECK(inlined->bytes() == document.bytes());

  RecordLocation location = 0;
  const LogBatch batch = put(11, document.view(), &location);
  const auto referred = logged_document(*pager, 1, only_record(batch), scratch);
  REQUIRE(referred.has_value());
  CHECK(referred->bytes() == document.bytes());
}

TEST_CASE_FIXTURE(Logged, "a document is read back whatever the buffer has held") {
  const OwnedDocument document = make_document(1, 'a');
  RecordLocation location = 0;
  const LogBatch batch = put(11, document.view(), &location);
  for (std::size_t capacity = 16; capacity < 12'000; capacity += 500) {
    CAPTURE(capacity);
    Buffer used;
    used.reserve(capacity);
    const auto found = logged_document(*pager, 1, only_record(batch), used);
    REQUIRE(found.has_value());
    CHECK(found->bytes() == document.bytes());
  }
}

TEST_CASE_FIXTURE(Logged, "a removed document can be followed until two checkpoints have passed") {
  const OwnedDocument document = make_document(1, 'a');
  RecordLocation location = 0, other = 0;
  const LogBatch batch = put(11, document.view(), &location);
  const LogRecord record = only_record(batch);
  constexpr LogPosition kPosition = 5;
  retire(location, document.view().size_bytes());
  bool used_again = false;
  for (LogPosition checkpoints = 0; checkpoints < 6; ++checkpoints) {
    // Whatever else comes in goes elsewhere.
    for (int i = 0; i < 300; ++i) {
      const RecordId id = 100 + checkpoints * 1000 + static_cast<RecordId>(i);
      const OwnedDocument filler = make_document(i, 'b');
      put(id, filler.view(), &other);
      used_again |= other == location;
      retire(other, document.view().size_bytes());
    }
    const auto found = logged_document(*pager, kPosition, record, scratch);
    if (kPosition > pager->oldest_needed_position()) {
      REQUIRE(found.has_value());
      CHECK(found->bytes() == document.bytes());
      CHECK_FALSE(used_again);
    } else if (used_again) {
      CHECK(found.error().code() == ErrorCode::kCappedPositionLost);
    }
    checkpoint(kPosition + checkpoints);
  }
  CHECK(used_again);
}

TEST_CASE_FIXTURE(Logged, "a pin keeps a reference from being lost") {
  const OwnedDocument document = make_document(1, 'a');
  RecordLocation location = 0, other = 0;
  const LogBatch batch = put(11, document.view(), &location);
  {
    const Snapshot pin = pager->pin();
    retire(location, document.view().size_bytes());
    for (LogPosition checkpoints = 0; checkpoints < 6; ++checkpoints) {
      for (int i = 0; i < 300; ++i) {
        const OwnedDocument filler = make_document(i, 'b');
        put(100 + checkpoints * 1000 + static_cast<RecordId>(i), filler.view(), &other);
        retire(other, document.view().size_bytes());
      }
      checkpoint(5 + checkpoints);
    }
    CHECK(logged_document(*pager, 5, only_record(batch), scratch).has_value());
  }
}

TEST_CASE_FIXTURE(Logged, "other bytes than were written are damage, and never a document") {
  const OwnedDocument document = make_document(1, 'a');
  RecordLocation location = 0;
  const LogBatch batch = put(11, document.view(), &location);
  const LogRecord record = only_record(batch);
  const std::uint64_t offset = location * kRecordUnit;
  const std::string content = files.content(path);
  // Each field of the header, the document's size, its first and its last byte.
  for (const std::size_t at : {0UL, 4UL, 8UL, 16UL, 30UL, 16 + document.bytes().size() - 2}) {
    CAPTURE(at);
    const char was = content[offset + at];
    files.poke(path, offset + at, std::string(1, static_cast<char>(was ^ 1)));
    CHECK(logged_document(*pager, 1, record, scratch).error().code() ==
          ErrorCode::kDataCorruptionDetected);
    files.poke(path, offset + at, std::string(1, was));
  }
  CHECK(logged_document(*pager, 1, record, scratch).has_value());
  LogRecord behind = record;
  behind.location = (std::uint64_t{1} << 40) / kRecordUnit;
  CHECK(logged_document(*pager, 1, behind, scratch).error().code() ==
        ErrorCode::kDataCorruptionDetected);
}

}  // namespace
}  // namespace multifora
