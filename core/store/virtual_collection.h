// Collections without records in the data file: what a plugin shows as one (the log of operations). They
// are read like any other; whatever would change them is refused. No collection of theirs may be made
// under their names.
//
// A service of the PluginHost, filled while plugins register; afterwards any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/store/collection.h"
#include "core/store/store.h"

namespace multifora {

// Ids of virtual collections begin here; others never come so far.
inline constexpr CollectionId kVirtualCollectionIdMin = 0xffff0000u;

class VirtualCollection {
 public:
  virtual ~VirtualCollection() = default;
  // The same object each time.
  virtual std::shared_ptr<const CollectionInfo> info() const = 0;
  virtual Result<std::unique_ptr<CollectionView>> open(Store& store) const = 0;
  virtual Store::CollectionStats stats(const Store& store) const = 0;
};

class VirtualCollections {
 public:
  void add(std::unique_ptr<const VirtualCollection> collection) {
    all_.push_back(std::move(collection));
  }
  const VirtualCollection* find(std::string_view ns) const {
    for (const auto& one : all_)
      if (one->info()->ns == ns) return one.get();
    return nullptr;
  }
  const VirtualCollection* find(CollectionId id) const {
    for (const auto& one : all_)
      if (one->info()->id == id) return one.get();
    return nullptr;
  }
  const std::vector<std::unique_ptr<const VirtualCollection>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<const VirtualCollection>> all_;
};

}  // namespace multifora
