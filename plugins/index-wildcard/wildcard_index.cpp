#include "plugins/index-wildcard/wildcard_index.h"

#include <algorithm>

#include "core/bson/builder.h"
#include "core/bson/key_string.h"
#include "core/plugin/host.h"

namespace multifora {
namespace {

constexpr std::string_view kPathField = "$_path";
constexpr std::string_view kTerm = "$**";
constexpr ValueView kNull(BsonType::kNull, "", 0);
constexpr ValueView kUndefined(BsonType::kUndefined, "", 0);
constexpr ValueView kMinKey(BsonType::kMinKey, "", 0);
// Paths of one query that its positions are taken for both ways.
constexpr std::size_t kPathsMax = 256;

// A string as a BSON value.
class StringValue {
 public:
  explicit StringValue(std::string_view text) {
    append_le<std::int32_t>(bytes_, static_cast<std::int32_t>(text.size() + 1));
    bytes_.append(text);
    bytes_.push_back('\0');
  }
  ValueView view() const {
    return {BsonType::kString, bytes_.data(), static_cast<std::uint32_t>(bytes_.size())};
  }

 private:
  Buffer bytes_;
};

Result<ValueView> ordered_value(DocumentView document, const FieldPath& path) {
  ValueView value = as_value(document);
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (value.type() != BsonType::kObject) return kNull;
    value = value.as_document()[path.part(i)];
    if (value.type() == BsonType::kArray)
      return fail(location_code(7246301),
                  "a non-wildcard field of a compound wildcard index cannot be or lie in an array: " +
                      std::string(path.dotted()));
  }
  return value.missing() ? kNull : value;
}

}  // namespace

// ---------------------------------------------------------------- the pattern

bool WildcardPattern::is_term(std::string_view name) {
  return name == kTerm || name.ends_with(".$**");
}

WildcardPattern WildcardPattern::of(DocumentView key) {
  WildcardPattern pattern;
  for (const Element& element : key) {
    if (is_term(element.name())) {
      pattern.term = element.name();
      pattern.root = element.name() == kTerm
                         ? std::string_view()
                         : element.name().substr(0, element.name().size() - kTerm.size() - 1);
      pattern.direction = element.value();
      pattern.descending = element->number_as_double() < 0;
      continue;
    }
    Field field{FieldPath(element.name()), element.value(), element->number_as_double() < 0};
    (pattern.term.empty() ? pattern.before : pattern.after).push_back(std::move(field));
  }
  return pattern;
}

OwnedDocument wildcard_inner_pattern(DocumentView key) {
  DocumentBuilder pattern;
  for (const Element& element : key) {
    if (WildcardPattern::is_term(element.name())) pattern.append(kPathField, std::int32_t{1});
    pattern.append(element);
  }
  return std::move(pattern).finish();
}

WildcardIndex::WildcardIndex(IndexSpec spec, std::unique_ptr<Index> inner, WildcardScope scope)
    : IndexOver(std::move(spec), std::move(inner)),
      pattern_(WildcardPattern::of(IndexOver::spec().key_pattern.view())),
      scope_(std::move(scope)),
      capabilities_(kIndexEquality | kIndexRange | kIndexOrder | kIndexCount | kIndexPaths) {
  if (!IndexOver::spec().collator) capabilities_ |= kIndexCovered;
}

// ---------------------------------------------------------------- entries

void WildcardIndex::append_ordered(KeyStringBuilder& key, std::size_t field,
                                   const ValueView& value) const {
  const std::size_t before = pattern_.before.size();
  const bool descending = field < before ? pattern_.before[field].descending
                          : field == before
                              ? pattern_.descending
                              : pattern_.after[field - before - 1].descending;
  key.append(value, descending, spec().collator.get());
}

void WildcardIndex::append_path(KeyStringBuilder& key, std::string_view path) const {
  key.append(StringValue(path).view());
}

void WildcardIndex::append_bound(KeyStringBuilder& key, std::size_t field,
                                 const ValueView& value) const {
  if (field == path_field())
    key.append(value);
  else
    append_ordered(key, field < path_field() ? field : field - 1, value);
}

void WildcardIndex::append_mark(KeyStringBuilder& key, Mark mark, std::string_view path) const {
  for (const WildcardPattern::Field& field : pattern_.before) key.append(kMinKey, field.descending);
  char kind[4];
  store_le(kind, static_cast<std::int32_t>(mark));
  key.append(ValueView(BsonType::kInt32, kind, sizeof kind));
  append_path(key, path);
}

// One document's entries.
class WildcardIndex::Walk {
 public:
  Walk(const WildcardIndex& index, IndexKeySet& out) : index_(index), out_(out) {}

  Status run(DocumentView document) {
    for (const WildcardPattern::Field& field : index_.pattern_.before) {
      MULTIFORA_ASSIGN(const ValueView value, ordered_value(document, field.path));
      before_.push_back(value);
    }
    for (const WildcardPattern::Field& field : index_.pattern_.after) {
      MULTIFORA_ASSIGN(const ValueView value, ordered_value(document, field.path));
      after_.push_back(value);
    }
    enter(document);
    sort_index_keys(out_);
    return {};
  }

 private:
  using Verdict = WildcardScope::Verdict;

  // The fields of an object at path_.
  void enter(DocumentView object) {
    const std::size_t length = path_.size();
    for (const Element& field : object) {
      if (length > 0) path_ += '.';
      if (field.name().find('.') != std::string_view::npos) path_ += '\0';
      path_ += field.name();
      visit(field.value());
      path_.resize(length);
    }
  }

