#include "core/plugin/names.h"

#include <doctest/doctest.h>

#include <string>

namespace multifora {
namespace {

TEST_CASE("database names") {
  CHECK(check_database_name("test").ok());
  CHECK(check_database_name(std::string(63, 'a')).ok());
  for (const std::string& bad : {std::string(), std::string(64, 'a'), std::string("a.b"),
                                 std::string("a b"), std::string("a$"), std::string("a/b"),
                                 std::string("a\\b"), std::string("a\"b"), std::string("a\0b", 3)})
    CHECK(check_database_name(bad).code() == ErrorCode::kInvalidNamespace);
}

TEST_CASE("collection names") {
  for (const char* good : {"c", "a.b", "a-b", "system.views", "with space"})
    CHECK(check_collection_name(good).ok());
  for (const std::string& bad :
       {std::string(), std::string(".a"), std::string("a."), std::string("a$b"),
        std::string("a\0b", 3)})
    CHECK(check_collection_name(bad).code() == ErrorCode::kInvalidNamespace);
}

TEST_CASE("a namespace splits at its first dot") {
  CHECK(Namespace::split("db.a.b").db == "db");
  CHECK(Namespace::split("db.a.b").collection == "a.b");
  CHECK(Namespace::split("nodot").db.empty());
}

TEST_CASE("a dollar only where the caller allows it") {
  CHECK(check_database_name("$external", DollarInName::kAllowed).ok());
  CHECK(!check_database_name("$external").ok());
  CHECK(!check_database_name("a b", DollarInName::kAllowed).ok());
}

TEST_CASE("a new namespace is at most 255 bytes long") {
  const std::string most = "db." + std::string(252, 'c');
  CHECK(check_new_namespace(most).ok());
  CHECK(check_new_namespace(most + "c").code() == ErrorCode::kInvalidNamespace);
  CHECK(!check_new_namespace("db.").ok());
  CHECK(!check_new_namespace(".c").ok());
  CHECK(!check_new_namespace("nodot").ok());
}

}  // namespace
}  // namespace multifora
