// Table rows of tensor operations at odd sizes and on views, and their checks.
#pragma once

#include "tensor_checks.hpp"

#include "../../../ops/backend/device.hpp"

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

struct LayoutRow {
  const char* name;
  std::function<std::vector<Shape>(std::int64_t n)> shapes;
  std::function<Tensor(const Tensors&)> run;
  std::function<Numbers(const Inputs&, std::int64_t n)> want;
  double f32 = 2e-6, f64 = 1e-13;  ///< times |want| and the root mean square of all
  std::int64_t least = 1, most = 1'000'003;
  bool half = false;  ///< f16, too
};

/// Checks every row at every size with an offset, and at 33 with the other layouts.
///
///   large_f32  sizes beyond 1,100 in f32 only, if these are slow
void check_layout_rows(const std::vector<LayoutRow>& rows, const Device& device,
                       bool large_f32 = false,
                       const std::vector<std::int64_t>& sizes = kLayoutSizes);

/// |got - want| <= bound * (|want| + root mean square of want).
void expect_close(const Tensor& got, const Numbers& want, double bound, const std::string& what);

}  // namespace topograd::ops::test
