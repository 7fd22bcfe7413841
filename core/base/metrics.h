// Metrics: a registry of named counters and gauges, kept as atomics and read by whoever exports
// them (serverStatus, the HTTP plugin). It knows no export format.
//
// A metric is identified by its name and its labels. Names are snake_case with the unit last
// ("wal_bytes_total", "connections_current"); labels are pairs such as {"command", "find"}.
// Ask for a metric once, keep the reference: it lives as long as the registry, and updating it is
// one relaxed atomic operation from any thread. Registration and for_each take a lock.
// Asking twice gives the same object; asking for the same name as another kind is a bug
// (assertion).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace multifora {

// Only grows.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Goes up and down.
class Gauge {
 public:
  void set(std::int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(std::int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void subtract(std::int64_t n = 1) { value_.fetch_sub(n, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

class MetricsRegistry {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  enum class Kind { kCounter, kGauge };

  // What for_each shows. Views live for the call.
  struct Sample {
    std::string_view name;
    std::string_view help;
    const Labels& labels;
    Kind kind;
    double value;
  };

  // Removes a callback gauge when it is destroyed; waits for a for_each that is calling it.
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();

   private:
    friend class MetricsRegistry;
    Registration(MetricsRegistry* registry, std::string key);
    void release();
    MetricsRegistry* registry_ = nullptr;
    std::string key_;
  };

  MetricsRegistry() = default;
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  // `help` of the first call is kept.
  Counter& counter(std::string_view name, std::string_view help = {}, Labels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help = {}, Labels labels = {});
  // A gauge whose value is asked for when it is read. `read` is called under the registry's lock
  // and must not use the registry. The registry must outlive the Registration. Two at a time under
  // one name and labels is a bug.
  [[nodiscard]] Registration gauge_callback(std::string_view name, std::function<double()> read,
                                            std::string_view help = {}, Labels labels = {});

  // Every metric, ordered by name and then labels.
  void for_each(const std::function<void(const Sample&)>& visit) const;
  // The value of one metric; 0 where there is none. For tests and serverStatus.
  double value(std::string_view name, const Labels& labels = {}) const;

 private:
  struct Metric {
    std::string name;
    std::string help;
    Labels labels;
    Kind kind = Kind::kCounter;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::function<double()> read;
    double value() const;
  };
  static std::string key_of(std::string_view name, const Labels& labels);
  Metric& find_or_add(std::string_view name, std::string_view help, Labels labels, Kind kind);
  void remove(const std::string& key);

  mutable std::mutex mutex_;
  std::map<std::string, Metric> metrics_;  // by key_of(): node-based, so references stay
};

using Metrics = MetricsRegistry;

}  // namespace multifora
