// Sums and maxima over a workgroup, in a fixed order.
#include "reduction.hpp"

#include <algorithm>
#include <vector>

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

// Two totals go through the tree side by side: from its fifth last step on, one subgroup has both.
constexpr std::string_view kTotals = R"(
shared {T} partial_totals[{numbers}];

// Sums over the workgroup by trees of fixed order, in every invocation.
void workgroup_totals({arguments}) {
  uint self = gl_LocalInvocationIndex;
  barrier();
{store}
  for (uint width = {half}; width > 0u; width >>= 1u) {
    barrier();
{step}
  }
  barrier();
{load}
}
)";

constexpr std::string_view kTotalStep = R"(
    if (self < width) {
      {T} sum = {sum};
      partial_totals[self] = sum;
    }
)";

constexpr std::string_view kTwoTotalsStep = R"(
    if (self < 2u * width) {
      uint at = self < width ? self : self - width + {size}u;
      {T} sum = {sum};
      partial_totals[at] = sum;
    }
)";

constexpr std::string_view kSubgroupTotals = R"(
shared double partial_totals[{numbers}];

// Sums over the workgroup, first in subgroups of any size, then over these; in every invocation.
void workgroup_totals({arguments}) {
{subgroups}
  barrier();
  if (subgroupElect()) {
{store}
  }
  barrier();
{load}
  for (uint k = 1u; k < gl_NumSubgroups; ++k) {
{add}
  }
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

constexpr std::string_view kPairTree = R"(
shared vec2 partial_pairs[{size}];

// Sum over the workgroup by a tree of fixed order; valid in invocation 0.
vec2 workgroup_pair(vec2 value) {
  uint self = gl_LocalInvocationIndex;
  barrier();
  partial_pairs[self] = value;
  for (uint width = {half}; width > 0u; width >>= 1u) {
    barrier();
    if (self < width) {
      partial_pairs[self] = compensated_add(partial_pairs[self], partial_pairs[self + width]);
    }
  }
  return partial_pairs[self];
}
)";

constexpr std::string_view kPairFloat = R"(
float pair_float(vec2 sum) {
  precise float value = sum.x + sum.y;
  return {is_nan}(value) ? sum.x : value;  // the error of an infinite sum is no number
}
)";

constexpr std::string_view kFloatSum = R"(
float workgroup_sum(vec2 value) { return pair_float(workgroup_pair(value)); }
)";

constexpr std::string_view kDoubleSum = R"(
double workgroup_pairs(vec2 value) { return pair_double(workgroup_pair(value)); }
)";

constexpr std::string_view kAddProduct = R"(
// sum + a b. The high bits of the factors are cut off, so that products of parts are exact. There
// is no fma: compilers may change it, precise or not.
// Source: Dekker, Numerische Mathematik 18 (1971), 224-242.
vec2 add_product(vec2 sum, float a, float b) {
  float a_high = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
  float b_high = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
  precise float a_low = a - a_high;
  precise float b_low = b - b_high;
  precise float product = a * b;
  precise float first = a_high * b_high - product;
  precise float second = first + a_high * b_low;
  precise float third = second + a_low * b_high;
  precise float error = third + a_low * b_low;
  return compensated_add(sum, vec2(product, error));
}
)";

constexpr std::string_view kAddRounded = R"(
vec2 add_rounded(vec2 sum, float a, float b) {
  precise float product = a * b;
  return compensated_add(sum, vec2(product, 0.0));
}
)";

constexpr std::string_view kPairDouble = R"(
double pair_double(vec2 sum) {
  precise double value = double(sum.x) + double(sum.y);
  return {is_nan}(value) ? double(sum.x) : value;  // the error of an infinite sum is no number
}
)";

constexpr std::string_view kHalfScale = R"(
float half_scale(double size) {
  int exponent = int(unpackDouble2x32(size).y >> 20u & 0x7ffu) - 1023;
  return uintBitsToFloat(uint(127 - clamp(exponent >> 1, -126, 126)) << 23u);
}
)";

