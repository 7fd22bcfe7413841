// What was retired and waits until nothing can see it, oldest generation first: pages, and the
// record chunks that have pending ranges. Owned by the pager, used under its allocator mutex.
#pragma once

#include <deque>
#include <vector>

#include "core/storage/types.h"

namespace multifora {

class RetiredQueue {
 public:
  void push_page(Generation generation, PageId id) {
    batch(generation).pages.push_back(id);
    ++page_count_;
  }
  // Once a generation and chunk is enough; more do no harm.
  void push_chunk(Generation generation, std::uint64_t chunk) {
    batch(generation).chunks.push_back(chunk);
  }

  // Takes one entry of a generation <= `limit`; false: there is none.
  bool pop(Generation limit, bool* is_page, std::uint64_t* page_or_chunk) {
    while (!batches_.empty() && batches_.front().generation <= limit) {
      Batch& front = batches_.front();
      std::vector<std::uint64_t>& from = front.pages.empty() ? front.chunks : front.pages;
      if (!from.empty()) {
        *is_page = &from == &front.pages;
        *page_or_chunk = from.back();
        from.pop_back();
        if (*is_page) --page_count_;
        return true;
      }
      batches_.pop_front();
    }
    return false;
  }

  std::uint64_t page_count() const { return page_count_; }

 private:
  struct Batch {
    Generation generation = 0;
    std::vector<PageId> pages;
    std::vector<std::uint64_t> chunks;
  };
  Batch& batch(Generation generation) {
    if (batches_.empty() || batches_.back().generation != generation)
      batches_.push_back({generation, {}, {}});
    return batches_.back();
  }

  std::deque<Batch> batches_;
  std::uint64_t page_count_ = 0;
};

}  // namespace multifora
