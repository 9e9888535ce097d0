// Operations on tensors: the functions of operations.def, which has their documentation. Functions
// that are not expressions of elements also take options as their last argument; expressions take
// them when they are computed: (a + b).evaluate({.stats = &stats}).
#pragma once

#include "../../ir/op.hpp"
#include "../array/gather.hpp"
#include "tensor.hpp"
#include "with_options.hpp"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace topograd::ops {

/// Axes of a reduction, counted from the front or (negative) from the back; empty means all.
using Axes = std::vector<std::int64_t>;

struct ConvOptions {
  std::int64_t stride = 1;    ///< pixels between windows; >= 1
  std::int64_t padding = 0;   ///< zeros around the image; >= 0
  std::int64_t dilation = 1;  ///< pixels between weights; >= 1
};

struct PoolOptions {
  std::int64_t stride = 0;   ///< pixels between windows; 0: the window's size
  std::int64_t padding = 0;  ///< pixels around the image; at most half of the window's size
};

struct TopK {
  Tensor values;   ///< (..., k), descending; NaN before all numbers
  Tensor indices;  ///< indices on the last axis, as numbers of the tensor's type
};

namespace detail {
/// op(a, b, c) of the elements, with as many operands as the op has; `numbers` follow the tensors.
Tensor elementwise(const char* call, ir::Op op, std::initializer_list<Tensor> operands,
                   std::initializer_list<double> numbers = {});
}  // namespace detail

// f applied to each parameter of a list, separated by commas.
#define TG_PARENTHESES ()
#define TG_EXPAND(...) TG_EXPAND_4(TG_EXPAND_4(__VA_ARGS__))
#define TG_EXPAND_4(...) TG_EXPAND_2(TG_EXPAND_2(__VA_ARGS__))
#define TG_EXPAND_2(...) TG_UNPACK(TG_UNPACK(__VA_ARGS__))
#define TG_UNPACK(...) __VA_ARGS__
#define TG_EACH(f, ...) TG_EXPAND(TG_EACH_OF(f, __VA_ARGS__))
#define TG_EACH_OF(f, first, ...) f first __VA_OPT__(, TG_EACH_AGAIN TG_PARENTHESES(f, __VA_ARGS__))
#define TG_EACH_AGAIN() TG_EACH_OF
#define TG_DECLARED(type, name, ...) type name __VA_OPT__(= __VA_ARGS__)
#define TG_PARAMETER(type, name, ...) type name
#define TG_ARGUMENT(type, name, ...) name

#define TG_TENSOR(result, name, parameters, ...)                                              \
  result name(TG_EACH(TG_DECLARED, TG_UNPACK parameters));                                    \
  inline result name(TG_EACH(TG_PARAMETER, TG_UNPACK parameters), const OpOptions& options) { \
    return with_options(options,                                                              \
                        [&] { return name(TG_EACH(TG_ARGUMENT, TG_UNPACK parameters)); });    \
  }
#define TG_ELEMENTWISE(name, op, ...)                                                   \
  inline Tensor name(TG_EACH(TG_PARAMETER, __VA_ARGS__)) {                              \
    return detail::elementwise(#name, ir::Op::op, {TG_EACH(TG_ARGUMENT, __VA_ARGS__)}); \
  }
#define TG_EXPRESSION(name, parameters) Tensor name(TG_EACH(TG_PARAMETER, TG_UNPACK parameters));
#include "../run/operations.def"

#undef TG_PARENTHESES
#undef TG_EXPAND
#undef TG_EXPAND_4
#undef TG_EXPAND_2
#undef TG_UNPACK
#undef TG_EACH
#undef TG_EACH_OF
#undef TG_EACH_AGAIN
#undef TG_DECLARED
#undef TG_PARAMETER
#undef TG_ARGUMENT

/// Splits a tensor into consecutive parts of these sizes along an axis; the parts are views.
///
/// Throws Error{Shape} "split: expected sizes >= 0 that sum to 4, got (1, 2)".
std::vector<Tensor> split(const Tensor& a, const std::vector<std::int64_t>& sizes,
                          std::int64_t axis = 0);

}  // namespace topograd::ops
