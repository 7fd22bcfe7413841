// The line in which writers wait while they outrun checkpoints. A writer joins it before it has any lock;
// who came first goes first. Only the first one waits for what was charged (see WritePacer), for
// at most WritePacer::wait_max_us() from when its turn has come: so everybody gets on, and however many
// writers there are, together they take no more than the pacer allows. What a writer is going to
// take is charged as it goes, from what its last write took, and put right after its write; what it is
// going to retire, from what recent writes have, counts as pressure already, until it has.
//
// A wait ends early where the pressure does (ask for it with a function that any thread may call), or
// where the writer is interrupted.
//
// Threads: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include "core/base/status.h"
#include "core/store/write_pacer.h"

namespace multifora {

class Interrupt;

class WriterQueue {
 public:
  // Of what there is, and of writers that have had their turn and are going to retire so many bytes.
  using Pressure = std::function<double(std::uint64_t retiring_bytes)>;

  // From when a writer may write until it is through, with or without having written.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&& other) noexcept;
    ~Turn() { end(); }
    // By this thread: the write has taken so much space, and retired so much.
    void wrote(std::uint64_t taken_bytes, std::uint64_t retired_bytes);

   private:
    friend class WriterQueue;
    Turn(WriterQueue* queue, std::uint64_t charged_bytes, std::uint64_t retiring_bytes)
        : queue_(queue), charged_bytes_(charged_bytes), retiring_bytes_(retiring_bytes) {}
    void end();
    WriterQueue* queue_ = nullptr;
    std::uint64_t charged_bytes_ = 0;
    std::uint64_t retiring_bytes_ = 0;
  };

  // `waits` is called when a writer is going to wait, without any lock.
  WriterQueue(Pressure pressure, std::function<void()> waits)
      : pressure_(std::move(pressure)), waits_(std::move(waits)) {}

  // Returns when this thread may write, or with what `interrupt` (may be null) says.
  Result<Turn> pass(Interrupt* interrupt);
  // The pressure may have gone: the first in line looks.
  void ease();

  struct Report {
    std::uint64_t waits = 0;      // writers that had to wait
    std::uint64_t waited_us = 0;  // in all
    std::uint64_t waiting = 0;    // now
  };
  Report report() const;

 private:
  struct Waiter {
    std::condition_variable wake;
  };
  using Lock = std::unique_lock<std::mutex>;
  Status wait_in_line(Lock& hold, Waiter& self, std::uint64_t owed_bytes, Interrupt* interrupt,
                      double* pressed);

  double pressure() const { return pressure_(retiring_bytes_); }
  void charge(std::uint64_t bytes);

  const Pressure pressure_;
  const std::function<void()> waits_;
  std::atomic<std::uint64_t> retiring_bytes_{0};  // by writers whose turn it is
  std::atomic<std::uint64_t> usually_retired_bytes_{0};  // by a recent write
  mutable std::mutex mutex_;
  WritePacer pacer_;
  std::list<Waiter*> line_;
  std::uint64_t waits_count_ = 0;
  std::uint64_t waited_us_ = 0;
};

}  // namespace multifora
