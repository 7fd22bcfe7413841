// Patches as change streams report them. The format is written down at the top of patch.cpp.
#include <unordered_set>
#include <vector>

#include "core/bson/builder.h"
#include "core/bson/patch.h"
#include "core/bson/patch_walker.h"

namespace multifora {

namespace pf = patch_format;

namespace {

// Writes what a change stream says of an update. Paths can make that far longer than the patch, so
// it stops growing at the size of a document.
class Describer {
 public:
  Describer() : names_(1) {}

  void kept(Bytes) {}
  void removed(std::string_view name) { names_.back().removed.push_back(name); }
  void truncated(std::size_t size) {
    if (!grow(path_.size())) return;
    DocumentBuilder entry = truncated_.object();
    entry.append("field", path_).append("newSize", static_cast<std::int32_t>(size));
  }
  void inserted(Bytes, const Element& element, bool is_array, std::size_t index) {
    if (!is_array) names_.back().inserted.insert(element.name());
    set(element.name(), element.value(), is_array, index);
  }
  void set(std::string_view name, const ValueView& value, bool is_array, std::size_t index) {
    const std::size_t length = push(name, is_array, index);
    if (grow(path_.size() + value.size_bytes())) updated_.append(path_, value);
    path_.resize(length);
  }
  std::size_t enter(const Element& element, bool is_array, std::size_t index) {
    const std::size_t length = push(element.name(), is_array, index);
    names_.emplace_back();
    return length;
  }
  void leave(std::size_t path_length) {
    end_level();
    path_.resize(path_length);
  }

  bool too_large() const { return size_ > pf::kSizeMax; }
  OwnedDocument finish() && {
    end_level();
    const OwnedDocument updated = std::move(updated_).finish();
    const OwnedDocument removed = std::move(removed_).finish();
    const OwnedDocument truncated = std::move(truncated_).finish();
    DocumentBuilder out;
    out.append("updatedFields", updated.view()).append_array("removedFields", removed.view());
    out.append_array("truncatedArrays", truncated.view());
    return std::move(out).finish();
  }

 private:
  // The names of one level: one that is removed and inserted has only moved.
  struct Names {
    std::vector<std::string_view> removed;
    std::unordered_set<std::string_view> inserted;
  };

  bool grow(std::size_t bytes) {
    constexpr std::size_t kOverhead = 40;  // of the longest entry: type, length, names, terminators
    size_ += bytes + kOverhead;
    return !too_large();
  }

  // Appends to the path; returns its old length.
  std::size_t push(std::string_view name, bool is_array, std::size_t index) {
    const std::size_t length = path_.size();
    if (names_.size() > 1) path_.push_back('.');
    if (is_array) {
      path_.append(std::to_string(index));
    } else {
      path_.append(name);
    }
    return length;
  }

  void end_level() {
    for (const std::string_view name : names_.back().removed) {
      if (names_.back().inserted.contains(name)) continue;
      const std::size_t length = push(name, false, 0);
      if (grow(path_.size())) removed_.append(std::string_view(path_));
      path_.resize(length);
    }
    names_.pop_back();
  }

  DocumentBuilder updated_;
  ArrayBuilder removed_;
  ArrayBuilder truncated_;
  std::string path_;
  std::vector<Names> names_;
  std::size_t size_ = 0;
};

Result<OwnedDocument> describe(DocumentView before, pf::PatchReader& reader) {
  Describer describer;
  if (!pf::walk(before, reader, describer)) return pf::malformed();
  if (describer.too_large()) {
    return fail(ErrorCode::kBSONObjectTooLarge, "the description of an update is too large");
  }
  return std::move(describer).finish();
}

}  // namespace

Result<PatchDescription> describe_patch(DocumentView before, Bytes patch) {
  pf::PatchReader reader(patch);
  pf::Kind kind;
  if (!pf::read_kind(reader, patch, &kind)) return pf::malformed();
  if (kind == pf::Kind::kReplace) {
    MULTIFORA_ASSIGN_R(const DocumentView after, pf::read_replacement(reader));
    const Buffer diff = pf::make_diff(before, after);
    pf::PatchReader diff_reader(Bytes(diff).substr(1));
    MULTIFORA_ASSIGN_R(OwnedDocument description, describe(before, diff_reader));
    return PatchDescription{std::move(description), true};
  }
  MULTIFORA_ASSIGN_R(OwnedDocument description, describe(before, reader));
  return PatchDescription{std::move(description), false};
}

}  // namespace multifora
