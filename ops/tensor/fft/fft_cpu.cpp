// Internal: Fourier transforms on the CPU: rows side by side.
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "fft_run.hpp"
#include "row_transform.hpp"

#include <algorithm>
#include <cstdint>

namespace topograd::ops::detail {
namespace {

/// Numbers that one range of rows should have at least.
constexpr std::uint64_t kNumbersOfARange = 16384;

/// Calls f(transform, begin, end) for ranges of rows.
template <class T, class F>
void for_rows(const FftRows& fft, RowKind kind, const F& f) {
  runtime::cpu::Pool pool(0);
  const std::size_t grain = std::max<std::uint64_t>(1, kNumbersOfARange / (2 * fft.length));
  pool.for_ranges(fft.rows, grain, [&](std::size_t begin, std::size_t end) {
    RowTransform<T> transform(fft.length, kind);
    f(transform, begin, end);
  });
}

template <class T>
void run_rows(const FftRows& fft) {
  const T* const from = host_read<T>(fft.source);
  T* const to = host_write<T>(fft.target);
  const std::uint64_t size = 2 * fft.length;
  for_rows<T>(fft, fft.inverse ? RowKind::inverse : RowKind::forward,
              [&](RowTransform<T>& transform, std::size_t begin, std::size_t end) {
                for (std::size_t row = begin; row < end; ++row)
                  transform.run(from + row * size, to + row * size);
                if (fft.factor == 1) return;
                for (std::size_t k = begin * size; k < end * size; ++k)
                  to[k] *= static_cast<T>(fft.factor);
              });
}

template <class T>
void run_real_rows(const FftRows& fft) {
  const T* const from = host_read<T>(fft.source);
  T* const to = host_write<T>(fft.target);
  for_rows<T>(fft, RowKind::real,
              [&](RowTransform<T>& transform, std::size_t begin, std::size_t end) {
                for (std::size_t row = begin; row < end; ++row)
                  transform.run(from + row * 2 * fft.length, to + row * 2 * (fft.length + 1));
              });
}

}  // namespace

void rfft_on_cpu(const FftRows& fft) {
  fft.type == Type::f64 ? run_real_rows<double>(fft) : run_real_rows<float>(fft);
}

void fft_on_cpu(const FftRows& fft) {
  fft.type == Type::f64 ? run_rows<double>(fft) : run_rows<float>(fft);
}

std::vector<std::complex<double>> fft_of(const std::vector<std::complex<double>>& numbers) {
  std::vector<std::complex<double>> out(numbers.size());
  RowTransform<double>(numbers.size(), RowKind::forward)
      .run(reinterpret_cast<const double*>(numbers.data()), reinterpret_cast<double*>(out.data()));
  return out;
}

}  // namespace topograd::ops::detail
