// Sums and maxima over a workgroup, in a fixed order.
#include "reduction.hpp"

namespace topograd::codegen {
namespace {

// The leading barrier lets a shader reduce several values with one array.
constexpr std::string_view kTree = R"(
shared double partial_sums[{size}];

// Sum over the workgroup by a tree of fixed order; valid in invocation 0.
double workgroup_sum(double value) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_sums[self] = value;
  for (uint width = {half}; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) {
      precise double sum = partial_sums[self] + partial_sums[self + width];
      partial_sums[self] = sum;
    }
  }
  return partial_sums[self];
}
)";

constexpr std::string_view kSubgroupTree = R"(
shared double partial_sums[{size}];

// Sum over the workgroup: first in subgroups of any size, then over these; valid in invocation 0.
double workgroup_sum(double value) {
  precise double sum = subgroupAdd(value);
  barrier();
  if (subgroupElect()) partial_sums[gl_SubgroupID] = sum;
  barrier();
  sum = partial_sums[0];
  for (uint k = 1u; k < gl_NumSubgroups; ++k) sum += partial_sums[k];
  return sum;
}
)";

constexpr std::string_view kCompensated = R"(
// A sum and the rounding error that it has gathered. Source: Knuth, TAOCP 2, 4.2.2, theorem B.
vec2 compensated_add(vec2 a, vec2 b) {
  precise float sum = a.x + b.x;
  precise float shift = sum - a.x;
  precise float rest = sum - shift;
  precise float left = a.x - rest;
  precise float right = b.x - shift;
  precise float rounding = left + right;
  precise float errors = a.y + b.y;
  precise float error = errors + rounding;
  return vec2(sum, error);
}
)";

constexpr std::string_view kCompensatedTree = R"(
shared vec2 partial_sums[{size}];

// Sum over the workgroup by a tree of fixed order; valid in invocation 0.
float workgroup_sum(vec2 value) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_sums[self] = value;
  for (uint width = {half}; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) {
      partial_sums[self] = compensated_add(partial_sums[self], partial_sums[self + width]);
    }
  }
  vec2 total = partial_sums[self];
  precise float sum = total.x + total.y;
  return {is_nan}(sum) ? total.x : sum;  // the error of an infinite sum is no number
}
)";

constexpr std::string_view kMaximum = R"(
// The greater one, and NaN if one is.
{S} maximum({S} a, {S} b) {
  return {is_nan}(a) || a >= b ? a : b;
}
)";

constexpr std::string_view kMaxTree = R"(
shared {S} partial_maxima[{size}];

// Maximum over the workgroup; valid in invocation 0.
{S} workgroup_max({S} value) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_maxima[self] = value;
  for (uint width = {half}; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) partial_maxima[self] = maximum(partial_maxima[self], partial_maxima[self + width]);
  }
  return partial_maxima[self];
}
)";

std::string sized(Shader& shader, std::string_view pattern, std::uint32_t size,
                  Precision precision) {
  const bool nan = pattern.find("{is_nan}") != std::string_view::npos;
  return substitute(pattern.substr(1),
                    {{"size", std::to_string(size)},
                     {"is_nan", nan ? shader.math_function("is_nan", precision) : ""},
                     {"half", unsigned_literal(size / 2)},
                     {"S", std::string(scalar_type(precision))}});
}

}  // namespace

Summation::Summation(Precision precision, std::uint32_t workgroup_size, bool use_subgroups)
    : precision_(precision),
      workgroup_size_(workgroup_size),
      use_subgroups_(use_subgroups && precision == Precision::f64) {}

void Summation::begin(Shader& shader, std::string_view name) const {
  if (precision_ == Precision::f64) {
    shader.body().line("precise double ", name, " = 0.0lf;");
  } else {
    shader.declare("compensated_add", sized(shader, kCompensated, workgroup_size_, precision_));
    shader.body().line("vec2 ", name, " = vec2(0.0);");
  }
}

void Summation::add(Shader& shader, std::string_view name, std::string_view expression,
                    Precision type) const {
  if (precision_ == Precision::f32) {
    shader.body().line(name, " = compensated_add(", name, ", vec2(", expression, ", 0.0));");
  } else if (type == Precision::f64) {
    shader.body().line(name, " += ", expression, ";");
  } else {
    shader.body().line(name, " += double(", expression, ");");
  }
}

std::string Summation::total(Shader& shader, std::string_view name) const {
  std::string_view tree = precision_ == Precision::f64 ? kTree : kCompensatedTree;
  if (use_subgroups_) {
    shader.need_extension("GL_KHR_shader_subgroup_basic");
    shader.need_extension("GL_KHR_shader_subgroup_arithmetic");
    tree = kSubgroupTree;
  }
  shader.declare("workgroup_sum", sized(shader, tree, workgroup_size_, precision_));
  return text("workgroup_sum(", name, ")");
}

std::string declare_maximum(Shader& shader, Precision precision) {
  shader.declare("maximum", sized(shader, kMaximum, 2, precision));
  return "maximum";
}

std::string workgroup_max(Shader& shader, std::string_view expression, Precision precision,
                          std::uint32_t workgroup_size) {
  declare_maximum(shader, precision);
  shader.declare("workgroup_max", sized(shader, kMaxTree, workgroup_size, precision));
  return text("workgroup_max(", expression, ")");
}

}  // namespace topograd::codegen
