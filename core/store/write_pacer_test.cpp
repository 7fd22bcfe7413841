#include "core/store/write_pacer.h"

#include <doctest/doctest.h>

#include <initializer_list>

namespace multifora {

TEST_CASE("write pacer: nobody waits without pressure") {
  WritePacer pacer;
  pacer.charge(100u << 20, 0, 1000);
  CHECK(pacer.debt_us(0, 1000) == 0);
  CHECK(pacer.debt_us(0.5, 1000) == 0);
}

TEST_CASE("write pacer: waits grow with the pressure and with what was taken") {
  std::int64_t before = 0;
  for (const double pressure : {0.1, 0.4, 0.7, 1.0}) {
    WritePacer pacer;
    pacer.charge(16'384, pressure, 0);
    const std::int64_t wait = pacer.debt_us(pressure, 0);
    CHECK(wait > before);
    CHECK(wait <= WritePacer::wait_max_us(16'384));
    before = wait;
  }
  CHECK(WritePacer::rate(0) == doctest::Approx(WritePacer::kRateMax));
  CHECK(WritePacer::rate(1) == doctest::Approx(WritePacer::kRateMin));
  CHECK(WritePacer::rate(5) == doctest::Approx(WritePacer::kRateMin));
}

TEST_CASE("write pacer: whatever is owed, one turn is short, and the debt ends") {
  WritePacer pacer;
  for (int i = 0; i < 1000; ++i) pacer.charge(16u << 20, 1, 0);
  CHECK(pacer.debt_us(1, 0) < 1'000'000);
  CHECK(pacer.debt_us(1, 1'000'000) == 0);
  CHECK(WritePacer::wait_max_us(0) == WritePacer::kShortWaitMaxUs);
  CHECK(WritePacer::wait_max_us(1u << 30) == WritePacer::kWaitMaxUs);
  // As soon as the pressure has gone, it is forgotten.
  pacer.charge(16u << 20, 1, 2'000'000);
  CHECK(pacer.debt_us(0, 2'000'000) == 0);
  CHECK(pacer.debt_us(1, 2'000'000) == 0);
}

}  // namespace multifora
