// Fourier transforms of tensors on the CPU, by KissFFT or, in a build with TOPOGRAD_FFTW, by FFTW:
// nanoseconds per complex number.
//
//   bench_fft [REPEATS]
#include "../ops/tensor/operations.hpp"
#include "../ops/tensor/tensor.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  using namespace topograd::ops;
  const int repeats = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 9;
  constexpr std::int64_t kNumbers = 1 << 20;
  std::printf("%10s %10s %10s\n", "length", "f32", "f64");
  for (const std::int64_t n : {64, 256, 1000, 1024, 1009, 4096, 16'807, 65'536, 1 << 20, 999'983}) {
    std::printf("%10lld", static_cast<long long>(n));
    const std::int64_t rows = std::max<std::int64_t>(1, kNumbers / n);
    for (const Type type : {Type::f32, Type::f64}) {
      const Tensor z = randn({rows, n, 2}, 1, type).evaluate();
      double best = HUGE_VAL;
      for (int k = 0; k < repeats; ++k) {
        const auto begin = std::chrono::steady_clock::now();
        fft(z).evaluate();
        const std::chrono::duration<double, std::nano> time =
            std::chrono::steady_clock::now() - begin;
        best = std::min(best, time.count());
      }
      std::printf(" %10.1f", best / static_cast<double>(rows * n));
    }
    std::printf("\n");
  }
}
