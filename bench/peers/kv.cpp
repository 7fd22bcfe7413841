#include "bench/peers/kv.h"

#include <algorithm>
#include <map>

namespace multifora::bench {
namespace {

std::string document_key(std::int64_t id) {
  std::string key("d");
  append_be(key, static_cast<std::uint64_t>(id));
  return key;
}

std::string index_key(std::int32_t k, std::int64_t id) {
  std::string key("i");
  append_be(key, static_cast<std::uint32_t>(k));
  append_be(key, static_cast<std::uint64_t>(id));
  return key;
}

std::int32_t k_in_index(Bytes key) {
  return static_cast<std::int32_t>(load_be<std::uint32_t>(key.data() + 1));
}

DocumentView document_of(Bytes bytes) { return DocumentView::assume_valid(bytes); }

std::int32_t k_of(DocumentView document) {
  return static_cast<std::int32_t>(document["k"].number_as_int64());
}

// As a client does that takes the document: all of its bytes are read.
void take(Bytes bytes, Answer* answer) {
  std::uint64_t seen = 0;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 64) seen += load_le<std::uint64_t>(bytes.data() + at);
  asm volatile("" : : "r"(seen));
  const DocumentView document = document_of(bytes);
  ++answer->documents;
  answer->sum += document["_id"].number_as_int64() + k_of(document);
}

class KvSession final : public Session {
 public:
  explicit KvSession(KvStore& store) : store_(store), indexed_(store.indexed()) {}

  void insert(const std::vector<OwnedDocument>& documents) override {
    const auto transaction = store_.write();
    for (const OwnedDocument& document : documents) put(*transaction, document.view());
    transaction->commit();
  }
  Answer get(std::int64_t id) override {
    Answer answer;
    Bytes value;
    const auto view = store_.read();
    if (view->get(document_key(id), &value)) take(value, &answer);
    return answer;
  }
  Answer find_k(std::int32_t k) override {
    Answer answer;
    const auto view = store_.read();
    std::int64_t id = -1;
    view->walk(index_key(k, 0), false, [&](Bytes key, Bytes) {
      if (key[0] == 'i' && k_in_index(key) == k) id = static_cast<std::int64_t>(load_be<std::uint64_t>(key.data() + 5));
      return false;
    });
    Bytes value;
    if (id >= 0 && view->get(document_key(id), &value)) take(value, &answer);
    return answer;
  }
  Answer count_all() override {
    Answer answer;
    each_document([&](DocumentView) {
      ++answer.sum;
      return true;
    });
    return answer;
  }
  Answer count_k(std::int32_t from, std::int32_t to, bool by_index) override {
    Answer answer;
    if (!by_index) {
      each_document([&](DocumentView document) {
        const std::int32_t k = k_of(document);
        answer.sum += k >= from && k < to;
        return true;
      });
      return answer;
    }
    store_.read()->walk(index_key(from, 0), false, [&](Bytes key, Bytes) {
      if (key[0] != 'i' || k_in_index(key) >= to) return false;
      ++answer.sum;
      return true;
    });
    return answer;
  }
  Answer range(std::int64_t from, std::int64_t limit) override {
    return walk_documents(document_key(from), false, limit);
  }
  Answer newest(std::int64_t limit) override { return walk_documents("e", true, limit); }
  Answer project_k(std::int64_t limit) override {
    Answer answer;
    each_document([&](DocumentView document) {
      ++answer.documents;
      answer.sum += document["_id"].number_as_int64() + k_of(document);
      return answer.documents < limit;
    });
    return answer;
  }
  Answer group_k() override {
    std::map<std::int32_t, std::int64_t> groups;
    each_document([&](DocumentView document) {
      ++groups[k_of(document)];
      return true;
    });
    Answer answer;
    for (const auto& [k, count] : groups) {
      ++answer.documents;
      answer.sum += k + count;
    }
    return answer;
  }
  // From value to value in the index.
  Answer distinct_k() override {
    Answer answer;
    const auto view = store_.read();
    for (std::int32_t next = 0; next >= 0;) {
      std::int32_t found = -1;
      view->walk(index_key(next, 0), false, [&](Bytes key, Bytes) {
        if (key[0] == 'i') found = k_in_index(key);
        return false;
      });
      if (found < 0) break;
      ++answer.documents;
      answer.sum += found;
      next = found + 1;
    }
    return answer;
  }
  Answer count_text(std::string_view part) override {
    Answer answer;
    each_document([&](DocumentView document) {
      answer.sum += document["text"].as_string().find(part) != std::string_view::npos;
      return true;
    });
    return answer;
  }
  void increment_k(std::int64_t from, std::int64_t count) override {
    const auto transaction = store_.write();
    for (std::int64_t id = from; id < from + count; ++id) {
      Bytes value;
      if (!transaction->get(document_key(id), &value)) peer_failed("a document to change is not there");
      std::string changed(value);
      const DocumentView document = document_of(changed);
      const std::int32_t k = k_of(document);
      // In place: the number keeps its size. Its bytes are those of the view.
      const std::size_t at = static_cast<std::size_t>(document["k"].bytes().data() - changed.data());
      store_le<std::int32_t>(changed.data() + at, k + 1);
      transaction->put(document_key(id), changed);
      if (!indexed_) continue;
      transaction->remove(index_key(k, id));
      transaction->put(index_key(k + 1, id), {});
    }
    transaction->commit();
  }
  void replace(std::int64_t id, const OwnedDocument& document) override {
    {
      const auto transaction = store_.write();
      Bytes value;
      if (!transaction->get(document_key(id), &value)) peer_failed("a document to delete is not there");
      if (indexed_) transaction->remove(index_key(k_of(document_of(value)), id));
      transaction->remove(document_key(id));
      transaction->commit();
    }
    const auto transaction = store_.write();
    put(*transaction, document.view());
    transaction->commit();
  }

