// libmultifora in-process: commands, durability across a reopen, errors, threads.
#include <multifora.h>

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

namespace multifora {
namespace {

class Directory {
 public:
  Directory()
      : path_(std::filesystem::temp_directory_path() /
              ("multifora_embed_test." + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<Database> open(const std::string& path) {
  auto database = Database::open(path);
  INFO((database ? std::string() : database.error().message()));
  REQUIRE(database.has_value());
  return std::move(*database);
}

OwnedDocument run(Database& database, std::string_view json) {
  const auto command = from_extended_json(json);
  REQUIRE(command.has_value());
  return database.run_command("test", command->view());
}

std::int64_t number(const OwnedDocument& reply, std::string_view name) {
  return reply.view()[name].number_as_int64();
}

}  // namespace

TEST_CASE("commands, and what they wrote after a reopen") {
  const Directory directory;
  {
    const auto database = open(directory.path());
    const OwnedDocument inserted =
        run(*database, R"({"insert": "c", "documents": [{"_id": 1, "a": 5}, {"_id": 2, "a": 6}]})");
    CHECK(number(inserted, "ok") == 1);
    CHECK(number(inserted, "n") == 2);
    const OwnedDocument again = run(*database, R"({"insert": "c", "documents": [{"_id": 1}]})");
    CHECK(again.view()["writeErrors"].as_document().count() == 1);
    CHECK(database->close().ok());
    CHECK(number(run(*database, R"({"ping": 1})"), "code") == 91);
  }
  const auto database = open(directory.path());
  const OwnedDocument found = run(*database, R"({"find": "c", "filter": {"a": {"$gt": 5}}})");
  const DocumentView batch =
      found.view()["cursor"].as_document()["firstBatch"].as_document();
  CHECK(batch.count() == 1);
  CHECK(batch.first()->as_document()["_id"].as_int32() == 2);
}

TEST_CASE("errors are replies") {
  const Directory directory;
  const auto database = open(directory.path());
  CHECK(number(run(*database, R"({"nothing": 1})"), "code") == 59);
  CHECK(number(run(*database, R"({"find": "c", "fliter": {}})"), "code") == 40415);
  CHECK(number(database->run_command_bytes("test", std::string("\x08\0\0\0oops", 8)), "code") == 22);
  CHECK(number(database->run_command("a b", DocumentView()), "ok") == 0);
  // One process, one database.
  CHECK_FALSE(Database::open(directory.path()).has_value());
}

TEST_CASE("many threads") {
  const Directory directory;
  const auto database = open(directory.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        DocumentBuilder insert;
        insert.append("insert", "c");
        {
          ArrayBuilder documents = insert.array("documents");
          documents.object().append("_id", t * 1000 + i);
        }
        const OwnedDocument command = std::move(insert).finish();
        CHECK(number(database->run_command("test", command.view()), "n") == 1);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(number(run(*database, R"({"count": "c"})"), "n") == 400);
}

}  // namespace multifora
