// Patches told without the document that they are for, and as change streams report them. The format
// is written down at the top of patch.cpp.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "core/bson/builder.h"
#include "core/bson/patch.h"
#include "core/bson/patch_walker.h"

namespace multifora {

namespace pf = patch_format;

namespace {

void visit_level(pf::PatchReader& reader, PatchVisitor& visitor, bool is_array, int depth) {
  std::size_t index = 0;
  bool removed = false;
  while (reader.ok()) {
    const auto [op, count] = reader.step();
    if (!pf::count_fits(op, count) || (is_array && removed && op != pf::Op::kEnd))
      return reader.fail();
    switch (op) {
      case pf::Op::kEnd:
        return;
      case pf::Op::kKeep:
        index += count;
        break;
      case pf::Op::kRemove:
        removed = true;
        if (is_array) visitor.truncated(index);
        for (std::uint32_t i = 0; !is_array && i < count && reader.ok(); ++i)
          if (const std::string_view name = reader.name(); reader.ok()) visitor.removed(name);
        break;
      case pf::Op::kInsert:
      case pf::Op::kSet: {
        const DocumentView values = reader.document(pf::kDepthMax + 1 - depth);
        if (values.empty()) return reader.fail();
        for (const Element& value : values) {
          const std::string_view name = is_array ? std::string_view() : value.name();
          if (op == pf::Op::kSet)
            visitor.set(name, index++, value.value());
          else
            visitor.inserted(name, index++, value.value());
        }
        break;
      }
      case pf::Op::kDescend: {
        if (depth >= pf::kDepthMax) return reader.fail();
        const std::string_view name = is_array ? std::string_view() : reader.name();
        if (!reader.ok()) return;
        visitor.enter(name, index++, count == 1);
        visit_level(reader, visitor, count == 1, depth + 1);
        if (reader.ok()) visitor.leave();
        break;
      }
    }
  }
}

bool is_number(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Writes what a change stream says of an update. Paths can make that far longer than the patch, so
// it stops growing at the size of a document.
class Describer final : public PatchVisitor {
 public:
  Describer() : levels_(1) {}

  void removed(std::string_view name) override { levels_.back().removed.push_back(name); }
  void truncated(std::size_t size) override {
    if (!grow(path_.size())) return;
    DocumentBuilder entry = truncated_.object();
    entry.append("field", path_).append("newSize", static_cast<std::int32_t>(size));
    note_path();
  }
  void inserted(std::string_view name, std::size_t index, const ValueView& value) override {
    if (!levels_.back().array) levels_.back().inserted.insert(name);
    set(name, index, value);
  }
  void set(std::string_view name, std::size_t index, const ValueView& value) override {
    const std::size_t length = push(name, index);
    if (grow(path_.size() + value.size_bytes())) updated_.append(path_, value);
    note_path();
    pop(length);
  }
  void enter(std::string_view name, std::size_t index, bool array) override {
    const std::size_t length = push(name, index);
    Level& level = levels_.emplace_back();
    level.array = array;
    level.outer_length = length;
  }
  void leave() override {
    end_level();
    pop(levels_.back().outer_length);
    levels_.pop_back();
  }

  bool too_large() const { return size_ > pf::kSizeMax; }
  OwnedDocument finish(bool disambiguate) && {
    end_level();
    const OwnedDocument updated = std::move(updated_).finish();
    const OwnedDocument removed = std::move(removed_).finish();
    const OwnedDocument truncated = std::move(truncated_).finish();
    const OwnedDocument clear = std::move(clear_).finish();
    DocumentBuilder out;
    out.append("updatedFields", updated.view()).append_array("removedFields", removed.view());
    out.append_array("truncatedArrays", truncated.view());
    if (disambiguate) out.append("disambiguatedPaths", clear.view());
    return std::move(out).finish();
  }

 private:
  // A name that is removed and inserted has only moved.
  struct Level {
    bool array = false;
    std::size_t outer_length = 0;
    std::vector<std::string_view> removed;
    std::unordered_set<std::string_view> inserted;
  };
  struct Part {
    std::string_view name;
    std::size_t index = 0;
    bool array = false;
  };

  bool grow(std::size_t bytes) {
    constexpr std::size_t kOverhead = 40;  // of the longest entry: type, length, names, terminators
    size_ += bytes + kOverhead;
    return !too_large();
  }

  // Appends to the path; returns its old length.
  std::size_t push(std::string_view name, std::size_t index) {
    const std::size_t length = path_.size();
    const bool array = levels_.back().array;
    if (!parts_.empty()) path_.push_back('.');
    path_.append(array ? std::to_string(index) : std::string(name));
    parts_.push_back({name, index, array});
    return length;
  }
  void pop(std::size_t length) {
    path_.resize(length);
    parts_.pop_back();
  }

  // Can the dotted path be taken for another one?
  void note_path() {
    const bool ambiguous = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
      return !part.array && (is_number(part.name) || part.name.find('.') != std::string_view::npos);
    });
    if (!ambiguous || !grow(2 * path_.size() + 16 * parts_.size())) return;
    ArrayBuilder parts = clear_.array(path_);
    for (const Part& part : parts_)
      part.array ? parts.append(static_cast<std::int32_t>(part.index)) : parts.append(part.name);
  }

  void end_level() {
    for (const std::string_view name : levels_.back().removed) {
      if (levels_.back().inserted.contains(name)) continue;
      const std::size_t length = push(name, 0);
      if (grow(path_.size())) removed_.append(std::string_view(path_));
      note_path();
      pop(length);
    }
  }

  DocumentBuilder updated_;
  ArrayBuilder removed_;
  ArrayBuilder truncated_;
  DocumentBuilder clear_;
  std::string path_;
  std::vector<Part> parts_;
  std::vector<Level> levels_;
  std::size_t size_ = 0;
};

}  // namespace

Result<Bytes> patch_replacement(Bytes patch) {
  pf::PatchReader reader(patch);
  pf::Kind kind;
  if (!pf::read_kind(reader, patch, &kind)) return pf::malformed();
  if (kind != pf::Kind::kReplace) return Bytes();
  MULTIFORA_ASSIGN_R(const DocumentView after, pf::read_replacement(reader));
  return after.bytes();
}

Status visit_patch(Bytes patch, PatchVisitor& visitor) {
  pf::PatchReader reader(patch);
  pf::Kind kind;
  if (!pf::read_kind(reader, patch, &kind) || kind != pf::Kind::kDiff)
    return pf::malformed().error();
  visit_level(reader, visitor, false, 1);
  return reader.ok() && reader.at_end() ? Status() : pf::malformed().error();
}

Result<OwnedDocument> describe_patch(Bytes patch, bool disambiguate) {
  Describer describer;
  MULTIFORA_TRY_R(visit_patch(patch, describer));
  if (describer.too_large())
    return fail(ErrorCode::kBSONObjectTooLarge, "the description of an update is too large");
  return std::move(describer).finish(disambiguate);
}

}  // namespace multifora