 private:
  void put(KvTransaction& transaction, DocumentView document) {
    const std::int64_t id = document["_id"].number_as_int64();
    transaction.put(document_key(id), document.bytes());
    if (indexed_) transaction.put(index_key(k_of(document), id), {});
  }
  template <class Each>
  void each_document(Each each) {
    store_.read()->walk("d", false, [&](Bytes key, Bytes value) {
      return key[0] == 'd' && each(document_of(value));
    });
  }
  Answer walk_documents(Bytes from, bool backwards, std::int64_t limit) {
    Answer answer;
    store_.read()->walk(from, backwards, [&](Bytes key, Bytes value) {
      if (key[0] != 'd') return false;
      take(value, &answer);
      return answer.documents < limit;
    });
    return answer;
  }

  KvStore& store_;
  const bool indexed_;
};

}  // namespace

std::unique_ptr<Session> make_kv_session(KvStore& store) { return std::make_unique<KvSession>(store); }

void create_kv_index(KvStore& store) {
  std::vector<std::pair<std::int32_t, std::int64_t>> entries;
  store.read()->walk("d", false, [&](Bytes key, Bytes value) {
    if (key[0] != 'd') return false;
    const DocumentView document = document_of(value);
    entries.emplace_back(k_of(document), document["_id"].number_as_int64());
    return true;
  });
  std::sort(entries.begin(), entries.end());
  const auto transaction = store.write();
  for (const auto& [k, id] : entries) transaction->put(index_key(k, id), {});
  transaction->put(kIndexedKey, "1");
  transaction->commit();
}

void drop_kv_index(KvStore& store) {
  if (!store.indexed()) return;
  std::vector<std::string> keys;
  store.read()->walk("i", false, [&](Bytes key, Bytes) {
    if (key[0] == 'i') keys.emplace_back(key);
    return key[0] == 'i';
  });
  const auto transaction = store.write();
  for (const std::string& key : keys) transaction->remove(key);
  transaction->remove(kIndexedKey);
  transaction->commit();
}

}  // namespace multifora::bench
