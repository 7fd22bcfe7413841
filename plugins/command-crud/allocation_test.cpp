// Scans match on bytes: what a query allocates does not depend on how many documents it looks at.
#include <cstdlib>
#include <new>

#include "plugins/command-crud/crud_test_support.h"
#include "plugins/query-engine/matcher.h"

namespace {
thread_local std::uint64_t allocations = 0;
}  // namespace

// Counts what this program's tests allocate on their own thread. Every form that is not over-aligned, as
// a sanitizer's own would not go with the operator delete here.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
  if (void* made = operator new(size, std::nothrow)) return made;
  throw std::bad_alloc();
}
void operator delete(void* gone) noexcept { std::free(gone); }
void operator delete(void* gone, std::size_t) noexcept { std::free(gone); }

namespace multifora::crud {
namespace {

constexpr const char* kFilters[] = {
    R"({"n":{"$gt":10}})",
    R"({"n":{"$gte":5,"$lt":500},"s":"text 7"})",
    R"({"n":{"$in":[1,5,9,700]}})",
    R"({"$or":[{"n":3},{"s":{"$in":["a","b"]}}]})",
    R"({"sub.x":{"$ne":4},"missing":{"$exists":false}})",
    R"({"tags":"b","sub.list.y":{"$lte":3}})",
    R"({"s":{"$type":"string"},"n":{"$mod":[3,1]},"tags":{"$size":2}})",
    R"({"sub.list":{"$elemMatch":{"y":{"$gt":1},"z":{"$ne":2}}}})",
};

std::string document(int i) {
  const std::string n = std::to_string(i);
  return R"({"_id":)" + n + R"(,"n":)" + n + R"(,"s":"text )" + n +
         R"(","tags":["a","b"],"sub":{"x":)" + std::to_string(i % 7) +
         R"(,"list":[{"y":1,"z":2},{"y":)" + std::to_string(i % 5) + R"(,"z":3}]}})";
}

TEST_CASE("matching allocates nothing") {
  const OwnedDocument subject = *from_extended_json(document(7));
  for (const char* json : kFilters) {
    CAPTURE(json);
    const OwnedDocument filter = *from_extended_json(json);
    const auto matcher = Matcher::compile(filter.view(), {});
    REQUIRE(matcher);
    REQUIRE((*matcher)->matches(subject.view()));
    const std::uint64_t before = allocations;
    bool matched = false;
    for (int i = 0; i < 100; ++i) matched = *(*matcher)->matches(subject.view()) || matched;
    CHECK(allocations == before);
  }
}

TEST_CASE("a scan allocates no more for more documents") {
  Commands db;
  const auto fill = [&](const std::string& collection, int count) {
    for (int i = 0; i < count; ++i)
      db(R"({"insert":")" + collection + R"(","documents":[)" + document(i) + "]}");
  };
  constexpr int kFew = 500, kMany = 4000;
  fill("few", kFew);
  fill("many", kMany);
  const auto cost = [&](const std::string& collection, const char* filter) {
    const OwnedDocument count =
        *from_extended_json(R"({"count":")" + collection + R"(","query":)" + filter + "}");
    db.run(count.view());  // whatever is made once
    REQUIRE(db.status.ok());
    const std::uint64_t before = allocations;
    db.run(count.view());
    return allocations - before;
  };
  for (const char* filter : kFilters) {
    CAPTURE(filter);
    const std::uint64_t few = cost("few", filter), many = cost("many", filter);
    CHECK(many <= few + (kMany - kFew) / 100);
  }
}

}  // namespace
}  // namespace multifora::crud
