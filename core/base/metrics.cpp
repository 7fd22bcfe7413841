#include "core/base/metrics.h"

#include "core/base/assert.h"

namespace multifora {

// ---- Registration ----

MetricsRegistry::Registration::Registration(MetricsRegistry* registry, std::string key)
    : registry_(registry), key_(std::move(key)) {}

MetricsRegistry::Registration::Registration(Registration&& other) noexcept
    : registry_(std::exchange(other.registry_, nullptr)), key_(std::move(other.key_)) {}

MetricsRegistry::Registration& MetricsRegistry::Registration::operator=(
    Registration&& other) noexcept {
  if (this != &other) {
    release();
    registry_ = std::exchange(other.registry_, nullptr);
    key_ = std::move(other.key_);
  }
  return *this;
}

MetricsRegistry::Registration::~Registration() {
  release();
}

void MetricsRegistry::Registration::release() {
  if (registry_ != nullptr) std::exchange(registry_, nullptr)->remove(key_);
}

// ---- MetricsRegistry ----

Counter& MetricsRegistry::counter(std::string_view name, std::string_view help, Labels labels) {
  std::lock_guard lock(mutex_);
  Metric& metric = find_or_add(name, help, std::move(labels), Kind::kCounter);
  if (!metric.counter) metric.counter = std::make_unique<Counter>();
  return *metric.counter;
}

Gauge& MetricsRegistry::gauge(std::string_view name, std::string_view help, Labels labels) {
  std::lock_guard lock(mutex_);
  Metric& metric = find_or_add(name, help, std::move(labels), Kind::kGauge);
  MULTIFORA_ASSERT(!metric.read);
  if (!metric.gauge) metric.gauge = std::make_unique<Gauge>();
  return *metric.gauge;
}

MetricsRegistry::Registration MetricsRegistry::gauge_callback(std::string_view name,
                                                              std::function<double()> read,
                                                              std::string_view help,
                                                              Labels labels) {
  MULTIFORA_ASSERT(read != nullptr);
  std::string key = key_of(name, labels);
  std::lock_guard lock(mutex_);
  Metric& metric = find_or_add(name, help, std::move(labels), Kind::kGauge);
  MULTIFORA_ASSERT(!metric.gauge && !metric.read);
  metric.read = std::move(read);
  return Registration(this, std::move(key));
}

void MetricsRegistry::for_each(const std::function<void(const Sample&)>& visit) const {
  std::lock_guard lock(mutex_);
  for (const auto& [key, metric] : metrics_)
    visit({metric.name, metric.help, metric.labels, metric.kind, metric.value()});
}

double MetricsRegistry::value(std::string_view name, const Labels& labels) const {
  std::lock_guard lock(mutex_);
  const auto found = metrics_.find(key_of(name, labels));
  return found == metrics_.end() ? 0 : found->second.value();
}

double MetricsRegistry::Metric::value() const {
  if (counter) return static_cast<double>(counter->value());
  if (gauge) return static_cast<double>(gauge->value());
  return read();
}

// Separators below every character that a name may hold keep all labels of a name together.
std::string MetricsRegistry::key_of(std::string_view name, const Labels& labels) {
  std::string key(name);
  for (const auto& [label, value] : labels) {
    key.append(1, '\x00').append(label).append(1, '\x01').append(value);
  }
  return key;
}

MetricsRegistry::Metric& MetricsRegistry::find_or_add(std::string_view name, std::string_view help,
                                                      Labels labels, Kind kind) {
  const auto [at, added] = metrics_.try_emplace(key_of(name, labels));
  Metric& metric = at->second;
  if (added) {
    metric.name = name;
    metric.help = help;
    metric.labels = std::move(labels);
    metric.kind = kind;
  }
  MULTIFORA_ASSERT(metric.kind == kind);
  return metric;
}

void MetricsRegistry::remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  metrics_.erase(key);
}

}  // namespace multifora
