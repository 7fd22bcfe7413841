// Index specifications: MongoDB's rules that hold for every kind, and the comparison of a wanted
// index with those that exist. Rules of one kind live in the kind (IndexKind::normalize).
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/bson/view.h"
#include "core/plugin/index.h"

namespace multifora {

class PluginHost;
struct CollectionInfo;

struct NormalizedIndexSpec {
  OwnedDocument spec;  // as listIndexes shows it, without `ns`
  const IndexKind* kind = nullptr;
};

// Checks `spec` as createIndexes takes it: key (object, not empty, values non-zero numbers or a
// registered kind's word, no empty or $-prefixed path parts, no duplicates; 67, 2, 14), name (made
// from the key where absent), unknown options (197), _id rules, collation (the collection's default
// where absent), partialFilterExpression (compiles), v; then chooses the kind and lets it normalise.
Result<NormalizedIndexSpec> normalize_index_spec(const PluginHost& host, const CollectionInfo& info,
                                                 DocumentView spec);

enum class IndexSpecRelation { kDifferent, kSame };
// kSame: the wanted index exists already. IndexOptionsConflict (85) / IndexKeySpecsConflict (86) as
// MongoDB where it clashes with `existing`.
Result<IndexSpecRelation> relate_index_specs(DocumentView existing, DocumentView wanted);

// What an Index is opened with.
Result<IndexSpec> make_index_spec(const PluginHost& host, const CollectionInfo& info,
                                  DocumentView spec);

// {v: 2, key: {_id: 1}, name: "_id_"}, with the collection's collation.
OwnedDocument id_index_spec(const CollectionInfo& info);

}  // namespace multifora
