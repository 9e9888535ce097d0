// Runs tensor operations with options: a device of their own, and how they ran.
#pragma once

#include "../run/run.hpp"
#include "tensor.hpp"

#include <memory>
#include <type_traits>

namespace topograd::ops {

namespace detail {

/// What this thread runs while it lives runs by options.
class OptionsScope {
 public:
  explicit OptionsScope(const OpOptions& options);
  ~OptionsScope();
  OptionsScope(const OptionsScope&) = delete;
  OptionsScope& operator=(const OptionsScope&) = delete;

  /// Fills in the statistics, of what ran so far.
  void finish();

 private:
  struct Scopes;
  const OpOptions& options_;
  std::unique_ptr<Scopes> scopes_;
};

/// Computes a Tensor, or the values and indices of a TopK.
template <class Result>
void evaluate(const Result& result) {
  if constexpr (requires { result.evaluate(); }) {
    result.evaluate();
  } else {
    result.values.evaluate();
    result.indices.evaluate();
  }
}

}  // namespace detail

/// f(), which gives a Tensor, TopK or nothing, by options; what it gives is computed, and so is
/// what it reads that nobody had computed. All of that runs on the device of the options, or
/// throws; results are placed where they would have been.
///
///   ExecutionStats stats;
///   const Tensor y = with_options({.device = Device::cpu(), .stats = &stats},
///                                 [&] { return relu(matmul(x, w) + b); });
///
/// The statistics have the times and bytes of all that ran, and the device and reason of what took
/// longest; they are empty if nothing had to run.
template <class F>
auto with_options(const OpOptions& options, const F& f) {
  detail::OptionsScope scope(options);
  if constexpr (std::is_void_v<decltype(f())>) {
    f();
    scope.finish();
  } else {
    auto out = f();
    detail::evaluate(out);
    scope.finish();
    return out;
  }
}

}  // namespace topograd::ops
