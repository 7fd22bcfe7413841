// The read and write concerns of requests that give none, as setDefaultRWConcern left them. Who keeps
// them (command-diagnostic) implements this; the dispatcher asks. A service of the PluginHost; any
// thread may call.
#pragma once

#include <cstdint>
#include <memory>

#include "core/bson/view.h"

namespace multifora {

class Store;

class DefaultConcerns {
 public:
  struct Values {
    OwnedDocument read;   // empty: the implicit one
    OwnedDocument write;  // empty: the implicit one
    std::uint64_t updated_at = 0;  // cluster time
    std::int64_t updated_ms = 0;   // wall clock
  };
  virtual ~DefaultConcerns() = default;
  // Null where nobody ever set any.
  virtual std::shared_ptr<const Values> get(Store& store) = 0;
};

}  // namespace multifora
