// Internal: the kernel of squared distances.
#include "nearest_source.hpp"

#include "../fused_source.hpp"

#include <limits>
#include <string>
#include <string_view>

namespace topograd::ops::detail {
namespace {

// The target of a candidate; `count` if there is none.
constexpr std::string_view kTarget = R"(
uint target_of(uint candidate) {
  {T} place = candidates(candidate);
  return place >= {T}(0.0) && place < {T}(count) ? uint(place) : count;
}
)";

constexpr std::string_view kByGroup = R"(
  uint self = gl_LocalInvocationID.x, lane = self & 31u, slot = self >> 5u;
  uint query = gl_WorkGroupID.y;
  for (uint first = gl_WorkGroupID.x * 8u; first < rows; first += gl_NumWorkGroups.x * 8u) {
    uint row = first + slot, target = count;
    if (row < rows) target = listed != 0u ? target_of(query * rows + row) : row;
    {T} sum = {T}(0.0);
    if (target < count) {
      for (uint i = lane; i < depth; i += 32u) {
        {T} apart = queries(query * depth + i) - targets(target * depth + i);
        sum = fma(apart, apart, sum);
      }
    }
    barrier();
    sums[self] = sum;
    for (uint width = 16u; width > 0u; width >>= 1u) {
      barrier();
      if (lane < width) sums[self] += sums[self + width];
    }
    if (lane == 0u && row < rows) {
      sum = sums[self];
      result(query * rows + row) = target == count || is_nan(sum) ? {infinity} : sum;
    }
  }
)";

constexpr std::string_view kByInvocation = R"(
  uint query = gl_WorkGroupID.y, stride = gl_NumWorkGroups.x * 256u;
  for (uint row = gl_WorkGroupID.x * 256u + gl_LocalInvocationID.x; row < rows; row += stride) {
    uint target = listed != 0u ? target_of(query * rows + row) : row;
    {T} sum = {T}(0.0);
    if (target < count) {
      for (uint i = 0u; i < depth; ++i) {
        {T} apart = queries(query * depth + i) - targets(target * depth + i);
        sum = fma(apart, apart, sum);
      }
    }
    result(query * rows + row) = target == count || is_nan(sum) ? {infinity} : sum;
  }
)";

}  // namespace

ComputeKernel nearest_kernel(codegen::Precision precision, bool by_invocation) {
  const std::string type(codegen::scalar_type(precision));
  const auto filled = [&](std::string_view pattern) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return codegen::substitute(pattern.substr(1),
                               {{"T", type}, {"infinity", codegen::literal(kInfinity, precision)}});
  };
  KernelParts parts{.name = by_invocation ? "nearest_short" : "nearest"};
  parts.arguments = {{"queries", type, Access::read},
                     {"targets", type, Access::read},
                     {"candidates", type, Access::read},
                     {"result", type, Access::write}};
  parts.words = {"rows", "depth", "count", "listed"};
  parts.functions = is_nan_glsl(precision) + "\n" + filled(kTarget);
  if (!by_invocation) parts.functions = "shared " + type + " sums[256];\n" + parts.functions;
  parts.body = filled(by_invocation ? kByInvocation : kByGroup);
  return make_kernel(parts);
}

}  // namespace topograd::ops::detail
