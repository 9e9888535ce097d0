// Cases of tensor operations: each is checked at odd sizes and on views, with options, and for its
// derivatives.
#pragma once

#include "tensor_checks.hpp"

#include "../../../ops/backend/device.hpp"
#include "../../../ops/run/run.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace topograd::ops::test {

using Numbers = std::vector<double>;
using Tensors = std::vector<Tensor>;
using Inputs = std::vector<Numbers>;

/// Sizes around those of subgroups and workgroups.
inline const std::vector<std::int64_t> kLayoutSizes = {0,  1,   2,   31,  32,
                                                       33, 255, 256, 257, 1'000'003};

enum class Layout {
  offset,   ///< from the fourth element of shared memory
  turned,   ///< the last two axes are exchanged
  stepped,  ///< every second entry of the last axis, from the second one on
};
/// A tensor of numbers with this layout.
Tensor laid_out(const Shape& shape, int seed, Type type, Layout layout, const Device& device);

/// A row of operations.def with options.
struct FunctionRow {
  std::string_view name;
  Operation runs = Operation::Map;
  bool derivative = true;
};
inline constexpr FunctionRow kFunctions[] = {
#define TG_TENSOR(result, function, parameters, ...) FunctionRow{.name = #function, __VA_ARGS__},
#include "../../../ops/run/operations.def"
};

using O = const OpOptions&;

struct OperationCase {
  const char* name;  ///< of its row in operations.def; the name of a variant may follow
  std::function<std::vector<Shape>(std::int64_t n)> shapes;
  std::function<Tensor(const Tensors&, O options)> run;
  std::function<Numbers(const Inputs&, std::int64_t n)> want;
  double f32 = 2e-6, f64 = 1e-13;  ///< times |want| and the root mean square of all
  std::int64_t least = 1, most = 1'000'003;
  bool half = false;  ///< f16, too

  /// Its row; fails the test and returns null if there is none.
  const FunctionRow* row() const;
};

/// Cases of all functions that take options.
std::vector<OperationCase> operation_cases();
const std::vector<OperationCase>& transforms();

/// Checks every case at every size with an offset, and at 33 with the other layouts.
///
///   large_f32  sizes beyond 1,100 in f32 only, if these are slow
void check_operation_cases(const std::vector<OperationCase>& cases, const Device& device,
                           bool large_f32 = false,
                           const std::vector<std::int64_t>& sizes = kLayoutSizes);

/// |got - want| <= bound * (|want| + root mean square of want).
void expect_close(const Tensor& got, const Numbers& want, double bound, const std::string& what);

}  // namespace topograd::ops::test
