// Finding the difference of two documents. The format is written down at the top of patch.cpp.
#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/bson/patch.h"
#include "core/bson/patch_format.h"

namespace multifora {

namespace pf = patch_format;

namespace {

// Length of the common prefix of two texts of which the first `i` bytes are known to be equal.
std::size_t common_prefix(Bytes a, Bytes b, std::size_t i) {
  constexpr std::size_t kStride = 256;  // memcmp is faster than words, but does not say where
  const std::size_t size = a.size() < b.size() ? a.size() : b.size();
  while (size - i >= kStride && std::memcmp(a.data() + i, b.data() + i, kStride) == 0) i += kStride;
  for (; size - i >= 8; i += 8) {
    const std::uint64_t difference =
        load_le<std::uint64_t>(a.data() + i) ^ load_le<std::uint64_t>(b.data() + i);
    if (difference != 0) return i + static_cast<std::size_t>(std::countr_zero(difference)) / 8;
  }
  while (i < size && a[i] == b[i]) ++i;
  return i;
}

// Where each name stands last, by index among a document's elements.
class LastPlaces {
 public:
  explicit LastPlaces(DocumentView document) {
    std::size_t index = 0;
    for (const Element& e : document) places_.insert_or_assign(e.name(), index++);
  }
  bool found_from(std::string_view name, std::size_t index) const {
    const auto place = places_.find(name);
    return place != places_.end() && place->second >= index;
  }

 private:
  std::unordered_map<std::string_view, std::size_t> places_;
};

// A document under construction inside the patch: opened at its first element, closed by close().
class Embedded {
 public:
  Embedded(pf::Op op, Buffer& out) : op_(op), out_(out) {}

  bool open() const { return open_; }
  void add(Bytes element) {
    begin();
    out_.append(element);
  }
  void add_value(std::string_view name, const ValueView& value) {
    begin();
    out_.push_back(static_cast<char>(value.type()));
    out_.append(name).push_back('\0');
    out_.append(value.bytes());
  }
  void close() {
    if (!open_) return;
    open_ = false;
    out_.push_back('\0');
    store_le(out_.data() + start_, static_cast<std::int32_t>(out_.size() - start_));
  }

 private:
  void begin() {
    if (open_) return;
    open_ = true;
    pf::append_op(op_, 0, out_);
    start_ = out_.size();
    out_.append(4, '\0');
  }
  pf::Op op_;
  Buffer& out_;
  std::size_t start_ = 0;
  bool open_ = false;
};

// Writes the steps of one level, joining those that can be joined.
class StepWriter {
 public:
  explicit StepWriter(Buffer& out)
      : out_(out), insert_(pf::Op::kInsert, out), set_(pf::Op::kSet, out) {}

  void keep(std::uint32_t count) {
    if (count == 0) return;
    if (removed_ != 0) flush_counts();
    close();
    kept_ += count;
  }
  // `name` is empty in an array.
  void remove(std::string_view name, bool in_array) {
    if (kept_ != 0) flush_counts();
    close();
    ++removed_;
    if (!in_array) removed_names_.append(name).push_back('\0');
  }
  void insert(Bytes element) {
    if (!insert_.open()) flush();
    insert_.add(element);
  }
  void set(std::string_view name, bool in_array, const ValueView& value) {
    if (!set_.open()) flush();
    set_.add_value(in_array ? std::string_view() : name, value);
  }
  void descend(std::string_view name, bool in_array, bool into_array) {
    flush();
    pf::append_op(pf::Op::kDescend, into_array ? 1 : 0, out_);
    if (!in_array) out_.append(name).push_back('\0');
  }
  void end() {
    if (kept_ != 0) kept_ = 0;  // what remains is kept anyway
    flush();
    pf::append_op(pf::Op::kEnd, 0, out_);
  }

 private:
  void close() {
    insert_.close();
    set_.close();
  }
  void flush_counts() {
    if (kept_ != 0) pf::append_op(pf::Op::kKeep, kept_, out_);
    if (removed_ != 0) {
      pf::append_op(pf::Op::kRemove, removed_, out_);
      out_.append(removed_names_);
    }
    kept_ = 0;
    removed_ = 0;
    removed_names_.clear();
  }
  void flush() {
    close();
    flush_counts();
  }

  Buffer& out_;
  Embedded insert_;
  Embedded set_;
  std::uint32_t kept_ = 0;
  std::uint32_t removed_ = 0;
  Buffer removed_names_;
};

// The fields that are told as a whole, and where the comparison is.
struct Assigned {
  std::span<const std::string> paths;
  std::string at;  // dotted, with a dot behind; only where there are paths

