// Runs a fuzz target (fuzz.h) in one of two ways:
//  - with clang's libFuzzer (MULTIFORA_LIBFUZZER): libFuzzer has main(); this file only adds the
//    target's seeds to what it mutates;
//  - alone: a plain mutation fuzzer, without coverage feedback, for any compiler.
//
//   fuzz_x [--seconds=N] [--seed=N] [--write-corpus=DIR] [FILE ...]
//
// With files, each is run once and nothing else happens. The random seed is printed; the input that
// ended the process, or did not come to an end, is left in crash-<program>.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>

#include "tests/fuzz/fuzz.h"

namespace multifora::fuzz {

void failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "FUZZ_CHECK(%s) failed at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace multifora::fuzz

#ifdef MULTIFORA_LIBFUZZER

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);

// Now and then a seed takes the input's place, so that an empty corpus starts from good inputs.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned random) {
  static const std::vector<std::string> seeds = multifora::fuzz::seeds();
  if (!seeds.empty() && random % 64 == 0) {
    const std::string& seed = seeds[random / 64 % seeds.size()];
    size = std::min(seed.size(), size_max);
    std::memcpy(data, seed.data(), size);
  }
  return LLVMFuzzerMutate(data, size, size_max);
}

#else

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using namespace multifora;

constexpr std::size_t kInputSizeMax = 1 << 16;

const std::string* current_input = nullptr;
std::string crash_path;

void keep_crash() {
  if (current_input == nullptr) return;
  if (std::FILE* file = std::fopen(crash_path.c_str(), "wb")) {
    std::fwrite(current_input->data(), 1, current_input->size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in %s\n", crash_path.c_str());
  }
}

void on_signal(int signal) {
  keep_crash();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// An input that takes longer is one that never ends.
constexpr unsigned kInputSecondsMax = 60;

void run(const std::string& input) {
  current_input = &input;
  ::alarm(kInputSecondsMax);
  // Memory of exactly its size, so that a sanitizer sees a read too far.
  const std::vector<std::uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  current_input = nullptr;
}

class Mutator {
 public:
  Mutator(std::uint64_t seed, std::vector<std::string> pool)
      : engine_(seed), pool_(std::move(pool)) {
    if (pool_.empty()) pool_.emplace_back();
  }

  std::string next() {
    std::string input = pool_[below(pool_.size())];
    for (std::uint64_t n = 1 + below(6); n > 0; --n) mutate(input);
    if (input.size() > kInputSizeMax) input.resize(kInputSizeMax);
    // Mutants of mutants: some inputs go into the pool, in the place of earlier ones.
    if (below(50) == 0) {
      if (pool_.size() < 4096) {
        pool_.push_back(input);
      } else {
        pool_[pool_.size() / 2 + below(pool_.size() / 2)] = input;
      }
    }
    return input;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : engine_() % n; }

  void mutate(std::string& s) {
    const std::size_t at = below(s.size());
    switch (below(9)) {
      case 0:
        if (!s.empty())
          s[at] = static_cast<char>(static_cast<unsigned char>(s[at]) ^ 1u << below(8));
        break;
      case 1:
        if (!s.empty()) s[at] = static_cast<char>(engine_());
        break;
      case 2:
        if (!s.empty()) s[at] = interesting_byte();
        break;
      case 3:
        s.insert(at, 1 + below(4), interesting_byte());
        break;
      case 4:
        s.erase(at, 1 + below(8));
        break;
      case 5:
        change_number(s, at);
        break;
      case 6: {  // a piece of itself elsewhere
        const std::string piece = s.substr(at, 1 + below(16));
        s.insert(below(s.size() + 1), piece);
        break;
      }
      case 7:
        splice(s, at);
        break;
      default:
        s.resize(below(s.size() + 1));
        break;
    }
  }

  char interesting_byte() {
    static constexpr unsigned char kBytes[] = {0,   1,   2,    3,    4,    5,    8,   16,
                                               31,  32,  0x7f, 0x80, 0xfe, 0xff, '"', '$',
                                               '{', '}', '[',  ']',  '\\', ',',  '.', '-'};
    return static_cast<char>(kBytes[below(std::size(kBytes))]);
  }

  // Lengths: a little more or less, or an extreme.
  void change_number(std::string& s, std::size_t at) {
    if (s.size() < 4) return;
    at = std::min(at, s.size() - 4);
    std::uint32_t number;
    std::memcpy(&number, s.data() + at, 4);
    static constexpr std::array<std::uint32_t, 6> kExtremes = {0,          1,          0x7fffffff,
                                                               0x80000000, 0xffffffff, 5};
    number = below(2) == 0 ? kExtremes[below(kExtremes.size())]
                           : number + static_cast<std::uint32_t>(below(9)) - 4;
    std::memcpy(s.data() + at, &number, 4);
  }

  void splice(std::string& s, std::size_t at) {
    const std::string& other = pool_[below(pool_.size())];
    s = s.substr(0, at) + other.substr(below(other.size()));
  }

  std::mt19937_64 engine_;
  std::vector<std::string> pool_;
};

struct Options {
  double seconds = 5;
  std::uint64_t seed = std::random_device()();
  std::string corpus_dir;
  std::vector<std::string> files;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view name) {
      return argument.starts_with(name) ? argv[i] + name.size() : nullptr;
    };
    if (const char* seconds = value("--seconds=")) {
      options.seconds = std::strtod(seconds, nullptr);
    } else if (const char* seed = value("--seed=")) {
      options.seed = std::strtoull(seed, nullptr, 10);
    } else if (const char* dir = value("--write-corpus=")) {
      options.corpus_dir = dir;
    } else {
      options.files.emplace_back(argument);
    }
  }
  return options;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_corpus(const std::string& dir) {
  std::filesystem::create_directories(dir);
  std::size_t n = 0;
  for (const std::string& seed : fuzz::seeds()) {
    std::ofstream(std::filesystem::path(dir) / ("seed-" + std::to_string(n++)), std::ios::binary)
        << seed;
  }
}

void fuzz_for(double seconds, std::uint64_t seed) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const std::vector<std::string> seeds = fuzz::seeds();
  for (const std::string& input : seeds) run(input);
  Mutator mutator(seed, seeds);
  std::uint64_t runs = 0;
  for (; Clock::now() < end; ++runs) run(mutator.next());
  std::printf("%llu inputs, no failure\n", static_cast<unsigned long long>(runs + seeds.size()));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  crash_path = "crash-" + std::filesystem::path(argv[0]).filename().string();
  std::signal(SIGABRT, on_signal);
  std::signal(SIGSEGV, on_signal);
  std::signal(SIGBUS, on_signal);
  std::signal(SIGALRM, on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(keep_crash);
  if (!options.corpus_dir.empty()) {
    write_corpus(options.corpus_dir);
    return 0;
  }
  for (const std::string& file : options.files) run(read_file(file));
  if (!options.files.empty()) return 0;
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  fuzz_for(options.seconds, options.seed);
  return 0;
}

#endif  // MULTIFORA_LIBFUZZER
