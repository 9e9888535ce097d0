// Derivatives of tensors: where they are recorded, and where not.
#pragma once

#include "tensor.hpp"

#include <utility>

namespace topograd::ops {

/// While it lives, what this thread computes from tensors that require_grad() is a constant.
class [[nodiscard]] NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
};

inline NoGrad no_grad() { return NoGrad(); }
/// What `f` gives, computed under a NoGrad.
template <class F>
auto no_grad(F&& f) {
  const NoGrad guard;
  return std::forward<F>(f)();
}

}  // namespace topograd::ops
