// Internal: Fourier transforms on the CPU, by FFTW.
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "fft_run.hpp"

#include <fftw3.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace topograd::ops::detail {
namespace {

/// FFTW's functions for one precision.
template <class T>
struct Fftw;

template <>
struct Fftw<double> {
  using Plan = fftw_plan;
  using Number = fftw_complex;
  static Plan plan(int n, Number* in, Number* out, int sign) {
    return fftw_plan_dft_1d(n, in, out, sign, FFTW_ESTIMATE | FFTW_UNALIGNED);
  }
  static void run(Plan plan, Number* in, Number* out) { fftw_execute_dft(plan, in, out); }
  static Plan real_plan(int n, double* in, Number* out) {
    return fftw_plan_dft_r2c_1d(n, in, out, FFTW_ESTIMATE | FFTW_UNALIGNED);
  }
  static void run_real(Plan plan, double* in, Number* out) { fftw_execute_dft_r2c(plan, in, out); }
};

template <>
struct Fftw<float> {
  using Plan = fftwf_plan;
  using Number = fftwf_complex;
  static Plan plan(int n, Number* in, Number* out, int sign) {
    return fftwf_plan_dft_1d(n, in, out, sign, FFTW_ESTIMATE | FFTW_UNALIGNED);
  }
  static void run(Plan plan, Number* in, Number* out) { fftwf_execute_dft(plan, in, out); }
  static Plan real_plan(int n, float* in, Number* out) {
    return fftwf_plan_dft_r2c_1d(n, in, out, FFTW_ESTIMATE | FFTW_UNALIGNED);
  }
  static void run_real(Plan plan, float* in, Number* out) { fftwf_execute_dft_r2c(plan, in, out); }
};

enum class Kind : std::uint8_t { forward, inverse, real };

/// Plans are kept for the process. Making a plan is not thread-safe, running it is.
template <class T>
typename Fftw<T>::Plan plan_for(std::uint64_t length, Kind kind) {
  using Number = typename Fftw<T>::Number;
  static std::mutex& mutex = *new std::mutex;
  static auto& plans = *new std::map<std::pair<std::uint64_t, Kind>, typename Fftw<T>::Plan>;
  const std::lock_guard lock(mutex);
  const auto found = plans.find({length, kind});
  if (found != plans.end()) return found->second;
  std::vector<std::complex<T>> in(length), out(length);
  const auto n = static_cast<int>(length);
  Number* const to = reinterpret_cast<Number*>(out.data());
  const auto plan = kind == Kind::real
                        ? Fftw<T>::real_plan(n, reinterpret_cast<T*>(in.data()), to)
                        : Fftw<T>::plan(n, reinterpret_cast<Number*>(in.data()), to,
                                        kind == Kind::inverse ? FFTW_BACKWARD : FFTW_FORWARD);
  return plans.emplace(std::pair(length, kind), plan).first->second;
}

template <class T>
void run_rows(const FftRows& fft) {
  using Number = typename Fftw<T>::Number;
  const auto plan = plan_for<T>(fft.length, fft.inverse ? Kind::inverse : Kind::forward);
  // Out-of-place transforms do not write the source.
  T* const from = const_cast<T*>(host_read<T>(fft.source));
  T* const to = host_write<T>(fft.target);
  const std::uint64_t size = 2 * fft.length;
  runtime::cpu::Pool pool(0);
  const std::size_t grain = std::max<std::uint64_t>(1, 16384 / size);
  pool.for_ranges(fft.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      Fftw<T>::run(plan, reinterpret_cast<Number*>(from + row * size),
                   reinterpret_cast<Number*>(to + row * size));
    }
    if (fft.factor == 1) return;
    for (std::size_t k = begin * size; k < end * size; ++k) to[k] *= static_cast<T>(fft.factor);
  });
}

template <class T>
void run_real_rows(const FftRows& fft) {
  using Number = typename Fftw<T>::Number;
  const auto plan = plan_for<T>(2 * fft.length, Kind::real);
  T* const from = const_cast<T*>(host_read<T>(fft.source));
  T* const to = host_write<T>(fft.target);
  runtime::cpu::Pool pool(0);
  const std::size_t grain = std::max<std::uint64_t>(1, 8192 / fft.length);
  pool.for_ranges(fft.rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      Fftw<T>::run_real(plan, from + row * 2 * fft.length,
                        reinterpret_cast<Number*>(to + row * 2 * (fft.length + 1)));
  });
}

}  // namespace

void rfft_on_cpu(const FftRows& fft) {
  fft.type == Type::f64 ? run_real_rows<double>(fft) : run_real_rows<float>(fft);
}

void fft_on_cpu(const FftRows& fft) {
  fft.type == Type::f64 ? run_rows<double>(fft) : run_rows<float>(fft);
}

std::vector<std::complex<double>> fft_of(std::vector<std::complex<double>> numbers) {
  std::vector<std::complex<double>> out(numbers.size());
  using Number = Fftw<double>::Number;
  Fftw<double>::run(plan_for<double>(numbers.size(), Kind::forward),
                    reinterpret_cast<Number*>(numbers.data()),
                    reinterpret_cast<Number*>(out.data()));
  return out;
}

}  // namespace topograd::ops::detail
