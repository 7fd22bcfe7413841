#include "tests/fuzz/store_actions.h"

#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/interrupt.h"
#include "core/bson/builder.h"
#include "core/bson/validate.h"
#include "core/store/change_feed.h"
#include "core/store/history.h"
#include "core/store/transaction.h"
#include "tests/fuzz/fuzz.h"

namespace multifora::fuzz {
namespace {

constexpr int kWalkMax = 600;  // a damaged chain of pages may be a ring

Interrupt& interrupt() {
  static Interrupt never(system_clock());
  return never;
}

std::string any_collection(Store& store, Choices& choices) {
  std::vector<std::string> names = {"a.c", "b.small", "b.capped", "a.none"};
  for (const std::string& db : store.database_names())
    for (const auto& info : store.collections(db)) names.push_back(info->ns);
  return names[choices.below(names.size())];
}

// Reads every byte, as a reply would: what is handed out must be a document. Bytes inside a text may be
// forged.
void look_at(DocumentView document) {
  ValidateOptions options;
  options.require_utf8 = false;
  FUZZ_CHECK(validate(document.bytes(), options).has_value());
}

// --- reading ---

void scan(const CollectionView& view, Choices& choices) {
  const bool backward = choices.one_in(2);
  const auto cursor = view.scan(backward);
  if (choices.one_in(2)) cursor->seek(choices.one_in(4) ? choices.next() : choices.below(2'500));
  for (int n = 0; n < kWalkMax; ++n) {
    const auto more = cursor->next();
    if (!more || !*more) break;
    look_at(cursor->document());
    if (choices.one_in(200)) cursor->seek(choices.below(2'500));
  }
  static_cast<void>(view.record_count() + view.data_bytes());
}

// A prefix of a key that the index could have, or none.
Buffer make_bound(const Index& index, const IndexState& state, Choices& choices) {
  KeyStringBuilder key;
  std::optional<IndexPaths> paths;
  if ((index.capabilities() & kIndexPaths) != 0)
    if (const auto found = index.paths_for(state, choices.one_in(2) ? "k" : "n.x"); found) paths = *found;
  if ((index.capabilities() & kIndexPaths) != 0 && !paths) return {};
  const OwnedDocument document = make_document(static_cast<int>(choices.below(2'200)));
  const OwnedDocument& pattern = paths ? paths->key_pattern : index.spec().key_pattern;
  std::size_t field = 0;
  for (const Element element : pattern.view()) {
    if (choices.one_in(3)) break;
    ValueView value = document.view()[element.name()];
    if (paths && field == paths->path_field) value = document.view()["p"];
    if (value.missing()) value = document.view()["k"];
    index.append_bound(key, field++, value);
  }
  return key.key();
}

void visit_entry(const CollectionView& view, const Index& index, const IndexCursor& cursor,
                 Choices& choices) {
  if ((index.capabilities() & kIndexCovered) != 0) {
    DocumentBuilder out;
    const Status status = index.decode(cursor.key(), cursor.type_bits(), out);
    const OwnedDocument decoded = std::move(out).finish();
    if (status.ok()) look_at(decoded.view());
  }
  if (choices.one_in(4))
    if (const auto document = view.find(cursor.record_id()); document && *document)
      look_at(**document);
}

void walk_index(const CollectionView& view, const IndexRef& ref, Choices& choices) {
  const Index& index = *ref.index;
  const auto cursor = index.cursor(ref.state);
  const Buffer from = make_bound(index, ref.state, choices);
  const Buffer to = make_bound(index, ref.state, choices);
  static_cast<void>(index.count_range(ref.state, from, to));
  static_cast<void>(index.count_range(ref.state, from, {}));
  static_cast<void>(index.stats(ref.state));
  static_cast<void>(index.multikey_fields(ref.state));
  const bool backward = choices.one_in(2);
  const RecordId id = choices.one_in(2) ? 0 : choices.below(2'500);
  Status status = backward ? cursor->seek_reverse(from, id) : cursor->seek(from, id);
  for (int n = 0; n < kWalkMax && status.ok() && cursor->valid(); ++n) {
    visit_entry(view, index, *cursor, choices);
    static_cast<void>(cursor->compare_key(to));
    if (choices.one_in(300)) {
      status = cursor->seek(to);
    } else {
      status = backward != choices.one_in(100) ? cursor->prev() : cursor->next();
    }
  }
}

void read(const CollectionView& view, Choices& choices) {
  scan(view, choices);
  for (const IndexRef& ref : view.indexes()) {
    if (!ref.building && choices.one_in(3)) walk_index(view, ref, choices);
  }
  for (int n = 0; n < 10; ++n) {
    const OwnedDocument probe = make_document(static_cast<int>(choices.below(2'200)));
    const auto record = view.find_id(probe.view()["_id"]);
    if (!record || *record == 0) continue;
    if (const auto document = view.find(*record); document && *document) look_at(**document);
  }
}

void read(Store& store, Choices& choices) {
  const auto view = store.read(any_collection(store, choices));
  if (view && *view) read(**view, choices);
}

// --- writing ---

OwnedDocument changed(DocumentView before, Choices& choices) {
  DocumentBuilder b;
  const std::uint64_t how = choices.next();
  for (const Element element : before) {
    if (element.name() == "k" && how % 2 == 0) {
      b.append("k", static_cast<std::int32_t>(how % 1000));
    } else if (element.name() == "s" && how % 3 == 0) {
      b.append("s", std::string(how % 3'000, 'z'));
    } else {
      b.append(element);
    }
  }
  return std::move(b).finish();
}

void write_once(CollectionWriter& writer, Choices& choices) {
  CollectionView& view = writer.view();
  if (choices.one_in(4)) {
    const OwnedDocument document = make_document(static_cast<int>(choices.below(10'000)));
    static_cast<void>(writer.insert(document.view()));
    return;
  }
  RecordId id = choices.below(2'100);
  if (choices.one_in(2)) {
    const OwnedDocument probe = make_document(static_cast<int>(choices.below(2'000)));
    const auto found = view.find_id(probe.view()["_id"]);
    if (!found || *found == 0) return;
    id = *found;
  } else if (choices.one_in(2)) {  // what a scan meets, whatever it is
    const auto cursor = view.scan(choices.one_in(2));
    cursor->seek(id);
    const auto more = cursor->next();
    if (!more || !*more) return;
    id = cursor->id();
  }
  const auto document = view.find(id);
  if (!document || !*document) return;
  const OwnedDocument before(**document);
  if (choices.one_in(3)) {
    static_cast<void>(writer.remove(id, before.view()));
  } else {
    const OwnedDocument after = changed(before.view(), choices);
    UpdateShape shape;
    shape.replacement = choices.one_in(3);
    static_cast<void>(writer.update(id, before.view(), after.view(), shape));
  }
}

void write(Store& store, const std::string& ns, Choices& choices) {
  const auto writer = store.write(ns, choices.one_in(2));
  if (!writer || !*writer) return;
  if (choices.one_in(20)) static_cast<void>((*writer)->truncate());
  for (std::uint64_t n = choices.below(30); n > 0; --n) write_once(**writer, choices);
  if (choices.one_in(3)) {
    DocumentBuilder b;
    b.append("ok", 1);
    const OwnedDocument result = std::move(b).finish();
    const auto number = static_cast<std::int64_t>(choices.below(10));
    (*writer)->set_statement_result({std::string(16, 'L'), number, 0}, result.view());
  }
  if (choices.one_in(2)) read((*writer)->view(), choices);
  static_cast<void>((*writer)->commit());
}

void transact(Store& store, Choices& choices) {
  TransactionOptions options;
  options.read_only = choices.one_in(4);
  auto transaction = Transaction::begin(store, options);
  if (!transaction) return;
  if (choices.one_in(3)) write(store, any_collection(store, choices), choices);
  {
    const TransactionScope scope(transaction->get());
    for (std::uint64_t n = 1 + choices.below(3); n > 0; --n) {
      if (!options.read_only) write(store, any_collection(store, choices), choices);
      if (choices.one_in(8)) static_cast<void>(build_index(store, "t.new", choices.next()));
      read(store, choices);
    }
  }
  if (choices.one_in(3)) {
    const auto reader = (*transaction)->reader();
    const TransactionScope scope(reader.get());
    read(store, choices);
  }
  switch (choices.below(3)) {
    case 0: static_cast<void>((*transaction)->commit(std::nullopt)); break;
    case 1: (*transaction)->abort(); break;
    default:
      static_cast<void>((*transaction)->commit(StatementId{std::string(16, 'T'), 1, kCommitStatement}));
  }
}

// --- the catalog ---

void change_indexes(Store& store, Choices& choices) {
  const std::string ns = any_collection(store, choices);
  const auto specs = store.index_specs(ns);
  if (!specs || specs->empty() || choices.one_in(3)) {
    static_cast<void>(build_index(store, ns, choices.next()));
    return;
  }
  const DocumentView spec = (*specs)[choices.below(specs->size())].view();
  look_at(spec);
  const ValueView name = spec["name"];
  if (name.type() != BsonType::kString) return;
  if (choices.one_in(2)) {
    static_cast<void>(store.drop_index(ns, name.as_string()));
    return;
  }
  DocumentBuilder b;
  for (const Element element : spec)
    if (element.name() != "hidden") b.append(element);
  b.append("hidden", true);
  const OwnedDocument hidden = std::move(b).finish();
  static_cast<void>(store.set_index_spec(ns, name.as_string(), hidden.view()));
}

void change_catalog(Store& store, Choices& choices) {
  const std::string ns = any_collection(store, choices);
  const std::string other = choices.one_in(2) ? any_collection(store, choices) : "z.renamed";
  switch (choices.below(6)) {
    case 0: static_cast<void>(store.rename_collection(ns, other, choices.one_in(2))); return;
    case 1: static_cast<void>(store.drop_collection(ns)); return;
    case 2: static_cast<void>(store.drop_database(ns.substr(0, ns.find('.')))); return;
    case 3:
      static_cast<void>(store.convert_to_capped(ns, 4096 + static_cast<std::int64_t>(choices.below(200'000)),
                                                static_cast<std::int64_t>(choices.below(100)), interrupt()));
      return;
    default: {
      const auto info = store.info(ns);
      if (info == nullptr) return;
      DocumentBuilder b;
      for (const Element element : info->options.view())
        if (element.name() != "validationLevel") b.append(element);
      b.append("validationLevel", "moderate");
      const OwnedDocument options = std::move(b).finish();
      if (choices.one_in(2)) {
        static_cast<void>(store.set_collection_options(ns, options.view()));
      } else {
        static_cast<void>(store.create_collection(other, options.view()));
      }
    }
  }
}

// --- reports ---

void report(Store& store, Choices& choices) {
  const std::string ns = any_collection(store, choices);
  static_cast<void>(store.collection_stats(ns));
  static_cast<void>(store.stats());
  static_cast<void>(store.validate(ns, choices.one_in(2), interrupt()));
  static_cast<void>(store.retried_result({std::string(16, 'L'), 0, 0}));
  static_cast<void>(store.index_builds());
  static_cast<void>(store.compact(0, true, interrupt()));
  DocumentBuilder b;
  store.describe(b);
  const OwnedDocument described = std::move(b).finish();
  look_at(described.view());
}

void follow(Store& store, Choices& choices) {
  ChangeFeed& feed = store.changes();
  ChangeInterest interest;
  switch (choices.below(3)) {
    case 0: break;
    case 1: interest = {ChangeInterest::Scope::kDatabase, "a"}; break;
    default: interest = {ChangeInterest::Scope::kCollection, "a.c"};
  }
  const ChangeFeed::Follower follower(feed);
  if (choices.one_in(2)) write(store, "a.c", choices);
  LogPosition from = feed.oldest();
  if (choices.one_in(2) && feed.newest() > from) from += choices.below(feed.newest() - from);
  LogPosition reached = 0;
  static_cast<void>(feed.read(from, interest, &reached, [&](const ChangeBatch& batch) {
    static_cast<void>(batch.names->name(static_cast<CollectionId>(choices.below(8))).ns.size());
    static_cast<void>(concerns(batch, interest));
    return true;
  }));
}

// --- what the bench's files hold beside plain documents ---

void must(const Result<LogPosition>& done) { FUZZ_CHECK(done.has_value()); }

OwnedDocument empty_options() { return DocumentBuilder().finish(); }

void change_each(Store& store, const std::string& ns, int from, int to) {
  const auto writer = store.write(ns, true);
  FUZZ_CHECK(writer && *writer);
  for (int id = from; id < to; ++id) {
    const OwnedDocument probe = make_document(id);
    const RecordId record = (*writer)->view().find_id(probe.view()["_id"]).value();
    const OwnedDocument before((*writer)->view().find(record).value().value());
    if (id % 5 == 0) {
      FUZZ_CHECK((*writer)->remove(record, before.view()).ok());
      continue;
    }
    DocumentBuilder b;
    for (const Element element : before.view())
      if (element.name() != "k") b.append(element);
    b.append("changed", id);
    const OwnedDocument after = std::move(b).finish();
    FUZZ_CHECK((*writer)->update(record, before.view(), after.view(), {id % 2 == 0, {}}).ok());
  }
  DocumentBuilder b;
  b.append("ok", 1).append("n", to);
  const OwnedDocument result = std::move(b).finish();
  (*writer)->set_statement_result({std::string(16, 'S'), to, 0}, result.view());
  must((*writer)->commit());
}

void insert_each(Store& store, const std::string& ns, int from, int to) {
  const auto writer = store.write(ns, true);
  FUZZ_CHECK(writer && *writer);
  for (int id = from; id < to; ++id) {
    const OwnedDocument document = make_document(id);
    FUZZ_CHECK((*writer)->insert(document.view()).has_value());
  }
  must((*writer)->commit());
}

}  // namespace

void make_varied(Store& store) {
  DocumentBuilder capped;
  capped.append("capped", true).append("size", 100'000).append("max", 40);
  const OwnedDocument capped_options = std::move(capped).finish();
  must(store.create_collection("x.capped", capped_options.view()));
  insert_each(store, "x.capped", 0, 50);
  insert_each(store, "x.c", 0, 60);
  for (const std::uint64_t i : {0, 2, 5, 8})
    FUZZ_CHECK(build_index(store, "x.c", i).has_value());
  change_each(store, "x.c", 0, 30);
  insert_each(store, "x.old", 0, 10);
  must(store.rename_collection("x.old", "x.new", false));
  must(store.drop_index("x.c", "i2"));
  insert_each(store, "x.gone", 0, 5);
  must(store.drop_collection("x.gone"));
  const OwnedDocument none = empty_options();
  must(store.create_collection("x.empty", none.view()));
  auto transaction = Transaction::begin(store, {});
  FUZZ_CHECK(transaction.has_value());
  {
    const TransactionScope scope(transaction->get());
    insert_each(store, "x.c", 100, 130);
    change_each(store, "x.c", 31, 45);
    insert_each(store, "x.created", 0, 5);
  }
  must((*transaction)->commit(StatementId{std::string(16, 'T'), 1, kCommitStatement}));
}

Choices::Choices(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {
  for (std::size_t i = 0; i < size; ++i) state_ = (state_ ^ data[i]) * 0x100000001b3;
}

std::uint64_t Choices::next() {
  if (left_ > 0) return data_[--left_];
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) >> 1;
}

OwnedDocument make_document(int id) {
  DocumentBuilder b;
  b.append("_id", id).append("k", id % 50);
  const std::size_t size = id % 97 == 0 ? 40'000 : static_cast<std::size_t>(id * 37) % 600;
  b.append("s", std::string(size, static_cast<char>('a' + id % 26)));
  if (id % 11 == 0) b.append("long", std::string(3'000, static_cast<char>('A' + id % 26)));
  b.append("p", id % 2 == 0 ? "k" : "n.x");
  switch (id % 9) {
    case 0: b.append("v", id * 0.5); break;
    case 1: b.append("v", std::int64_t{1} << (id % 63)); break;
    case 2: b.append("v", Decimal128::parse("12.5000").value_or(Decimal128())); break;
    case 3: b.append("v", id % 2 == 0); break;
    case 4: b.append_date_ms("v", id); break;
    case 5: b.append_binary("v", std::string(static_cast<std::size_t>(id % 40), '\1'), 0); break;
    case 6: b.append_regex("v", "a.b", "i"); break;
    case 7: {
      DocumentBuilder object = b.object("v");
      object.append("x", id).append_timestamp("t", static_cast<std::uint64_t>(id)).append_null("n");
      break;
    }
    default: {
      ArrayBuilder array = b.array("v");
      for (int i = 0; i < id % 8; ++i) array.append(i);
    }
  }
  {
    DocumentBuilder nested = b.object("n");
    nested.append("x", id % 7).append("y", "text");
  }
  return std::move(b).finish();
}

OwnedDocument index_spec(std::uint64_t number) {
  DocumentBuilder b;
  const std::string name = "i" + std::to_string(number % kIndexSpecs);
  {
    DocumentBuilder key = b.object("key");
    switch (number % kIndexSpecs) {
      case 0: key.append("k", 1); break;
      case 1: key.append("long", -1); break;
      case 2: key.append("v", 1); break;
      case 3: key.append("k", -1).append("v", 1).append("n.x", -1); break;
      case 4: key.append("s", "hashed"); break;
      case 5: key.append("$**", 1); break;
      case 6: key.append("n.y", 1).append("k", 1); break;
      case 7: key.append("s", 1); break;
      default: key.append("v", 1); break;
    }
  }
  b.append("name", name);
  if (number % kIndexSpecs == 6) b.append("unique", true);
  if (number % kIndexSpecs == 8) b.append("expireAfterSeconds", 1'000'000).append("sparse", true);
  return std::move(b).finish();
}

Result<IndexBuildResult> build_index(Store& store, const std::string& ns, std::uint64_t number) {
  const OwnedDocument spec = index_spec(number);
  return store.create_indexes(ns, {spec.view()}, interrupt());
}

void act(std::unique_ptr<Store>& store, Choices& choices, const Reopen& reopen) {
  switch (choices.below(16)) {
    case 0:
    case 1: read(*store, choices); return;
    case 2:
    case 3:
    case 4: write(*store, any_collection(*store, choices), choices); return;
    case 5:
    case 6: transact(*store, choices); return;
    case 7: change_indexes(*store, choices); return;
    case 8: change_catalog(*store, choices); return;
    case 9: report(*store, choices); return;
    case 10: follow(*store, choices); return;
    case 11: static_cast<void>(store->compact(0, false, interrupt())); return;
    case 12: static_cast<void>(store->check()); return;
    case 13: static_cast<void>(store->backup(store->path() + "_backup", interrupt())); return;
    case 14: store = reopen(std::move(store)); return;
    default: static_cast<void>(store->checkpoint());
  }
}

}  // namespace multifora::fuzz
