// Internal: transforms of rows by FFTW.
#include "fft_run.hpp"

#include <fftw3.h>

#include <complex>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

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

/// Making a plan is not thread-safe, running it is.
template <class T>
typename Fftw<T>::Plan plan_for(std::uint64_t length, RowKind kind) {
  using Number = typename Fftw<T>::Number;
  static std::mutex& mutex = *new std::mutex;
  static auto& plans = *new std::map<std::pair<std::uint64_t, RowKind>, typename Fftw<T>::Plan>;
  const std::lock_guard lock(mutex);
  const auto found = plans.find({length, kind});
  if (found != plans.end()) return found->second;
  std::vector<std::complex<T>> in(length), out(length + 1);
  const auto n = static_cast<int>(length);
  Number* const to = reinterpret_cast<Number*>(out.data());
  const auto plan = kind == RowKind::real
                        ? Fftw<T>::real_plan(2 * n, reinterpret_cast<T*>(in.data()), to)
                        : Fftw<T>::plan(n, reinterpret_cast<Number*>(in.data()), to,
                                        kind == RowKind::inverse ? FFTW_BACKWARD : FFTW_FORWARD);
  return plans.emplace(std::pair(length, kind), plan).first->second;
}

}  // namespace

template <class T>
struct RowTransform<T>::Impl {
  typename Fftw<T>::Plan plan;
  bool real;
};

template <class T>
RowTransform<T>::RowTransform(std::uint64_t length, RowKind kind)
    : impl_(new Impl{plan_for<T>(length, kind), kind == RowKind::real}) {}

template <class T>
RowTransform<T>::~RowTransform() = default;

template <class T>
void RowTransform<T>::run(const T* in, T* out) {
  using Number = typename Fftw<T>::Number;
  // Out-of-place transforms do not write the source.
  T* const from = const_cast<T*>(in);
  if (impl_->real) {
    Fftw<T>::run_real(impl_->plan, from, reinterpret_cast<Number*>(out));
  } else {
    Fftw<T>::run(impl_->plan, reinterpret_cast<Number*>(from), reinterpret_cast<Number*>(out));
  }
}

template class RowTransform<float>;
template class RowTransform<double>;

}  // namespace topograd::ops::detail
