// Internal to patches: reading one, checked against the document that it is for.
#pragma once

#include "core/bson/patch_format.h"

namespace multifora::patch_format {

inline constexpr std::size_t kSizeMax = limits::kDocumentSizeMax + limits::kDocumentSizeSlack;

inline std::unexpected<Status> malformed() {
  return fail(ErrorCode::kInvalidBSON, "malformed patch");
}

// Walks the steps of every level over the old document's elements, checks them, and tells `Sink`
// what becomes of them: kept(bytes of whole elements), inserted(bytes), set(name, value), and around
// the steps of a nested level s = enter(element) and leave(s).
template <class Sink>
class Walker {
 public:
  Walker(PatchReader& reader, Sink& sink) : reader_(reader), sink_(sink) {}

  void level(Cursor cursor, bool is_array, int depth) {
    bool removed = false;
    while (reader_.ok()) {
      const auto [op, count] = reader_.step();
      if (!count_fits(op, count)) return reader_.fail();
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
          descend(cursor, is_array, count == 1, depth);
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
    for (; count > 0; --count) {
      if (cursor.done()) return reader_.fail();
      if (!is_array && reader_.name() != cursor.element().name()) return reader_.fail();
      cursor.next();
    }
    if (is_array && !cursor.done()) reader_.fail();
  }

  void insert(Cursor& cursor, bool is_array, int depth) {
    const DocumentView elements = reader_.document(kDepthMax + 1 - depth);
    if (elements.empty() || (is_array && !cursor.done())) return reader_.fail();
    for (Cursor at(elements); !at.done(); at.next()) sink_.inserted(at.bytes());
  }

  void set(Cursor& cursor, bool is_array, int depth) {
    const DocumentView values = reader_.document(kDepthMax + 1 - depth);
    if (values.empty()) return reader_.fail();
    for (const Element& value : values) {
      if (cursor.done()) return reader_.fail();
      const std::string_view name = cursor.element().name();
      if (value.name() != (is_array ? std::string_view() : name)) return reader_.fail();
      sink_.set(name, value.value());
      cursor.next();
    }
  }

  void descend(Cursor& cursor, bool is_array, bool into_array, int depth) {
    if (cursor.done() || depth >= kDepthMax) return reader_.fail();
    const Element element = cursor.element();
    if (element.type() != (into_array ? BsonType::kArray : BsonType::kObject)) return reader_.fail();
    if (!is_array && reader_.name() != element.name()) return reader_.fail();
    const auto state = sink_.enter(element);
    level(Cursor(element->as_document()), into_array, depth + 1);
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
  return reader.ok() && (*kind == Kind::kReplace || *kind == Kind::kDiff) &&
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