constexpr std::string_view kUnscale = R"(
double unscale(float scale) {
  uint exponent = floatBitsToUint(scale) >> 23u;
  return packDouble2x32(uvec2(0u, 1023u + 254u - 2u * exponent << 20u));
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

/// Declares a function on sums that are pairs, and those that it needs:
///
///   float workgroup_sum(vec2 sum)      over the workgroup, valid in invocation 0; has barriers
///   double workgroup_pairs(vec2 sum)   the same
///   float half_scale(double size)      2^-n, where 4^n is about `size`
///   double unscale(float scale)        scale^-2
///
/// and the functions of ProductSum.
void declare_pair_function(Shader& shader, std::string_view name, std::uint32_t workgroup_size) {
  const struct {
    std::string_view name, text;
    std::vector<std::string_view> needs = {};
    Precision precision = Precision::f32;
  } functions[] = {{"compensated_add", kCompensated},
                   {"add_product", kAddProduct, {"compensated_add"}},
                   {"add_rounded", kAddRounded, {"compensated_add"}},
                   {"pair_float", kPairFloat},
                   {"pair_double", kPairDouble, {}, Precision::f64},
                   {"workgroup_pair", kPairTree, {"compensated_add"}},
                   {"workgroup_sum", kFloatSum, {"workgroup_pair", "pair_float"}},
                   {"workgroup_pairs", kDoubleSum, {"workgroup_pair", "pair_double"}},
                   {"half_scale", kHalfScale},
                   {"unscale", kUnscale}};
  const auto* const found =
      std::ranges::find(functions, name, [](const auto& one) { return one.name; });
  for (const std::string_view other : found->needs)
    declare_pair_function(shader, other, workgroup_size);
  shader.declare(name, sized(shader, found->text, workgroup_size, found->precision));
}

/// Lines of workgroup_totals(), one for each total.
struct TotalsText {
  std::string arguments, subgroups, store, load, add;
};

TotalsText totals_text(std::size_t count, std::string_view type, std::uint32_t size,
                       bool use_subgroups) {
  const std::string_view store =
      use_subgroups ? "    partial_totals[gl_SubgroupID" : "  partial_totals[self";
  TotalsText out;
  for (std::size_t k = 0; k < count; ++k) {
    const std::string_view end = k + 1 < count ? "\n" : "";
    const std::string name = text("total_", k), first = text(k * size, "u");
    const std::string offset = k > 0 ? " + " + first : "";
    out.arguments += text(k > 0 ? ", " : "", "inout ", type, " ", name);
    out.subgroups += text("  ", name, " = subgroupAdd(", name, ");", end);
    out.store += text(store, offset, "] = ", name, ";", end);
    out.load += text("  ", name, " = partial_totals[", first, "];", end);
    out.add += text("    ", name, " += partial_totals[k", offset, "];", end);
  }
  return out;
}

/// The addition in a step of a tree.
std::string tree_step(std::size_t count, bool pairs, std::uint32_t size) {
  const std::string_view at = count == 1 ? "self" : "at";
  const std::string a = text("partial_totals[", at, "]"),
                    b = text("partial_totals[", at, " + width]");
  std::string step =
      substitute((count == 1 ? kTotalStep : kTwoTotalsStep).substr(1),
                 {{"T", pairs ? "vec2" : "precise double"},
                  {"size", std::to_string(size)},
                  {"sum", pairs ? text("compensated_add(", a, ", ", b, ")") : text(a, " + ", b)}});
  step.pop_back();
  return step;
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
    declare_pair_function(shader, "compensated_add", workgroup_size_);
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

void Summation::need_subgroups(Shader& shader) const {
  if (!use_subgroups_) return;
  shader.need_extension("GL_KHR_shader_subgroup_basic");
  shader.need_extension("GL_KHR_shader_subgroup_arithmetic");
}

std::string Summation::total(Shader& shader, std::string_view name) const {
  need_subgroups(shader);
  if (precision_ == Precision::f32)
    declare_pair_function(shader, "workgroup_sum", workgroup_size_);
  else
    shader.declare("workgroup_sum", sized(shader, use_subgroups_ ? kSubgroupTree : kTree,
                                          workgroup_size_, precision_));
  return text("workgroup_sum(", name, ")");
}

void Summation::declare_totals(Shader& shader, std::size_t count) const {
  const bool pairs = precision_ == Precision::f32;
  const std::string type = pairs ? "vec2" : "double";
  if (pairs) declare_pair_function(shader, "compensated_add", workgroup_size_);
  const TotalsText lines = totals_text(count, type, workgroup_size_, use_subgroups_);
  shader.declare("workgroup_totals",
                 substitute((use_subgroups_ ? kSubgroupTotals : kTotals).substr(1),
                            {{"T", type},
                             {"numbers", std::to_string(count * workgroup_size_)},
                             {"half", unsigned_literal(workgroup_size_ / 2)},
                             {"arguments", lines.arguments},
                             {"subgroups", lines.subgroups},
                             {"store", lines.store},
                             {"load", lines.load},
                             {"add", lines.add},
                             {"step", tree_step(count, pairs, workgroup_size_)}}));
}

void Summation::totals(Shader& shader, std::span<const PartialSums> of,
                       std::string_view count) const {
  need_subgroups(shader);
  declare_totals(shader, of.size());
  const bool pairs = precision_ == Precision::f32;
  const auto running = [&](const PartialSums& one) {
    return pairs ? text(one.name, "_pair") : std::string(one.name);
  };
  const std::string_view self = "gl_LocalInvocationIndex";
  const std::string group = unsigned_literal(workgroup_size_);
  Lines& body = shader.body();
  std::string sums;
  for (const PartialSums& one : of) {
    begin(shader, running(one));
    sums += text(sums.empty() ? "" : ", ", running(one));
  }
  body.open("if (", self, " < ", count, ")");
  for (const PartialSums& one : of) {
    const std::string number = text(one.buffer, "[", one.first, " + ", self, "]");
    body.line(running(one), " = ", pairs ? text("vec2(", number, ", 0.0)") : number, ";");
  }
  body.close();
  body.open("for (uint k = ", self, " + ", group, "; k < ", count, "; k += ", group, ")");
  for (const PartialSums& one : of)
    add(shader, running(one), text(one.buffer, "[", one.first, " + k]"), precision_);
  body.close();
  body.line("workgroup_totals(", sums, ");");
  if (!pairs) return;
  declare_pair_function(shader, "pair_float", workgroup_size_);
  for (const PartialSums& one : of)
    body.line("precise float ", one.name, " = pair_float(", running(one), ");");
}

bool ProductSum::is_scaled(std::string_view name) const {
  return std::ranges::find(scaled_, name) != scaled_.end();
}

std::string_view ProductSum::function(Shader& shader, std::string_view name) const {
  declare_pair_function(shader, name, group_);
  return name;
}

void ProductSum::begin(Shader& shader, std::string_view name, std::string_view size) {
  if (!has_pairs()) return plain_.begin(shader, name);
  shader.body().line("vec2 ", name, " = vec2(0.0);");
  if (size.empty()) return;
  scaled_.emplace_back(name);
  shader.body().line("precise float ", name, "_scale = ", function(shader, "half_scale"), "(", size,
                     ");");
}

void ProductSum::add(Shader& shader, std::string_view name, std::span<const Product> products,
                     bool exact) const {
  if (has_pairs()) {
    const std::string scale = is_scaled(name) ? text(" * ", name, "_scale") : std::string();
    for (const Product& one : products)
      shader.body().line(name, " = ", function(shader, exact ? "add_product" : "add_rounded"), "(",
                         name, ", ", one.a, scale, ", ", one.b, scale, ");");
    return;
  }
  const std::string_view type = scalar_type(sums_);
  std::string sum;
  for (const Product& one : products)
    sum += text(sum.empty() ? "" : " + ", type, "(", one.a, ") * ", type, "(", one.b, ")");
  const std::string term = text(name, "_term");
  shader.body().line("precise ", type, " ", term, " = ", sum, ";");
  plain_.add(shader, name, term, sums_);
}

std::string ProductSum::total(Shader& shader, std::string_view name) const {
  if (!has_pairs()) return plain_.total(shader, name);
  std::string total = text(function(shader, "workgroup_pairs"), "(", name, ")");
  if (is_scaled(name)) total += text(" * ", function(shader, "unscale"), "(", name, "_scale)");
  return total;
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
