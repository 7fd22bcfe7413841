// A collation over ICU: MongoDB's collation document, checked and completed with the locale's own
// defaults, and the collator that it describes. Immutable; any thread.
#pragma once

#include <memory>

#include <unicode/coll.h>

#include "core/base/status.h"
#include "core/bson/collator.h"
#include "core/plugin/host.h"

namespace multifora {

class IcuCollator final : public Collator {
 public:
  IcuCollator(std::unique_ptr<icu::Collator> collator, OwnedDocument spec)
      : collator_(std::move(collator)), spec_(std::move(spec)) {}
  int compare(std::string_view a, std::string_view b) const override;
  void append_sort_key(std::string_view text, Buffer& out) const override;
  DocumentView spec() const override { return spec_.view(); }

 private:
  std::unique_ptr<icu::Collator> collator_;
  OwnedDocument spec_;
};

class IcuCollatorFactory final : public CollatorFactory {
 public:
  // Null for {locale: "simple"}. BadValue, TypeMismatch, 40414, 40415 as MongoDB.
  Result<std::shared_ptr<const Collator>> make(DocumentView spec) const override;
};

}  // namespace multifora
