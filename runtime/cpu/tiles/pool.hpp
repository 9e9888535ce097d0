// Pool: parallel loops of one CPU engine over ranges of fixed length, and sums over them whose
// order does not depend on the threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "../../../codegen/precision.hpp"
#include "../../../ir/machine/parallel.hpp"

namespace topograd::runtime::cpu {

using codegen::Bits;

/// A number of threads converts to it.
struct CpuWork {
  // NOLINTNEXTLINE(google-explicit-constructor)
  CpuWork(int of_threads = 0, Bits of_bits = Bits::native) : threads(of_threads), bits(of_bits) {}
  int threads;  ///< 0 = all
  Bits bits;    ///< of factors
};

/// Sums recursively by halves; the order depends on the length alone.
double pairwise_sum(std::span<const double> values);

class Pool {
 public:
  /// Uses `threads` of TBB's pool, 0 = all; never more than the machine has.
  explicit Pool(int threads)
      : threads_(threads > 0 ? std::min(threads, ir::pool_threads()) : ir::pool_threads()),
        arena_(threads_) {}

  int threads() const { return threads_; }

  /// Calls f(begin, end) for ranges [0, grain), [grain, 2 grain), ... of [0, count), in any order.
  template <class F>
  void for_ranges(std::size_t count, std::size_t grain, const F& f) {
    const std::size_t ranges = (count + grain - 1) / grain;
    const auto one = [&](std::size_t k) { f(k * grain, std::min(count, (k + 1) * grain)); };
    if (ranges <= 1 || threads() == 1) {
      for (std::size_t k = 0; k < ranges; ++k) one(k);
      return;
    }
    arena_.execute([&] { ir::parallel_for(std::size_t{0}, ranges, one); });
  }

  /// Sum of f(begin, end) over the same ranges, combined in fixed order.
  template <class F>
  double sum_ranges(std::size_t count, std::size_t grain, const F& f) {
    const auto one = [&](std::size_t begin, std::size_t end) { return std::array{f(begin, end)}; };
    return sums_of_ranges<1>(count, grain, one)[0];
  }

  /// N sums at once; f returns an array of them.
  template <std::size_t N, class F>
  std::array<double, N> sums_of_ranges(std::size_t count, std::size_t grain, const F& f) {
    const std::array<std::vector<double>, N> partial = collect_ranges<N>(count, grain, f);
    std::array<double, N> total;
    for (std::size_t k = 0; k < N; ++k) total[k] = pairwise_sum(partial[k]);
    return total;
  }

  /// The numbers that are summed, in N columns with a number for each range.
  template <std::size_t N, class F>
  std::array<std::vector<double>, N> collect_ranges(std::size_t count, std::size_t grain,
                                                    const F& f) {
    std::array<std::vector<double>, N> columns;
    for (std::vector<double>& column : columns) column.resize((count + grain - 1) / grain);
    for_ranges(count, grain, [&](std::size_t begin, std::size_t end) {
      const std::array<double, N> numbers = f(begin, end);
      for (std::size_t k = 0; k < N; ++k) columns[k][begin / grain] = numbers[k];
    });
    return columns;
  }

 private:
  int threads_;
  ir::Arena arena_;
};

/// Bytes per second, read and written, of a copy larger than all caches by the pool's threads: the
/// median of a few. Times of the interpreter are compared to it. Cost: 128 MiB for about a tenth of
/// a second. Throws std::bad_alloc.
double copy_rate(Pool& pool);

}  // namespace topograd::runtime::cpu
