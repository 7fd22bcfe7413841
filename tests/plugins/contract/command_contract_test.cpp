// What a command's row says, the dispatcher does, and no handler can be made to crash: for every
// registered command.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "core/bson/builder.h"
#include "core/bson/extended_json.h"
#include "tests/plugins/contract/command_fixture.h"
#include "tests/support/random_bson.h"

namespace multifora::contract {
namespace {

constexpr BsonType kOptionTypes[] = {
    BsonType::kString,  BsonType::kObject,    BsonType::kArray,    BsonType::kBool,
    BsonType::kInt32,   BsonType::kInt64,     BsonType::kDouble,   BsonType::kDecimal128,
    BsonType::kBinData, BsonType::kTimestamp, BsonType::kObjectId, BsonType::kDate,
    BsonType::kRegex,   BsonType::kMinKey,
};

std::uint32_t bit_of(BsonType type) {
  switch (type) {
    case BsonType::kString:
      return kOptString;
    case BsonType::kObject:
      return kOptObject;
    case BsonType::kArray:
      return kOptArray;
    case BsonType::kBool:
      return kOptBool;
    case BsonType::kInt32:
      return kOptInt32;
    case BsonType::kInt64:
      return kOptInt64;
    case BsonType::kDouble:
      return kOptDouble;
    case BsonType::kDecimal128:
      return kOptDecimal;
    case BsonType::kBinData:
      return kOptBinary;
    case BsonType::kTimestamp:
      return kOptTimestamp;
    case BsonType::kObjectId:
      return kOptObjectId;
    case BsonType::kDate:
      return kOptDate;
    default:
      return 0;  // no option has it
  }
}

bool any_options(const CommandRow& row) {
  return (row.flags & kAnyOptions) != 0;
}

// Values that handlers look at closely, more often than chance would give them.
class Garbage {
 public:
  explicit Garbage(std::uint64_t seed) : random_(seed) {}
  test::RandomBson& random() { return random_; }

  std::string word() {
    static constexpr std::string_view kWords[] = {
        "c",      "d",        "test.c", "a",   "_id",          "_id_",
        "a_1",    "$a",       "$$ROOT", "",    "system.views", "a.b",
        "simple", "majority", "local",  "off", "strict",       "executionStats",
        "*",      "1"};
    return random_.one_in(5) ? random_.text() : std::string(pick(kWords));
  }
  std::string name() {
    static constexpr std::string_view kNames[] = {"a",
                                                  "b",
                                                  "_id",
                                                  "a.b",
                                                  "a.0",
                                                  "$set",
                                                  "$inc",
                                                  "$push",
                                                  "$unset",
                                                  "$rename",
                                                  "$each",
                                                  "$gt",
                                                  "$in",
                                                  "$and",
                                                  "$or",
                                                  "$not",
                                                  "$expr",
                                                  "$exists",
                                                  "$type",
                                                  "$elemMatch",
                                                  "$regex",
                                                  "$match",
                                                  "$project",
                                                  "$group",
                                                  "$sort",
                                                  "$limit",
                                                  "$skip",
                                                  "$unwind",
                                                  "$lookup",
                                                  "$out",
                                                  "$merge",
                                                  "$count",
                                                  "$facet",
                                                  "$sum",
                                                  "$add",
                                                  "$concat",
                                                  "$cond",
                                                  "$map",
                                                  "$let",
                                                  "from",
                                                  "as",
                                                  "q",
                                                  "u",
                                                  "c",
                                                  "multi",
                                                  "upsert",
                                                  "limit",
                                                  "key",
                                                  "name",
                                                  "unique",
                                                  "sparse",
                                                  "expireAfterSeconds",
                                                  "partialFilterExpression",
                                                  "collation",
                                                  "locale",
                                                  "batchSize",
                                                  "insert",
                                                  "update",
                                                  "delete",
                                                  "document",
                                                  "filter",
                                                  "updateMods",
                                                  "ns",
                                                  "nsInfo",
                                                  "find",
                                                  "w",
                                                  "j",
                                                  "level",
                                                  "mode",
                                                  "id",
                                                  "cursor",
                                                  "index",
                                                  "hidden",
                                                  "viewOn",
                                                  "pipeline"};
    return std::string(pick(kNames));
  }
  void value(DocumentBuilder& to, std::string_view name, int depth) {
    switch (random_.below(depth > 0 ? 7 : 4)) {
      case 0:
        to.append(name, word());
        break;
      case 1:
        to.append(name, number());
        break;
      case 2:
        to.append(name, random_.one_in(2));
        break;
      case 3:
        random_.append_value(to, name, 1);
        break;
      case 4:
        put_array(to, name, depth - 1);
        break;
      default:
        put_object(to, name, depth - 1);
        break;
    }
  }
  void put_object(DocumentBuilder& to, std::string_view name, int depth) {
    const OwnedDocument made = document(depth);
    to.append(name, made.view());
  }
  void put_array(DocumentBuilder& to, std::string_view name, int depth) {
    const OwnedDocument made = array(depth);
    to.append_array(name, made.view());
  }
  OwnedDocument document(int depth) {
    DocumentBuilder b;
    for (std::uint64_t n = random_.below(4); n > 0; --n) value(b, name(), depth);
    return std::move(b).finish();
  }
  OwnedDocument array(int depth) {
    ArrayBuilder b;
    for (std::uint64_t n = random_.below(4); n > 0; --n) {
      if (random_.one_in(3))
        value(b.raw(), b.next_name(), depth);
      else
        put_object(b.raw(), b.next_name(), depth);
    }
    return std::move(b).finish();
  }
  void typed(DocumentBuilder& to, std::string_view name, BsonType type) {
    switch (type) {
      case BsonType::kString:
        to.append(name, word());
        break;
      case BsonType::kObject:
        put_object(to, name, 3);
        break;
      case BsonType::kArray:
        put_array(to, name, 3);
        break;
      case BsonType::kBool:
        to.append(name, random_.one_in(2));
        break;
      case BsonType::kInt32:
        to.append(name, static_cast<std::int32_t>(number()));
        break;
      case BsonType::kInt64:
        to.append(name, number());
        break;
      case BsonType::kDouble:
        to.append(name, random_.real());
        break;
      case BsonType::kDecimal128:
        to.append(name, random_.decimal());
        break;
      case BsonType::kBinData:
        to.append_binary(name, std::string(16, 'x'), 4);
        break;
      case BsonType::kTimestamp:
        to.append_timestamp(name, random_.bits());
        break;
      case BsonType::kObjectId:
        to.append(name, random_.object_id());
        break;
      case BsonType::kDate:
        to.append_date_ms(name, number());
        break;
      case BsonType::kRegex:
        to.append_regex(name, "a.*", "i");
        break;
      default:
        to.append_min_key(name);
        break;
    }
  }
  // A value that the option takes.
  void accepted(DocumentBuilder& to, const OptionSpec& option) {
    if (option.types == kOptAny) return value(to, option.name, 3);
    for (int i = 0; i < 100; ++i) {
      const BsonType type = pick(kOptionTypes);
      if ((bit_of(type) & option.types) == 0) continue;
      return typed(to, option.name, type);
    }
  }
  std::int64_t number() {
    static constexpr std::int64_t kNumbers[] = {0, 1, 2, 3, 10, -1, 1000, 1 << 20};
    return random_.one_in(6) ? random_.integer() : pick(kNumbers);
  }
  std::string_view database() { return random_.one_in(4) ? "admin" : "test"; }

