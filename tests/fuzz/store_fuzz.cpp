#include "tests/fuzz/store_fuzz.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "core/base/bus_guard.h"
#include "core/bson/builder.h"
#include "core/plugin/plugin.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/store_actions.h"

const multifora::PluginEntry* multifora_plugin_codec_lz4();
const multifora::PluginEntry* multifora_plugin_index_btree();
const multifora::PluginEntry* multifora_plugin_index_hashed();
const multifora::PluginEntry* multifora_plugin_index_ttl();
const multifora::PluginEntry* multifora_plugin_index_wildcard();

namespace multifora::fuzz {

namespace {

namespace fs = std::filesystem;

PluginHost& host() {
  static PluginHost& instance = [&]() -> PluginHost& {
    static PluginHost made;
    for (const PluginEntry* entry :
         {multifora_plugin_codec_lz4(), multifora_plugin_index_btree(), multifora_plugin_index_hashed(),
          multifora_plugin_index_ttl(), multifora_plugin_index_wildcard()})
      FUZZ_CHECK(made.load(*entry, "").ok());
    made.freeze();
    return made;
  }();
  return instance;
}

StoreOptions options(const std::string& path) {
  StoreOptions options;
  options.path = path;
  options.memory_budget_bytes = 1u << 30;
  options.checkpoint_interval_ms = 1'000'000'000;
  return options;
}

void insert(Store& store, const std::string& ns, int id) {
  const auto writer = store.write(ns, true);
  FUZZ_CHECK(writer.has_value());
  const OwnedDocument document = make_document(id);
  FUZZ_CHECK((*writer)->insert(document.view()).has_value());
  const auto position = (*writer)->commit();
  FUZZ_CHECK(position.has_value());
  if (id % 10 == 9) FUZZ_CHECK(store.wait_durable(*position).ok());
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

StoreBench::StoreBench(bool crashed) : crashed_(crashed) {
  BusGuard::install(-1);
  const fs::path base = fs::temp_directory_path() /
                        ("multifora_fuzz_" + std::to_string(::getpid()) + (crashed ? "l" : "d"));
  fs::remove_all(base);
  path_ = base / "db";
  const std::string live = base / "live";
  auto store = Store::open(options(live), host(), posix_file_system(), nullptr);
  FUZZ_CHECK(store.has_value());
  const auto add = [&](const std::string& ns, int from, int to) {
    for (int id = from; id < to; ++id) {
      insert(**store, ns, id);
      contents_[ns][id] = make_document(id).bytes();
      if (crashed) logged_.emplace_back(ns, id);
    }
  };
  if (!crashed) {
    add("a.c", 0, 1500);
    for (std::uint64_t i = 0; i < 6; ++i) FUZZ_CHECK(build_index(**store, "a.c", i).has_value());
    add("a.c", 1500, 2000);
    add("b.small", 0, 20);
    make_varied(**store);
    FUZZ_CHECK((*store)->close().ok());
  } else {
    FUZZ_CHECK((*store)->checkpoint().ok());
    add("a.c", 0, 250);
    add("b.small", 0, 20);
    add("a.c", 250, 300);
    make_varied(**store);
  }
  fs::copy(live, path_, fs::copy_options::recursive);  // as it would be found after a kill
  fs::remove(path_ + "/lock");
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (!entry.is_regular_file()) continue;
    const std::string bytes = read_file(entry.path());
    if (bytes.find_first_not_of('\0') != std::string::npos)
      files_[fs::relative(entry.path(), path_).string()] = bytes;
  }
}

StoreBench::~StoreBench() { fs::remove_all(fs::path(path_).parent_path()); }

// False where a read reported an error.
bool StoreBench::read_all(Store& store, Contents* found) const {
  bool good = true;
  for (const std::string& db : store.database_names()) {
    if (db == "x") continue;  // not known by content
    for (const auto& info : store.collections(db)) {
      if (info->is_view) continue;
      const auto view = store.read(info->ns);
      if (!view || !*view) return false;
      auto& documents = (*found)[info->ns];
      const auto cursor = (*view)->scan(false);
      for (int n = 0; n < 10'000; ++n) {
        const auto more = cursor->next();
        good = good && more;
        if (!more || !*more) break;
        const DocumentView document = cursor->document();
        documents[document["_id"].is_number() ? static_cast<int>(document["_id"].number_as_int64()) : -1] =
            std::string(document.bytes());
      }
      for (int id = 0; id < 2000; id += 61) {
        const OwnedDocument probe = make_document(id);
        const auto record = (*view)->find_id(probe.view()["_id"]);
        good = good && record;
        if (!record || *record == 0) continue;
        const auto document = (*view)->find(*record);
        good = good && document;
        if (document && *document) documents[id] = std::string((*document)->bytes());
      }
    }
  }
  return good;
}

void StoreBench::judge(const Contents& found) const {
  if (!crashed_) {
    FUZZ_CHECK(found == contents_);
    return;
  }
  // What is there is the beginning of what was logged.
  std::size_t count = 0;
  for (const auto& [ns, documents] : found) count += documents.size();
  FUZZ_CHECK(count <= logged_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [ns, id] = logged_[i];
    FUZZ_CHECK(found.contains(ns) && found.at(ns).contains(id));
  }
}

void StoreBench::exercise(OverlayFileSystem& files, bool forged, const std::uint8_t* data,
                          std::size_t size) const {
  const auto open = [&]() -> std::unique_ptr<Store> {
    auto opened = Store::open(options(path_), host(), files, nullptr);
    if (opened) return std::move(*opened);
    FUZZ_CHECK(!opened.error().message().empty());
    return nullptr;
  };
  std::unique_ptr<Store> store = open();
  if (store == nullptr) return;
  Contents found;
  const bool good = read_all(*store, &found);
  if (!forged) {
    for (const auto& [ns, documents] : found)
      for (const auto& [id, bytes] : documents)
        FUZZ_CHECK(contents_.at(ns).at(id) == bytes);
    if (good) judge(found);
  }
  Choices choices(data, size);
  const Reopen reopen = [&](std::unique_ptr<Store> old) {
    static_cast<void>(old->close());
    old.reset();
    return open();
  };
  for (std::uint64_t n = 2 + choices.below(5); n > 0 && store != nullptr; --n)
    act(store, choices, reopen);
  if (store != nullptr) static_cast<void>(store->close());
}

std::vector<Mutation> read_mutations(const std::uint8_t* data, std::size_t size) {
  std::vector<Mutation> mutations;
  for (; size >= 8 && mutations.size() < 32; data += 8, size -= 8) {
    Mutation one;
    one.what = data[0] & 0x7f;
    one.forge = (data[0] & 0x80) != 0;
    std::memcpy(&one.where, data + 2, 4);
    std::memcpy(&one.value, data + 6, 2);
    mutations.push_back(one);
  }
  return mutations;
}

void mutate(const Mutation& mutation, char* at, std::size_t size) {
  static constexpr std::uint64_t kExtremes[] = {0, 1, 2, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff,
                                                0xffffffff, ~std::uint64_t{0} >> 1,
                                                ~std::uint64_t{0}};
  const std::size_t room = size - 8;
  char* const to = at + mutation.where % room;
  std::uint64_t number = 0;
  std::memcpy(&number, to, 8);
  const std::uint64_t extreme = kExtremes[mutation.value % std::size(kExtremes)];
  switch (mutation.what % 8) {
    case 0: *to = static_cast<char>(*to ^ (1 << mutation.value % 8)); return;
    case 1: *to = static_cast<char>(mutation.value); return;
    case 2: number += static_cast<std::uint64_t>(mutation.value % 17) - 8; break;
    case 3: number = extreme; break;
    case 4: std::memcpy(to, &extreme, 4); return;
    case 5: std::memcpy(to, &extreme, 2); return;
    case 6: std::memset(to, mutation.value & 1 ? 0xff : 0,
                        std::min<std::size_t>(room - mutation.where % room, mutation.value));
      return;
    default: std::memmove(to, at + (mutation.where * 7 + mutation.value) % room, 8); return;
  }
  std::memcpy(to, &number, 8);
}

std::vector<std::string> mutation_seeds() {
  std::mt19937_64 random(1);
  std::vector<std::string> seeds(1);  // no change at all
  for (int i = 0; i < 40; ++i) {
    std::string seed(8 * (1 + random() % 3), '\0');
    for (char& c : seed) c = static_cast<char>(random());
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

}  // namespace multifora::fuzz
