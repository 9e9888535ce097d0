// Kernels of maps and reductions of expressions over several tensors.
#pragma once

#include "../../codegen/glsl/text.hpp"
#include "../../ir/program.hpp"
#include "../backend/compute_kernel.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::ops::detail {

/// The element of an input or output for element i of a loop.
enum class AccessPattern : std::uint8_t {
  linear,   ///< element i
  scalar,   ///< element 0
  strided,  ///< by strides of the loop's axes
};

/// Elements that an invocation of a map reads before it writes.
enum class Together : std::uint8_t {
  one,      ///< one element
  four,     ///< four elements, 256 apart
  vectors,  ///< two vectors of four f32 elements; arrays begin and end at vectors
};

struct FusedInput {
  AccessPattern pattern = AccessPattern::linear;
  bool half = false;  ///< two f16 numbers per 32-bit word
};

/// An expression in a kernel: parameter slot k is input k, uniform slots are numbers.
///
/// Words of a kernel, in order: the numbers (their bits, low word first); the kernel's own; if an
/// input or output is strided, the sizes of axes 1, 2, ... of the loop; then for each input (and a
/// strided output), if it is f16, 1 if it begins in the upper half of its word, and if it is
/// strided, its strides by axis.
struct FusedForm {
  ir::Program program;
  codegen::Precision precision = codegen::Precision::f32;
  std::vector<FusedInput> inputs;
  AccessPattern output = AccessPattern::linear;  ///< linear or strided; for maps
  std::uint32_t rank = 1;                        ///< number of axes of the loop, >= 1
  /// For maps with one output, without strided or f16 tensors.
  Together together = Together::one;

  bool strided() const;
  /// Number of words of a kernel with `own` words of its own.
  std::uint32_t words(std::uint32_t own) const;
  /// Number of arguments of a kernel: inputs and outputs.
  std::uint32_t arguments() const;
  /// All parameters of the source, as bytes.
  std::string key() const;
};

/// The operation that combines the values of a reduction.
enum class FusedReduction : std::uint8_t { sum, max, min, argmax, argmin };

/// out_k[i] = output k of the expression at i, for i < count, its own word (which counts vectors if
/// the kernel uses them).
ComputeKernel map_kernel(const FusedForm& form);

/// Combines the expression's output over `depth` elements for each of `outputs` results; element i
/// of the loop is number i % depth of result i / depth. Sums and extremes are divided into pieces
/// of `segment` elements, stored one after the other: results[piece * outputs + result].
///
/// With `by_workgroup`, a workgroup computes a piece (x: results, in a loop; y: pieces), otherwise
/// an invocation does. Own words: outputs, depth, segment. NaN takes precedence over numbers; ties
/// go to the first index.
ComputeKernel reduce_kernel(const FusedForm& form, FusedReduction reduction, bool by_workgroup);

/// Source of "bool is_nan(T x)" that tests bits, which no compiler removes.
std::string is_nan_glsl(Type type);

}  // namespace topograd::ops::detail
