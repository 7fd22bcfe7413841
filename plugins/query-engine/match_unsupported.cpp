// Operators of MongoDB's that this server knows but does not have: JavaScript, text search,
// geometry.
#include <fmt/format.h>

#include "plugins/query-engine/match_parse.h"

namespace multifora::match {

namespace {

Status refuse(const Element& element) {
  return Status(ErrorCode::kCommandNotSupported,
                fmt::format("{} is not supported by this server", element.name()));
}
Status refuse_document(Parser&, const Element& element, Nodes&) {
  return refuse(element);
}
Status refuse_path(Parser&, std::string_view, const Element& element, DocumentView, Nodes&) {
  return refuse(element);
}

constexpr DocumentRow kRows[] = {{"$where", refuse_document}, {"$text", refuse_document}};
constexpr PathRow kPathRows[] = {
    {"$geoWithin", refuse_path},   {"$geoIntersects", refuse_path}, {"$within", refuse_path},
    {"$near", refuse_path},        {"$nearSphere", refuse_path},    {"$geoNear", refuse_path},
    {"$maxDistance", refuse_path}, {"$minDistance", refuse_path},
};

}  // namespace

std::span<const DocumentRow> unsupported_rows() {
  return kRows;
}
std::span<const PathRow> unsupported_path_rows() {
  return kPathRows;
}

}  // namespace multifora::match
