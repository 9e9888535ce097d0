// Calls of user functors, with one argument per parameter block, and their ownership.
#pragma once

#include "../../../frontend/host_residual.hpp"
#include "../types/types.hpp"
#include "cost_function.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace ceres::internal {

/// A functor that its holder may own.
template <class Functor>
class Owned {
 public:
  Owned(Functor* functor, Ownership ownership) : functor_(functor), ownership_(ownership) {}
  explicit Owned(std::unique_ptr<Functor> functor)
      : functor_(std::move(functor)), ownership_(TAKE_OWNERSHIP) {}
  Owned(Owned&& other) noexcept = default;
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (ownership_ == DO_NOT_TAKE_OWNERSHIP) static_cast<void>(functor_.release());
  }
  Functor& operator*() const { return *functor_; }
  Functor* get() const { return functor_.get(); }

 private:
  std::unique_ptr<Functor> functor_;
  Ownership ownership_;
};

template <int... Ns>
struct BlockSizes {
  static constexpr std::size_t kBlocks = sizeof...(Ns);
  static constexpr int kScalars = (Ns + ...);
  static constexpr std::array<int, kBlocks> kSizes = {Ns...};
};

template <class Functor, class T, std::size_t... I>
bool CallUnpacked(const Functor& functor, const T* const* parameters, T* residuals,
                  std::index_sequence<I...>) {
  return functor(parameters[I]..., residuals);
}

/// Calls functor(parameters[0], ..., residuals), or evaluates a CostFunction.
template <class Functor, class T, int... Ns>
bool Call(const Functor& functor, const T* const* parameters, T* residuals, BlockSizes<Ns...>) {
  if constexpr (std::is_base_of_v<CostFunction, Functor>) {
    return functor.Evaluate(parameters, residuals, nullptr);
  } else {
    return CallUnpacked(functor, parameters, residuals, std::make_index_sequence<sizeof...(Ns)>());
  }
}

/// A Jet before a functor writes it.
template <class Number>
Number Unwritten() {
  Number out(topograd::unwritten());
  out.v.setConstant(topograd::unwritten());
  return out;
}

template <std::size_t, class T>
using Repeated = T;

template <class Functor, class T, std::size_t... I>
constexpr bool IsCallable(std::index_sequence<I...>) {
  return std::is_invocable_v<const Functor&, Repeated<I, const T*>..., T*>;
}

/// True if a functor of `blocks` parameter blocks should be, and can be, called with Values.
template <class Functor, std::size_t blocks>
constexpr bool IsTraced() {
  if constexpr (!topograd::traced_functor<Functor>) {
    return false;
  } else {
    return IsCallable<Functor, topograd::Value>(std::make_index_sequence<blocks>());
  }
}

template <class Functor, class T, std::size_t... I>
constexpr bool IsNothrowCallable(std::index_sequence<I...>) {
  return std::is_nothrow_invocable_v<const Functor&, Repeated<I, const T*>..., T*>;
}

}  // namespace ceres::internal
