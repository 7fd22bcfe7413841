#include "core/base/metrics.h"

#include <doctest/doctest.h>

#include <thread>

using namespace multifora;

TEST_CASE("the same name and labels give the same metric") {
  MetricsRegistry metrics;
  Counter& all = metrics.counter("commands_total", "Commands received.");
  Counter& find = metrics.counter("commands_total", "", {{"command", "find"}});
  CHECK(&metrics.counter("commands_total") == &all);
  CHECK(&metrics.counter("commands_total", "", {{"command", "find"}}) == &find);
  CHECK(&all != &find);
  all.add(3);
  find.add();
  CHECK(metrics.value("commands_total") == 3);
  CHECK(metrics.value("commands_total", {{"command", "find"}}) == 1);
  CHECK(metrics.value("commands_total", {{"command", "insert"}}) == 0);
}

TEST_CASE("gauges go both ways") {
  MetricsRegistry metrics;
  Gauge& open = metrics.gauge("connections_current");
  open.add(5);
  open.subtract(7);
  CHECK(metrics.value("connections_current") == -2);
  open.set(11);
  CHECK(open.value() == 11);
}

TEST_CASE("a callback gauge is read when asked for and goes with its registration") {
  MetricsRegistry metrics;
  double size = 1.5;
  {
    const auto registration = metrics.gauge_callback("cache_bytes", [&] { return size; }, "Cache.");
    size = 2.5;
    CHECK(metrics.value("cache_bytes") == 2.5);
    auto moved = metrics.gauge_callback("other_bytes", [] { return 1.0; });
    auto owner = std::move(moved);
    CHECK(metrics.value("other_bytes") == 1);
    owner = MetricsRegistry::Registration();
    CHECK(metrics.value("other_bytes") == 0);
  }
  CHECK(metrics.value("cache_bytes") == 0);
  const auto again = metrics.gauge_callback("cache_bytes", [] { return 4.0; });
  CHECK(metrics.value("cache_bytes") == 4);
}

TEST_CASE("for_each shows everything in order, the labels of a name together") {
  MetricsRegistry metrics;
  metrics.gauge("b").set(2);
  metrics.counter("a", "Help.", {{"x", "2"}}).add(22);
  metrics.counter("a_b").add(9);
  metrics.counter("a", "Help.", {{"x", "1"}}).add(21);
  std::string seen;
  metrics.for_each([&](const MetricsRegistry::Sample& sample) {
    seen += std::string(sample.name);
    for (const auto& [label, value] : sample.labels) seen += "{" + label + "=" + value + "}";
    seen += sample.kind == MetricsRegistry::Kind::kCounter ? " c " : " g ";
    seen += std::to_string(static_cast<int>(sample.value)) + "\n";
  });
  CHECK(seen == "a{x=1} c 21\na{x=2} c 22\na_b c 9\nb g 2\n");
}

TEST_CASE("counters lose nothing between threads") {
  MetricsRegistry metrics;
  const auto work = [&] {
    for (int i = 0; i < 10'000; ++i) metrics.counter("n").add();
  };
  std::thread other(work);
  work();
  other.join();
  CHECK(metrics.value("n") == 20'000);
}
