// Compile errors for the standard library's functions of Values. The compiler's own error is a page
// of candidates that do not fit.
#pragma once

#include "value.hpp"

#include <concepts>
#include <type_traits>

namespace topograd::detail {

/// A class that converts to Value.
template <class T>
concept ValueLike = std::is_class_v<T> && std::convertible_to<const T&, Value>;

template <class V>
V refuse_std() {
  static_assert(!std::is_class_v<V>,
                "functions of namespace std take numbers, not a topograd::Value: write sqrt(x) for "
                "std::sqrt(x), and so for the others");
  return {};
}

}  // namespace topograd::detail

// A call std::sqrt(x) finds only declarations in namespace std.
namespace std {

#define TG_REFUSE(function)                               \
  template <topograd::detail::ValueLike V, class... More> \
  V function(const V&, const More&...) {                  \
    return topograd::detail::refuse_std<V>();             \
  }
TG_REFUSE(sqrt)
TG_REFUSE(cbrt)
TG_REFUSE(exp)
TG_REFUSE(exp2)
TG_REFUSE(expm1)
TG_REFUSE(log)
TG_REFUSE(log2)
TG_REFUSE(log10)
TG_REFUSE(log1p)
TG_REFUSE(sin)
TG_REFUSE(cos)
TG_REFUSE(tan)
TG_REFUSE(asin)
TG_REFUSE(acos)
TG_REFUSE(atan)
TG_REFUSE(atan2)
TG_REFUSE(sinh)
TG_REFUSE(cosh)
TG_REFUSE(tanh)
TG_REFUSE(asinh)
TG_REFUSE(acosh)
TG_REFUSE(atanh)
TG_REFUSE(erf)
TG_REFUSE(erfc)
TG_REFUSE(abs)
TG_REFUSE(fabs)
TG_REFUSE(floor)
TG_REFUSE(ceil)
TG_REFUSE(round)
TG_REFUSE(trunc)
TG_REFUSE(pow)
TG_REFUSE(hypot)
TG_REFUSE(fma)
#undef TG_REFUSE

/// A number to the power of a Value.
template <class Number, topograd::detail::ValueLike V>
requires is_arithmetic_v<Number> V pow(Number, const V&) {
  return topograd::detail::refuse_std<V>();
}

}  // namespace std
