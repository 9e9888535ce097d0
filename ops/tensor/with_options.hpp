// Runs tensor operations with options: on a given device, with statistics.
#pragma once

#include "../run/run.hpp"
#include "tensor.hpp"

#include <memory>
#include <type_traits>

namespace topograd::ops {

namespace detail {

/// While it lives, work of this thread runs with options.
class OptionsScope {
 public:
  explicit OptionsScope(const OpOptions& options);
  ~OptionsScope();
  OptionsScope(const OptionsScope&) = delete;
  OptionsScope& operator=(const OptionsScope&) = delete;

  /// Fills in the statistics of the work so far.
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

/// Calls f(), which returns a Tensor, a TopK or nothing, with options, and computes its result and
/// all pending tensors that it reads. All of this runs on the device of the options, or throws; the
/// placement of results is unchanged.
///
///   ExecutionStats stats;
///   const Tensor y = with_options({.device = Device::cpu(), .stats = &stats},
///                                 [&] { return relu(matmul(x, w) + b); });
///
/// The statistics have the total times and bytes, and the device and reason of the longest
/// operation; they are empty if nothing had to run.
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