  void visit(const ValueView& value) {
    const Verdict verdict = index_.scope_.at(path_);
    if (verdict == Verdict::kOutside) return;
    const bool inside = verdict == Verdict::kInside;
    if (value.type() == BsonType::kObject)
      visit_object(value, inside);
    else if (value.type() == BsonType::kArray)
      visit_array(value.as_document(), inside);
    else if (inside)
      add(value);
  }

  void visit_object(const ValueView& value, bool inside) {
    const DocumentView object = value.as_document();
    if (!object.empty())
      enter(object);
    else if (inside)
      add(value);
  }

  void visit_array(DocumentView array, bool inside) {
    add_mark(Mark::kArray);
    if (array.empty() && inside) add(kUndefined);
    for (const Element& element : array) {
      if (element.type() == BsonType::kObject) {
        visit_object(element.value(), inside);
      } else {
        if (element.type() == BsonType::kArray) add_mark(Mark::kNested);
        if (inside) add(element.value());
      }
    }
  }

  void add(const ValueView& value) {
    KeyStringBuilder key;
    std::size_t field = 0;
    for (const ValueView& other : before_) index_.append_ordered(key, field++, other);
    index_.append_path(key, path_);
    index_.append_ordered(key, field++, value);
    for (const ValueView& other : after_) index_.append_ordered(key, field++, other);
    out_.keys.push_back({key.key(), key.type_bits()});
  }

  void add_mark(Mark mark) {
    KeyStringBuilder key;
    index_.append_mark(key, mark, path_);
    for (const WildcardPattern::Field& field : index_.pattern_.after)
      key.append(kMinKey, field.descending);
    out_.keys.push_back({key.key(), key.type_bits()});
    out_.multikey_fields |= std::uint64_t{1} << std::min<std::size_t>(index_.path_field() + 1, 63);
  }

  const WildcardIndex& index_;
  IndexKeySet& out_;
  std::vector<ValueView> before_, after_;
  std::string path_;
};

Status WildcardIndex::extract(DocumentView document, IndexKeySet& out) const {
  out.clear();
  if (spec().partial_filter && !spec().partial_filter->matches(document)) return {};
  return Walk(*this, out).run(document);
}

Status WildcardIndex::decode(Bytes key, Bytes type_bits, DocumentBuilder& out) const {
  DocumentBuilder flat;
  MULTIFORA_TRY(inner().decode(key, type_bits, flat));
  const OwnedDocument decoded = std::move(flat).finish();
  std::string path;
  std::size_t field = 0;
  for (const Element& element : decoded.view()) {
    if (field == path_field() && element.type() == BsonType::kString) path = element->as_string();
    std::erase(path, '\0');  // what marks a name with a dot cannot stand in a name
    out.append(field == path_field() + 1 ? std::string_view(path) : element.name(),
               element.value());
    ++field;
  }
  return {};
}

// ---------------------------------------------------------------- reading

Result<bool> WildcardIndex::has_mark(IndexCursor& cursor, Mark mark, std::string_view path) const {
  KeyStringBuilder key;
  append_mark(key, mark, path);
  MULTIFORA_TRY_R(cursor.seek(key.key()));
  return cursor.valid() && cursor.key().starts_with(key.key());
}

Result<std::optional<IndexPaths>> WildcardIndex::paths_for(const IndexState& state,
                                                           std::string_view path) const {
  const FieldPath parts(path);
  const auto marks = cursor(state);
  bool multikey = false;
  std::vector<std::string> paths(1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::string> longer;
    for (const std::string& start : paths) {
      // A position after an array may be one, or the name of a field.
      bool position = false;
      if (i > 0 && parts.index(i) >= 0) {
        MULTIFORA_ASSIGN_R(position, has_mark(*marks, Mark::kArray, start));
        // What lies in an array inside an array has no entry of its own.
        MULTIFORA_ASSIGN_R(const bool nested, has_mark(*marks, Mark::kNested, start));
        if (nested) return std::nullopt;
      }
      if (position) longer.push_back(start);
      longer.push_back(i == 0 ? std::string(parts.part(i))
                              : start + "." + std::string(parts.part(i)));
      MULTIFORA_ASSIGN_R(const bool array, has_mark(*marks, Mark::kArray, longer.back()));
      multikey = multikey || array || position;
    }
    if (longer.size() > kPathsMax) return std::nullopt;
    std::sort(longer.begin(), longer.end());
    longer.erase(std::unique(longer.begin(), longer.end()), longer.end());
    paths = std::move(longer);
  }
  IndexPaths found;
  found.whole = true;
  for (const std::string& one : paths) {
    if (scope_.at(one) != WildcardScope::Verdict::kInside) return std::nullopt;
    found.whole = found.whole && scope_.whole(one);
  }
  DocumentBuilder pattern;
  for (const WildcardPattern::Field& field : pattern_.before)
    pattern.append(field.path.dotted(), field.direction);
  pattern.append(kPathField, std::int32_t{1});
  pattern.append(path, pattern_.direction);
  for (const WildcardPattern::Field& field : pattern_.after)
    pattern.append(field.path.dotted(), field.direction);
  found.key_pattern = std::move(pattern).finish();
  found.path_field = path_field();
  found.value_field = path_field() + 1;
  if (multikey) found.multikey_fields = std::uint64_t{1} << std::min<std::size_t>(found.value_field, 63);
  found.paths = std::move(paths);
  return std::optional<IndexPaths>(std::move(found));
}

}  // namespace multifora
