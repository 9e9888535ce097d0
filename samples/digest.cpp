// A user-defined task type that maps bytes to a digest, on one thread and on several.
#include <topograd/api/hybrid.hpp>

#include "sample.hpp"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace tg = topograd;

using Bytes = std::vector<std::uint8_t>;

// FNV-1a, 64 bits, repeated: work without a kernel.
std::uint64_t digest(const Bytes& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (int round = 0; round < 8; ++round)
    for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

static int program(sample::Arguments& arguments) {
  const auto count = arguments.count<std::size_t>(10'000);
  tg::hybrid::Executor executor;
  double sequential_us = 0;
  std::vector<std::uint64_t> expected;
  for (const std::uint64_t threads : {0, 1, 2, 4, 8, 16}) {
    tg::hybrid::Batch<Bytes> batch(
        {.operation = "digest",
         .mode = threads == 0 ? tg::hybrid::BatchMode::sequential : tg::hybrid::BatchMode::parallel,
         .threads = threads});
    for (std::uint64_t id = 0; id < count; ++id)
      batch.add(id, Bytes(1000 + id % 1000, static_cast<std::uint8_t>(id)));
    const double start = executor.scheduler().now();
    const auto results = batch.run(executor, digest);
    const double us = 1e6 * (executor.scheduler().now() - start);

    if (threads == 0) sequential_us = us;
    for (const auto& result : results) {
      if (threads == 0) expected.push_back(result.value);
      if (result.value != expected[result.id]) return 1;
    }
    const std::string how = threads == 0 ? "sequential" : std::to_string(threads) + " threads";
    std::printf("%-12s %8.1f ms, %4.1f x, %.2f µs a digest\n", how.c_str(), 1e-3 * us,
                sequential_us / us, results[0].stats.times.kernel);
  }
  return 0;
}

int main(int argc, char** argv) { return sample::run(argc, argv, "digest [MESSAGES]", program); }
