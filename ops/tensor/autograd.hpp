// Scopes without recording of derivatives.
#pragma once

#include "tensor.hpp"

#include <utility>

namespace topograd::ops {

/// While it lives, this thread's results from tensors with requires_grad() are constants.
class [[nodiscard]] NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
};

inline NoGrad no_grad() { return NoGrad(); }
/// Calls `f` under a NoGrad and returns its result.
template <class F>
auto no_grad(F&& f) {
  const NoGrad guard;
  return std::forward<F>(f)();
}

}  // namespace topograd::ops
