// Fail points: named places where a test makes the server misbehave, set by configureFailPoint.
//
// The service exists only in a process that was started with test commands on; who has a fail point
// declares it while registering, and asks it at the place:
//
//   if (auto* points = host.service<FailPoints>()) points->declare("name", check);
//   ...
//   if (points != nullptr && points->any())
//     if (const auto hit = points->hit("name")) ... hit->view() is the point's data
//
// Any thread may call, after declare().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/bson/view.h"

namespace multifora {

class FailPoints {
 public:
  using Data = std::shared_ptr<const OwnedDocument>;
  // Checks a fail point's data when it is set.
  using CheckData = Status (*)(DocumentView data);

  // Before the host is frozen. Declaring a name again changes nothing.
  void declare(std::string_view name, CheckData check);

  // mode: "off", "alwaysOn", {times: n}, {skip: n} or {activationProbability: p}. Returns how often
  // the point was met while it was on. FailPointSetFailed for an unknown name, BadValue and
  // TypeMismatch for what is no mode; the check's failure for its data.
  Result<std::int64_t> configure(std::string_view name, const ValueView& mode, DocumentView data);

  // Is any point on? One load, so that a place that is passed often costs nothing.
  bool any() const { return active_.load(std::memory_order_relaxed) != 0; }
  // The point's data where it is on and strikes now; null otherwise. `concerns` says whether the
  // point means the present case: only then it is counted.
  Data hit(std::string_view name, const std::function<bool(DocumentView data)>& concerns = nullptr);

 private:
  enum class Mode { kOff, kAlwaysOn, kTimes, kSkip, kRandom };
  struct Point {
    CheckData check = nullptr;
    Mode mode = Mode::kOff;
    std::int64_t left = 0;    // strikes to come (kTimes), or to leave out (kSkip)
    double probability = 0;
    std::int64_t met = 0;
    Data data;
  };
  static Status parse_mode(const ValueView& mode, Point& out);
  void set_mode(Point& point, Mode mode);

  std::atomic<int> active_{0};
  std::mutex mutex_;
  std::map<std::string, Point, std::less<>> points_;
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace multifora