  bool contains(std::string_view name) const {
    return std::ranges::any_of(paths, [&](const std::string& path) {
      return path.size() == at.size() + name.size() && path.starts_with(at) && path.ends_with(name);
    });
  }
};

// One level of the difference.
class Differ {
 public:
  // The first `known_equal` bytes of the two's elements are the same.
  Differ(DocumentView before, DocumentView after, bool is_array, std::size_t known_equal,
         Assigned& assigned, Buffer& out)
      : before_(before),
        a_(before),
        b_(after),
        is_array_(is_array),
        known_equal_(known_equal),
        assigned_(assigned),
        out_(out),
        steps_(out) {}

  // False where an array has names that the format cannot keep (see invariant 2).
  bool run() {
    while (skip_equal()) {
      if (a_.done()) {
        steps_.insert(b_.bytes());
        b_.next();
      } else if (b_.done()) {
        steps_.remove(a_.element().name(), is_array_);
        a_.next();
      } else if (a_.element().name() == b_.element().name()) {
        change();
      } else if (is_array_) {
        return false;
      } else {
        rename();
      }
    }
    steps_.end();
    return true;
  }

 private:
  // Passes elements that are the same in both; false at the end of the differences.
  bool skip_equal() {
    const Bytes x = a_.rest();
    const Bytes y = b_.rest();
    const std::size_t equal = common_prefix(x, y, std::exchange(known_equal_, 0));
    if (equal == x.size() && equal == y.size()) return false;
    const char* limit = equal_to_ = x.data() + equal;
    std::uint32_t count = 0;
    for (; !a_.done() && a_.position() + a_.bytes().size() <= limit; ++count) a_.next();
    b_.skip(static_cast<std::size_t>(a_.position() - x.data()), count);
    steps_.keep(count);
    return true;
  }

  // The same name, other values.
  void change() {
    const ValueView from = a_.element().value();
    const ValueView to = b_.element().value();
    if (from.type() != to.type() || !pf::is_container(from.type()) || !nested(from, to)) {
      steps_.set(a_.element().name(), is_array_, to);
    }
    a_.next();
    b_.next();
  }

  bool nested(const ValueView& from, const ValueView& to) {
    const std::string_view name = a_.element().name();
    if (!assigned_.paths.empty() && assigned_.contains(name)) return false;
    const bool is_array = from.type() == BsonType::kArray;
    const char* elements = from.data() + 4;
    const std::size_t known =
        equal_to_ > elements ? static_cast<std::size_t>(equal_to_ - elements) : 0;
    Buffer inner;
    const std::size_t outside = assigned_.at.size();
    if (!assigned_.paths.empty()) assigned_.at.append(name).push_back('.');
    const bool kept =
        Differ(from.as_document(), to.as_document(), is_array, known, assigned_, inner).run();
    assigned_.at.resize(outside);
    if (!kept) return false;
    // Those who follow the changes are told what changed inside, unless that is absurdly much.
    constexpr std::size_t kAlwaysInside = 64;
    if (inner.size() > 2 * to.size_bytes() + kAlwaysInside) return false;
    steps_.descend(name, is_array_, is_array);
    out_.append(inner);
    return true;
  }

  void rename() {
    if (!before_names_) before_names_.emplace(before_);
    if (!before_names_->found_from(b_.element().name(), a_.index())) {
      steps_.insert(b_.bytes());
      b_.next();
    } else {  // gone, or moved to a later place, where it will be inserted
      steps_.remove(a_.element().name(), is_array_);
      a_.next();
    }
  }

  DocumentView before_;
  pf::Cursor a_;
  pf::Cursor b_;
  bool is_array_;
  std::size_t known_equal_;
  Assigned& assigned_;
  const char* equal_to_ =
      nullptr;  // in `before`: up to here the last comparison found no difference
  Buffer& out_;
  StepWriter steps_;
  std::optional<LastPlaces> before_names_;
};

}  // namespace

Buffer patch_format::make_diff(DocumentView before, DocumentView after,
                               std::span<const std::string> assigned) {
  Buffer out(1, static_cast<char>(pf::Kind::kDiff));
  Assigned whole{assigned, {}};
  Differ(before, after, false, 0, whole, out).run();
  return out;
}

Buffer make_patch(DocumentView before, DocumentView after) {
  Buffer diff = pf::make_diff(before, after);
  if (diff.size() <= after.size_bytes()) return diff;
  return make_replacement(after);
}

Buffer make_difference(DocumentView before, DocumentView after,
                       std::span<const std::string> assigned) {
  return pf::make_diff(before, after, assigned);
}

Buffer make_replacement(DocumentView after) {
  Buffer replacement(1, static_cast<char>(pf::Kind::kReplace));
  replacement.append(after.bytes());
  return replacement;
}

}  // namespace multifora
