// Reductions of arrays to single numbers.
#pragma once

#include "../../../ir/enum_table.hpp"
#include "../array.hpp"
#include "../expression.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace topograd::ops {

enum class Reduction : std::uint8_t { sum, compensated_sum, product, min, max, argmin, argmax };
TG_ENUM_NAMES(Reduction)

/// The reduced number of each item: an element; the product of two; the square of one.
enum class Operand : std::uint8_t { element, product, square };

/// Reduces a slice, or two of equal size (Operand::product), to one element of their type (u32 for
/// argmin and argmax).
///
///   root  take the square root of the result; floating types only
ExecutionStats reduce_into(Reduction reduction, Operand operand, std::span<const Slice> inputs,
                           const Slice& output, bool root, const OpOptions& options);

/// Reduces the results of `element` by `fold`, a function of two numbers, or if there is none by
/// `reduction` (sum, compensated_sum, product, min, max).
///
///   identity  fold(identity, x) = x; used only with `fold`
struct MapReduction {
  const Expression* element = nullptr;  ///< null: the first input
  const Expression* fold = nullptr;
  double identity = 0;
  Reduction reduction = Reduction::sum;
};
ExecutionStats map_reduce_into(const MapReduction& what, std::span<const Slice> inputs,
                               const Slice& output, const OpOptions& options);

namespace detail {

template <class T, class Out = T>
Array<Out> reduce(Reduction reduction, Operand operand, std::span<const Slice> inputs, bool root,
                  const OpOptions& options) {
  Array<Out> out(1);
  reduce_into(reduction, operand, inputs, out.untyped(), root, options);
  return out;
}

}  // namespace detail

// All return an array of one element, which stays where it was computed until item() reads it, and
// combine in a fixed order: the same device gives the same bits. For empty arrays the sum is 0, the
// product 1 and the norm 0; the others throw Error{Shape}.

/// Integers wrap around. The error for floating types is about (log2 n + n / 65536) ulp of Σ|x|;
/// with `compensated` (Neumaier) about one ulp of the sum plus n ulp² of Σ|x|. NaN if an element is
/// NaN or if there are infinities of both signs.
template <class T>
Array<T> sum(const Array<T>& x, const OpOptions& options = {}) {
  return detail::reduce<T>(Reduction::sum, Operand::element, {&x.untyped(), 1}, false, options);
}
template <class T>
requires std::is_floating_point_v<T> Array<T> compensated_sum(const Array<T>& x,
                                                              const OpOptions& options = {}) {
  return detail::reduce<T>(Reduction::compensated_sum, Operand::element, {&x.untyped(), 1}, false,
                           options);
}
template <class T>
Array<T> product(const Array<T>& x, const OpOptions& options = {}) {
  return detail::reduce<T>(Reduction::product, Operand::element, {&x.untyped(), 1}, false, options);
}
/// NaN if an element is NaN. For −0 and 0 the result may be either.
template <class T>
Array<T> min(const Array<T>& x, const OpOptions& options = {}) {
  return detail::reduce<T>(Reduction::min, Operand::element, {&x.untyped(), 1}, false, options);
}
template <class T>
Array<T> max(const Array<T>& x, const OpOptions& options = {}) {
  return detail::reduce<T>(Reduction::max, Operand::element, {&x.untyped(), 1}, false, options);
}
/// Index of the first smallest element, or of the first NaN.
template <class T>
Array<std::uint32_t> argmin(const Array<T>& x, const OpOptions& options = {}) {
  return detail::reduce<T, std::uint32_t>(Reduction::argmin, Operand::element, {&x.untyped(), 1},
                                          false, options);
}
template <class T>
Array<std::uint32_t> argmax(const Array<T>& x, const OpOptions& options = {}) {
  return detail::reduce<T, std::uint32_t>(Reduction::argmax, Operand::element, {&x.untyped(), 1},
                                          false, options);
}
/// Σ x y, with the accuracy of sum(). Throws Error{Shape} if the sizes differ.
template <class T>
Array<T> dot(const Array<T>& x, const Array<T>& y, const OpOptions& options = {}) {
  const Slice inputs[] = {x.untyped(), y.untyped()};
  return detail::reduce<T>(Reduction::sum, Operand::product, inputs, false, options);
}
/// √Σ x²; infinite if a square exceeds the type's range.
template <class T>
requires std::is_floating_point_v<T> Array<T> norm(const Array<T>& x,
                                                   const OpOptions& options = {}) {
  return detail::reduce<T>(Reduction::sum, Operand::square, {&x.untyped(), 1}, true, options);
}

/// x0 f x1 f ... for an associative f(Value, Value). The CPU keeps the order of elements; devices
/// keep it unless f(a, b) and f(b, a) are the same expression, which is faster.
///
///   identity  f(identity, x) = x, and the result for an empty array
///
/// Integers are computed in f64.
template <class F, class T>
Array<T> reduce(const F& f, double identity, const Array<T>& x, const OpOptions& options = {}) {
  const Expression fold = Expression::of<2>("reduce", f);
  Array<T> out(1);
  map_reduce_into({.fold = &fold, .identity = identity}, {&x.untyped(), 1}, out.untyped(), options);
  return out;
}

/// Reduces f's results in one pass over the arrays, without storing them.
template <class F, class T, class... Rest>
Array<T> map_reduce(const OpOptions& options, Reduction reduction, const F& f,
                    const Array<T>& first, const Array<Rest>&... rest) {
  const Expression element = Expression::of<1 + sizeof...(Rest)>("map_reduce", f);
  const Slice inputs[] = {first.untyped(), rest.untyped()...};
  Array<T> out(1);
  map_reduce_into({.element = &element, .reduction = reduction}, inputs, out.untyped(), options);
  return out;
}
template <class F, class T, class... Rest>
Array<T> map_reduce(Reduction reduction, const F& f, const Array<T>& first,
                    const Array<Rest>&... rest) {
  return map_reduce(OpOptions{}, reduction, f, first, rest...);
}

}  // namespace topograd::ops
