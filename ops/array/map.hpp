// Element-wise operations: an expression over arrays is one kernel of any length.
#pragma once

#include "array.hpp"
#include "expression.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace topograd::ops {

/// Maps items to elements of inputs that are not contiguous. Item i has the digits of i in base
/// `sizes`, the last one fastest; its element is the sum of the digits times the input's strides.
struct MapShape {
  std::vector<std::uint32_t> sizes;  ///< 1 to 4 sizes; their product is the number of items
};

struct MapInput {
  Slice slice;
  /// Empty: item i reads element i of the slice. Otherwise one stride per size of the shape, in
  /// elements; all strides of a slice of one element are 0.
  std::vector<std::uint32_t> strides;
};

/// outputs[k][i] = result k of the expression at element i of the inputs.
///
/// Computed in f32 if all elements are f32, otherwise in f64, which represents integers exactly.
/// Results are converted to integers by truncation, saturate at the type's limits, and NaN becomes
/// 0. f32 results are those of the expression at f32, each function within the bounds of its op.
/// Arithmetic, NaN and infinities are as in solves (docs/arrays.md).
///
/// A device without float64 accepts only f32 elements. Outputs must not share elements with inputs
/// or each other, but on the CPU an output may be identical to an input.
///
/// Throws Error{Shape} if sizes do not fit, Error{Unsupported} for strided inputs or outputs that a
/// device cannot bind at once.
ExecutionStats map_into(const Expression& expression, std::span<const MapInput> inputs,
                        std::span<const Slice> outputs, const MapShape& shape = {},
                        const OpOptions& options = {});

/// The same for inputs of equal sizes; an array of one element is repeated.
///
///   call  for messages
std::vector<Slice> map_slices(const char* call, const Expression& expression,
                              std::span<const Slice> inputs, std::span<const Type> types,
                              const OpOptions& options);

namespace detail {

template <class T>
struct IsArray : std::false_type {};
template <class T>
struct IsArray<Array<T>> : std::true_type {};

template <class Out, std::size_t Results, class F, class... T>
auto map(const char* call, const OpOptions& options, const F& f, const Array<T>&... arrays) {
  const Expression expression = Expression::of<sizeof...(T)>(call, f);
  const Slice inputs[] = {arrays.untyped()...};
  const std::vector<Type> types(expression.outputs(), type_of<Out>());
  std::vector<Slice> outputs = map_slices(call, expression, inputs, types, options);
  if constexpr (Results == 1) {
    return Array<Out>(std::move(outputs[0]));
  } else {
    std::array<Array<Out>, Results> out;
    for (std::size_t k = 0; k < Results; ++k) out[k] = Array<Out>(std::move(outputs[k]));
    return out;
  }
}

}  // namespace detail

/// Applies f to the elements of arrays of equal size, in one kernel. Returns a new array, or a
/// std::array of arrays if f returns a Vec or a std::array of Values.
///
///   map([](Value x, Value y) { return x * exp(-y) + 2.0; }, x, y)
///
/// The result has the first array's type; map_to<double>(...) returns another. An array of one
/// element is repeated. See map_into() for arithmetic.
///
/// Throws Error{Shape} if sizes do not fit, Error{Unsupported} for an `if` on a Value.
template <class F, class T, class... Rest>
auto map(const F& f, const Array<T>& first, const Array<Rest>&... rest) {
  return detail::map<T, Expression::results<1 + sizeof...(Rest), F>()>("map", OpOptions{}, f, first,
                                                                       rest...);
}
template <class F, class T, class... Rest>
auto map(const OpOptions& options, const F& f, const Array<T>& first, const Array<Rest>&... rest) {
  return detail::map<T, Expression::results<1 + sizeof...(Rest), F>()>("map", options, f, first,
                                                                       rest...);
}
template <class Out, class F, class... T>
requires kIsElement<Out>
auto map_to(const F& f, const Array<T>&... arrays) {
  return detail::map<Out, Expression::results<sizeof...(T), F>()>("map", OpOptions{}, f, arrays...);
}
template <class Out, class F, class... T>
requires kIsElement<Out>
auto map_to(const OpOptions& options, const F& f, const Array<T>&... arrays) {
  return detail::map<Out, Expression::results<sizeof...(T), F>()>("map", options, f, arrays...);
}

/// map() of two arrays.
template <class F, class T, class U>
auto zip(const F& f, const Array<T>& a, const Array<U>& b, const OpOptions& options = {}) {
  return detail::map<T, Expression::results<2, F>()>("zip", options, f, a, b);
}

}  // namespace topograd::ops
