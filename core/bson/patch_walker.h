// Internal to patches: reading one, checked against the document that it is for. Applying and
// describing differ only in the sink that is told what each step means.
#pragma once

#include "core/bson/patch_format.h"

namespace multifora::patch_format {

inline constexpr std::size_t kSizeMax = limits::kDocumentSizeMax + limits::kDocumentSizeSlack;

inline std::unexpected<Status> malformed() {
  return fail(ErrorCode::kInvalidBSON, "malformed patch");
}

// Walks the steps of every level over the old document's elements, checks them, and tells `Sink`
// what they mean: kept(bytes of whole elements), removed(name) or in an array truncated(new size),
// inserted(bytes, element, is_array, index), set(name, value, is_array, index), and around the
// steps of a nested level s = enter(element, is_array, index) and leave(s).
template <class Sink>
class Walker {
 public:
  Walker(PatchReader& reader, Sink& sink) : reader_(reader), sink_(sink) {}

  void level(Cursor cursor, bool is_array, int depth) {
    bool removed = false;
    while (reader_.ok()) {
      const auto [op, count] = reader_.step();
      const bool counted = op == Op::kKeep || op == Op::kRemove;
      if (counted != (count != 0)) return reader_.fail();
      if (is_array && removed && op != Op::kEnd) return reader_.fail();
      switch (op) {
        case Op::kEnd:
          return sink_.kept(cursor.rest());
        case Op::kKeep:
          keep(cursor, count);
          break;
        case Op::kRemove:
          remove(cursor, is_array, count);
          removed = true;
          break;
        case Op::kInsert:
          insert(cursor, is_array, depth);
          break;
        case Op::kSet:
          set(cursor, is_array, depth);
          break;
        case Op::kDescend:
          descend(cursor, is_array, depth);
          break;
      }
    }
  }

 private:
  void keep(Cursor& cursor, std::uint32_t count) {
    const char* from = cursor.position();
    for (; count > 0; --count) {
      if (cursor.done()) return reader_.fail();
      cursor.next();
    }
    sink_.kept({from, static_cast<std::size_t>(cursor.position() - from)});
  }

  void remove(Cursor& cursor, bool is_array, std::uint32_t count) {
    if (is_array) sink_.truncated(cursor.index());
    for (; count > 0; --count) {
      if (cursor.done()) return reader_.fail();
      if (!is_array) sink_.removed(cursor.element().name());
      cursor.next();
    }
    if (is_array && !cursor.done()) reader_.fail();
  }

  void insert(Cursor& cursor, bool is_array, int depth) {
    const DocumentView elements = reader_.document(kDepthMax + 1 - depth);
    if (elements.empty() || (is_array && !cursor.done())) return reader_.fail();
    std::size_t index = cursor.index();
    for (Cursor at(elements); !at.done(); at.next(), ++index) {
      sink_.inserted(at.bytes(), at.element(), is_array, index);
    }
  }

  void set(Cursor& cursor, bool is_array, int depth) {
    const DocumentView values = reader_.document(kDepthMax + 1 - depth);
    if (values.empty()) return reader_.fail();
    for (const Element& value : values) {
      if (cursor.done() || !value.name().empty()) return reader_.fail();
      sink_.set(cursor.element().name(), value.value(), is_array, cursor.index());
      cursor.next();
    }
  }

  void descend(Cursor& cursor, bool is_array, int depth) {
    if (cursor.done() || depth >= kDepthMax) return reader_.fail();
    const Element element = cursor.element();
    if (!is_container(element.type())) return reader_.fail();
    const auto state = sink_.enter(element, is_array, cursor.index());
    level(Cursor(element->as_document()), element.type() == BsonType::kArray, depth + 1);
    if (!reader_.ok()) return;
    sink_.leave(state);
    cursor.next();
  }

  PatchReader& reader_;
  Sink& sink_;
};

// The first byte and the size of a patch.
inline bool read_kind(PatchReader& reader, Bytes patch, Kind* kind) {
  const std::uint8_t byte = reader.byte();
  *kind = static_cast<Kind>(byte);
  return reader.ok() && byte <= static_cast<std::uint8_t>(Kind::kDiff) &&
         patch.size() <= kSizeMax + 1;
}

inline Result<DocumentView> read_replacement(PatchReader& reader) {
  const DocumentView after = reader.document(kDepthMax);
  if (!reader.ok() || !reader.at_end()) return malformed();
  return after;
}

template <class Sink>
bool walk(DocumentView before, PatchReader& reader, Sink& sink) {
  Walker<Sink>(reader, sink).level(Cursor(before), false, 1);
  return reader.ok() && reader.at_end();
}

}  // namespace multifora::patch_format