 private:
  template <class T, std::size_t n>
  const T& pick(const T (&list)[n]) {
    return list[random_.below(n)];
  }
  test::RandomBson random_;
};

// {<command>: <target>, <what `fill` appends>, $db: <db>}
template <class Fill>
OwnedDocument command(const CommandRow& row, std::string_view db, Fill fill) {
  DocumentBuilder b;
  if ((row.flags & kCollectionName) != 0)
    b.append(row.name, "c");
  else
    b.append(row.name, 1);
  fill(b);
  b.append("$db", db);
  return std::move(b).finish();
}

void nothing(DocumentBuilder&) {}

void check_option_row(const OptionSpec& option) {
  CAPTURE(option.name);
  CHECK(!option.name.empty());
  CHECK(option.name != "$db");
  CHECK(option.name != "lsid");
  CHECK(option.types != 0);
  if ((option.flags & kNonNegative) != 0) CHECK((option.types & kOptNumber) != 0);
  if ((option.flags & kArrayOfObjects) != 0) CHECK((option.types & kOptArray) != 0);
  CHECK((option.flags & (kRequired | kUnsupported)) != (kRequired | kUnsupported));
}

// With what a client could send: now its own options, now anything.
OwnedDocument garbage_command(const CommandRow& row, Garbage& garbage) {
  DocumentBuilder b;
  test::RandomBson& random = garbage.random();
  if (random.one_in(3))
    garbage.value(b, row.name, 2);
  else if (random.one_in(2))
    b.append(row.name, garbage.word());
  else
    b.append(row.name, "c");
  for (const OptionSpec& option : row.options) {
    if ((option.flags & kUnsupported) != 0 && !random.one_in(20)) continue;
    const bool given = (option.flags & kRequired) != 0 ? !random.one_in(20) : random.one_in(4);
    if (!given) continue;
    if (random.one_in(12))
      garbage.value(b, option.name, 2);
    else
      garbage.accepted(b, option);
  }
  if (any_options(row))
    for (std::uint64_t n = random.below(3); n > 0; --n) garbage.value(b, garbage.name(), 3);
  b.append("$db", garbage.database());
  return std::move(b).finish();
}

}  // namespace

TEST_CASE("command rows: names, help, options") {
  CommandFixture bench;
  REQUIRE(bench.rows().size() > 1);
  std::set<std::string_view> names;
  for (const CommandRow* row : bench.rows()) {
    CAPTURE(row->name);
    CHECK(!row->name.empty());
    CHECK(names.insert(row->name).second);
    for (const std::string_view alias : row->aliases) CHECK(names.insert(alias).second);
    CHECK(!row->help.empty());
    CHECK((row->run != nullptr));
    std::set<std::string_view> options;
    for (const OptionSpec& option : row->options) {
      check_option_row(option);
      CHECK(options.insert(option.name).second);
    }
    if ((row->flags & kRetryableWrite) != 0) CHECK(row->lock == LockIntent::kWrite);
  }
}

TEST_CASE("an unknown field is error 40415") {
  CommandFixture bench;
  for (const CommandRow* row : bench.rows()) {
    CAPTURE(row->name);
    const OwnedDocument request =
        command(*row, "admin", [](DocumentBuilder& b) { b.append("noSuchOption", 1); });
    const OwnedDocument reply = bench.run(request.view());
    if (any_options(*row)) continue;
    CHECK(CommandFixture::code(reply.view()) == 40415);
    const std::string wanted =
        "BSON field '" + std::string(row->name) + ".noSuchOption' is an unknown field.";
    CHECK(reply.view()["errmsg"].as_string() == wanted);
  }
}

TEST_CASE("an option of a wrong type is error 14") {
  CommandFixture bench;
  Garbage garbage(1);
  int checked = 0;
  for (const CommandRow* row : bench.rows()) {
    CAPTURE(row->name);
    for (const OptionSpec& option : row->options) {
      if (option.types == kOptAny) continue;
      CAPTURE(option.name);
      for (const BsonType type : kOptionTypes) {
        if ((bit_of(type) & option.types) != 0) continue;
        const OwnedDocument request = command(
            *row, "admin", [&](DocumentBuilder& b) { garbage.typed(b, option.name, type); });
        const OwnedDocument reply = bench.run(request.view());
        CHECK(CommandFixture::code(reply.view()) == 14);
        ++checked;
      }
    }
  }
  CHECK(checked > 0);
}

TEST_CASE("required options, numbers below zero, options that are not implemented") {
  CommandFixture bench;
  Garbage garbage(2);
  for (const CommandRow* row : bench.rows()) {
    CAPTURE(row->name);
    for (const OptionSpec& option : row->options) {
      CAPTURE(option.name);
      if ((option.flags & kRequired) != 0) {
        const OwnedDocument without = command(*row, "admin", nothing);
        const OwnedDocument reply = bench.run(without.view());
        CHECK(CommandFixture::code(reply.view()) == 40414);
      }
      if ((option.flags & kNonNegative) != 0) {
        const OwnedDocument negative = command(*row, "admin", [&](DocumentBuilder& b) {
          if ((option.types & kOptInt32) != 0)
            b.append(option.name, -1);
          else
            b.append(option.name, std::int64_t{-1});
        });
        const OwnedDocument reply = bench.run(negative.view());
        CHECK(CommandFixture::code(reply.view()) == 51024);
      }
      if ((option.flags & kUnsupported) != 0) {
        const OwnedDocument given = command(*row, "admin", [&](DocumentBuilder& b) {
          if ((option.types & kOptBool) != 0)
            b.append(option.name, true);
          else
            garbage.accepted(b, option);
        });
        const OwnedDocument reply = bench.run(given.view());
        CHECK(CommandFixture::code(reply.view()) == 115);
      }
    }
  }
}

TEST_CASE("commands for the admin database refuse others") {
  CommandFixture bench;
  for (const CommandRow* row : bench.rows()) {
    if ((row->flags & kAdminOnly) == 0) continue;
    CAPTURE(row->name);
    Garbage garbage(3);
    const OwnedDocument request = command(*row, "test", [&](DocumentBuilder& b) {
      for (const OptionSpec& option : row->options)
        if ((option.flags & kRequired) != 0) garbage.accepted(b, option);
    });
    const OwnedDocument reply = bench.run(request.view());
    // An option's elements may be refused first.
    const int code = CommandFixture::code(reply.view());
    CHECK((code == 13 || code == 14));
  }
}

TEST_CASE("every command answers on an empty database") {
  CommandFixture bench;
  for (const CommandRow* row : bench.rows())
    for (const std::string_view db : {"admin", "test"}) {
      CAPTURE(row->name);
      const OwnedDocument request = command(*row, db, nothing);
      (void)bench.run(request.view());
    }
  const std::vector<std::string> errors = bench.store().check();
  CHECK_MESSAGE(errors.empty(), (errors.empty() ? std::string() : errors.front()));
}

TEST_CASE("garbage gets an error or a reply, and leaves a sound database") {
  const std::uint64_t seed = test::test_seed();
  CAPTURE(seed);
  MESSAGE("seed " << seed);
  CommandFixture bench;
  Garbage garbage(seed);
  constexpr int kRounds = 120;
  std::map<std::string_view, int> succeeded;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    for (const CommandRow* row : bench.rows()) {
      const OwnedDocument request = garbage_command(*row, garbage);
      const OwnedDocument reply = bench.run(request.view());
      if (CommandFixture::code(reply.view()) == 0) ++succeeded[row->name];
    }
  }
  // Garbage that every table refuses would test nothing behind them.
  CHECK(succeeded.size() > bench.rows().size() / 2);
  const std::vector<std::string> errors = bench.store().check();
  CHECK_MESSAGE(errors.empty(), (errors.empty() ? std::string() : errors.front()));
}

}  // namespace multifora::contract
