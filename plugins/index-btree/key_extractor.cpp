#include "plugins/index-btree/key_extractor.h"

#include <algorithm>

namespace multifora {
namespace {

// What a thread keeps for the next key.
constexpr std::size_t kKeptKeySizeMax = 64 * 1024;
constexpr ValueView kNull(BsonType::kNull, "", 0);
constexpr ValueView kUndefined(BsonType::kUndefined, "", 0);

// Element number `index` of an array; missing where it is shorter.
ValueView array_at(DocumentView array, std::int64_t index) {
  std::int64_t at = 0;
  for (const Element& element : array)
    if (at++ == index) return element.value();
  return {};
}

}  // namespace

KeyExtractor::KeyExtractor(DocumentView key_pattern) {
  for (const Element& field : key_pattern) {
    texts_.emplace_back(field.name());
    descending_.push_back(field->is_number() && field->number_as_double() < 0);
  }
  for (const std::string& text : texts_) paths_.emplace_back(text);
}

// One document's keys. Each field is at a value and has `at` parts of its path behind it.
class KeyExtractor::Walk {
 public:
  Walk(const KeyExtractor& extractor, bool sparse, const Collator* collator, IndexKeySet& out)
      : extractor_(extractor), sparse_(sparse), collator_(collator), out_(out) {}

  struct Field {
    ValueView value;
    std::size_t at = 0;    // parts of the path already followed
    bool done = false;     // `value` is final
  };

  Status run(std::vector<Field> fields) {
    DocumentView array;
    bool have_array = false;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      descend(i, fields[i]);
      if (fields[i].done) continue;
      const DocumentView found = fields[i].value.as_document();
      if (have_array && found.data() != array.data()) return parallel(fields, i);
      array = found;
      have_array = true;
    }
    if (!have_array) return emit(fields);
    return expand(fields, array);
  }

 private:
  // Follows objects until the path ends or an array stands in the way.
  void descend(std::size_t index, Field& field) {
    const FieldPath& path = extractor_.paths_[index];
    while (!field.done) {
      if (field.value.type() == BsonType::kArray) {
        out_.multikey_fields |= std::uint64_t{1} << std::min<std::size_t>(index, 63);
        return;
      }
      if (field.at == path.size()) {
        field.done = true;
      } else if (field.value.type() == BsonType::kObject) {
        field.value = field.value.as_document()[path.part(field.at++)];
        if (field.value.missing()) field.done = true;
      } else {
        field.value = ValueView();
        field.done = true;
      }
    }
  }

  // Every field that stands at `array` moves into each of its elements in turn.
  Status expand(const std::vector<Field>& fields, DocumentView array) {
    if (array.empty()) return expand_empty(fields);
    for (const Element& element : array) {
      std::vector<Field> next = fields;
      for (std::size_t i = 0; i < next.size(); ++i)
        if (!next[i].done) enter(i, next[i], array, element.value());
      MULTIFORA_TRY(run(std::move(next)));
    }
    return {};
  }

  void enter(std::size_t index, Field& field, DocumentView array, const ValueView& element) {
    const FieldPath& path = extractor_.paths_[index];
    if (field.at == path.size()) {  // the array is the field's own value
      field.value = element;
      field.done = true;
      return;
    }
    const std::int64_t position = path.index(field.at);
    if (position >= 0) {
      const ValueView at = array_at(array, position);
      const bool by_name = element.type() == BsonType::kObject &&
                           !element.as_document()[path.part(field.at)].missing();
      if (!at.missing() && !by_name) {
        field.value = at;
        ++field.at;
        return;
      }
    }
    if (element.type() == BsonType::kObject) {
      field.value = element;
      return;
    }
    field.value = ValueView();
    field.done = true;
  }

  Status expand_empty(const std::vector<Field>& fields) {
    std::vector<Field> next = fields;
    for (std::size_t i = 0; i < next.size(); ++i) {
      if (next[i].done) continue;
      next[i].value = next[i].at == extractor_.paths_[i].size() ? kUndefined : ValueView();
      next[i].done = true;
    }
    return run(std::move(next));
  }

  Status emit(const std::vector<Field>& fields) {
    const bool any = std::any_of(fields.begin(), fields.end(),
                                 [](const Field& field) { return !field.value.missing(); });
    if (sparse_ && !any) return {};
    KeyStringBuilder key;
    for (std::size_t i = 0; i < fields.size(); ++i)
      key.append(fields[i].value.missing() ? kNull : fields[i].value, extractor_.descending_[i],
                 collator_);
    out_.keys.push_back({key.key(), key.type_bits()});
    return {};
  }

  Status parallel(const std::vector<Field>& fields, std::size_t second) const {
    std::size_t first = 0;
    while (fields[first].done) ++first;
    const auto name = [&](std::size_t i) {
      const FieldPath& path = extractor_.paths_[i];
      return std::string(path.part(fields[i].at == 0 ? 0 : fields[i].at - 1));
    };
    return {ErrorCode::kCannotIndexParallelArrays,
            "cannot index parallel arrays [" + name(second) + "] [" + name(first) + "]"};
  }

  const KeyExtractor& extractor_;
  bool sparse_;
  const Collator* collator_;
  IndexKeySet& out_;
};

// The one key of a document without an array on any of the paths; false, with `out` as it was, where
// there is one. By far the most frequent case, so it allocates nothing but a long key.
bool KeyExtractor::extract_plain(DocumentView document, bool sparse, const Collator* collator,
                                 IndexKeySet& out) const {
  thread_local KeyStringBuilder key;  // keeps its memory from one document to the next
  key.clear();
  bool any = false;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const FieldPath& path = paths_[i];
    ValueView value = document[path.part(0)];
    for (std::size_t at = 1; at < path.size() && !value.missing(); ++at) {
      if (value.type() == BsonType::kArray) return false;
      value = value.type() == BsonType::kObject ? value.as_document()[path.part(at)] : ValueView();
    }
    if (value.type() == BsonType::kArray) return false;
    any = any || !value.missing();
    key.append(value.missing() ? kNull : value, descending_[i], collator);
  }
  out.multikey_fields = 0;
  if (sparse && !any) {
    out.keys.clear();
    return true;
  }
  out.keys.resize(1);
  out.keys[0].key = key.key();
  out.keys[0].type_bits = key.type_bits();
  if (key.key().size() > kKeptKeySizeMax) key = KeyStringBuilder();
  return true;
}

Status KeyExtractor::extract(DocumentView document, bool sparse, const Collator* collator,
                             IndexKeySet& out) const {
  if (extract_plain(document, sparse, collator, out)) return {};
  out.clear();
  Walk walk(*this, sparse, collator, out);
  std::vector<Walk::Field> fields(paths_.size());
  for (Walk::Field& field : fields) field.value = as_value(document);
  MULTIFORA_TRY(walk.run(std::move(fields)));
  if (out.keys.size() < 2) return {};
  std::sort(out.keys.begin(), out.keys.end(),
            [](const IndexKey& a, const IndexKey& b) { return a.key < b.key; });
  const auto last =
      std::unique(out.keys.begin(), out.keys.end(),
                  [](const IndexKey& a, const IndexKey& b) { return a.key == b.key; });
  out.keys.erase(last, out.keys.end());
  return {};
}

}  // namespace multifora
