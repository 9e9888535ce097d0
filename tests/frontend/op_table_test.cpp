// The manual's table of ops agrees with the op table, the evaluator and the derivative rules.
#include <gtest/gtest.h>
#include "../../autodiff/derivatives.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/program.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "../support/manual.hpp"

namespace topograd::test {
namespace {

using Point = std::vector<double>;

std::string text(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "∞" : "-∞";
  std::array<char, 32> digits;
  std::snprintf(digits.data(), digits.size(), "%.4g", number);
  return digits.data();
}

std::string listed(const std::vector<double>& numbers) {
  std::string result;
  for (const double number : numbers) result += (result.empty() ? "" : ", ") + text(number);
  return result;
}

/// The op in C++: an operator if each operand occurs once and nothing else, or a function.
std::string call(const ir::OpInfo& op) {
  const std::string names = "abc";
  std::string written(op.spelling);
  bool once = !written.empty() && written.find_first_of("(?") == std::string::npos;
  for (int k = 0; k < op.arity; ++k) {
    const std::string operand = "{" + std::to_string(k) + "}";
    const std::size_t at = written.find(operand);
    if (at == std::string::npos) return {};
    written.replace(at, operand.size(), 1, names[static_cast<std::size_t>(k)]);
    once = once && written.find(operand) == std::string::npos;
  }
  return once ? written : std::string();
}

std::string function(const ir::OpInfo& op) {
  std::string operands = "a";
  if (op.arity > 1) operands += ", b";
  if (op.arity > 2) operands += ", c";
  return std::string(op.name) + "(" + operands + ")";
}

std::string domain(const ir::Domain& d) {
  if (std::isinf(d.min) && std::isinf(d.max)) return "";
  const std::string low = d.min_open || std::isinf(d.min) ? "(" : "[";
  const std::string high = d.max_open || std::isinf(d.max) ? ")" : "]";
  return low + text(d.min) + ", " + text(d.max) + high;
}

/// Points of kinks: zeros, ends of the domain, equal operands; infinities if a formula would give
/// NaN, edges in the wrong order, and NaN if it does not simply propagate.
std::vector<Point> points(const ir::OpInfo& op) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  switch (op.op) {
    case ir::Op::Min:
    case ir::Op::Max: return {{0, 0}, {1, 1}, {nan, 1}, {1, nan}};
    case ir::Op::Clamp: return {{0, 0, 1}, {1, 0, 1}, {0.5, 1, 0}, {nan, 0, 1}};
    case ir::Op::Smoothstep: return {{0, 1, 0}, {0, 1, 1}, {1, 1, 0}, {1, 1, 1}, {1, 1, 2}};
    case ir::Op::Gelu:
    case ir::Op::Silu:
    case ir::Op::NormalCdf:
    case ir::Op::Sigmoid: return {{0}, {-infinity}, {infinity}};
    default: break;
  }
  if (op.arity == 2) return {{0, 0}, {1, 1}};
  if (op.arity == 3) return {{0, 0, 1}, {1, 0, 1}};
  std::vector<Point> result;
  if (op.domain.min <= 0) result.push_back({0});
  for (const double end : {op.domain.min, op.domain.max})
    if (std::isfinite(end) && end != 0) result.push_back({end});
  return result;
}

/// Value and derivatives by each operand.
std::string at(const ir::OpInfo& op, const Point& point) {
  ir::Graph graph;
  std::array<ir::Id, 3> leaves{};
  for (std::uint32_t k = 0; k < point.size(); ++k) leaves[k] = graph.leaf(ir::Op::Parameter, k);
  const ir::Id y = graph.add(op.op, leaves[0], leaves[1], leaves[2]);
  const ir::Program f =
      graph.extract({&y, 1}, {.parameters = static_cast<std::uint32_t>(point.size())});
  const ir::Inputs<double> in = {
      .parameters = point, .data = {}, .uniforms = {}, .tangents = {}, .seeds = {}};
  const std::string place = point.size() == 1 ? text(point[0]) : "(" + listed(point) + ")";
  std::vector<double> slopes =
      ir::evaluate<double>(autodiff::jacobian(f, autodiff::all_slots(f)), in);
  for (double& slope : slopes) slope += 0.0;  // the sign of a zero slope is arbitrary
  return place + ": " + listed(ir::evaluate<double>(f, in)) + "; " + listed(slopes);
}

/// Error bound of backends, in ulp.
std::string bound(const ir::OpInfo& op, double ulp) {
  if (op.composite) return "parts";
  return text(ulp) + (op.rounds_product ? " + product" : "");
}

std::string table() {
  std::string result =
      "| op | in C++ | domain | at a point: value; derivatives | f32 | f64 |\n"
      "|---|---|---|---|---|---|\n";
  for (const ir::OpInfo& op : ir::kOps) {
    if (op.leaf || op.op == ir::Op::Zmul) continue;  // only derivatives use zmul
    std::string written = call(op);
    if (written.empty()) written = function(op);
    const std::size_t bar = written.find("||");
    if (bar != std::string::npos) written.replace(bar, 2, "\\|\\|");
    std::string places;
    for (const Point& point : points(op)) places += (places.empty() ? "" : " · ") + at(op, point);
    result += "| " + std::string(op.name) + " | `" + written + "` | " + domain(op.domain) + " | " +
              places + " | " + bound(op, op.ulp_f32) + " | " + bound(op, op.ulp_f64) + " |\n";
  }
  return result;
}

TEST(Manual, TableOfOpsIsTheOpTable) { expect_table("docs/writing-residuals.md", "ops", table()); }

}  // namespace
}  // namespace topograd::test
