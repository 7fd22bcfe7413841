// What a fuzzer of the store does with a database whose files may be damaged: everything that a command
// could, in an order and with arguments that the input chooses. Errors are expected; nothing may end
// the process or go on for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/store/store.h"

namespace multifora::fuzz {

// Choices made by an input: its bytes from the last to the first, then numbers that follow from all
// of them. The same input makes the same choices.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size);
  std::uint64_t next();
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
  std::uint64_t state_ = 0xcbf29ce484222325;
};

// Documents of the bench's collections: many sizes, fields of every type, arrays.
OwnedDocument make_document(int id);

// Fills database x: collections of several kinds, changed in every way that is logged.
void make_varied(Store& store);

// One action on an open store. `reopen` closes the store and opens what its files hold; null where
// that is refused.
using Reopen = std::function<std::unique_ptr<Store>(std::unique_ptr<Store>)>;
void act(std::unique_ptr<Store>& store, Choices& choices, const Reopen& reopen);

// Index specifications of every kind that the bench has; a number past the last begins anew.
OwnedDocument index_spec(std::uint64_t number);
inline constexpr std::uint64_t kIndexSpecs = 9;
Result<IndexBuildResult> build_index(Store& store, const std::string& ns, std::uint64_t number);

}  // namespace multifora::fuzz
