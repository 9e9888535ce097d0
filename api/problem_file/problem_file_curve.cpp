// Finds the data and the model of a fit in its expression.
#include "problem_file_curve.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../../ir/passes/passes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace topograd {
namespace {

/// The leaves on which an expression depends. Its parameters are the data of the block and its data
/// are the unknowns, because derivatives are taken by parameters.
struct Reads {
  std::vector<bool> data;
  bool unknowns = false, nothing = true;
};

Reads reads_of(const ir::Program& program) {
  Reads out{std::vector<bool>(program.leaves.parameters)};
  for (const ir::Node& node : ir::remove_dead(program).nodes) {
    if (node.op == ir::Op::Parameter) out.data[node.slot()] = true;
    if (node.op == ir::Op::Data) out.unknowns = true;
    out.nothing = out.nothing && node.op == ir::Op::Literal && node.literal() == 0;
  }
  return out;
}

bool varies(const std::vector<double>& numbers) {
  return std::ranges::any_of(numbers, [&](double v) { return v != numbers.front(); });
}

bool has_twice(const ExpressionNames& names) {
  return std::ranges::any_of(names.data, [&](const std::string& name) {
    return std::ranges::find(names.parameters, name) != names.parameters.end();
  });
}

}  // namespace

std::optional<Curve> find_curve(CurveSource source) {
  if (source.data.size() < 2 || has_twice(source.names)) return std::nullopt;
  ir::Program f = ir::optimize(parse(
      source.expression, {source.names.data, source.names.parameters, source.names.uniforms}));
  if (f.outputs.size() != 1 || !reads_of(f).unknowns) return std::nullopt;
  std::optional<std::uint32_t> y;
  ir::Program slope;
  Reads in_slope;
  for (std::uint32_t k = 0; k < source.data.size(); ++k) {
    ir::Program by_k = autodiff::jacobian(f, std::array{k});
    Reads reads = reads_of(by_k);
    if (reads.nothing || reads.unknowns || reads.data[k]) continue;
    if (y) return std::nullopt;
    y = k;
    slope = std::move(by_k);
    in_slope = std::move(reads);
  }
  if (!y) return std::nullopt;
  const std::vector<bool> read = reads_of(f).data;
  std::optional<std::size_t> x;
  for (std::size_t k = 0; k < source.data.size(); ++k) {
    if (k == *y || !read[k] || in_slope.data[k] || !varies(source.data[k])) continue;
    if (x) return std::nullopt;
    x = k;
  }
  if (!x) return std::nullopt;
  Curve curve;
  curve.label = std::move(source.label);
  curve.x_name = source.names.data[*x];
  curve.y_name = source.names.data[*y];
  curve.residual_ = std::move(f);
  curve.slope_ = std::move(slope);
  curve.x_slot_ = *x;
  curve.y_slot_ = *y;
  for (const std::vector<double>& column : source.data) curve.other_.push_back(column.front());
  curve.x = std::move(source.data[*x]);
  curve.y = std::move(source.data[*y]);
  curve.parameters_ = std::move(source.parameters);
  curve.uniforms_ = std::move(source.uniforms);
  return curve;
}

std::vector<double> Curve::fit(std::span<const double> at) const {
  std::vector<double> numbers = other_, unknowns, out;
  for (const double* value : parameters_) unknowns.push_back(*value);
  numbers[y_slot_] = 0;
  for (const double point : at) {
    numbers[x_slot_] = point;
    const ir::Inputs<double> inputs = {
        .parameters = numbers, .data = unknowns, .uniforms = uniforms_};
    out.push_back(-ir::evaluate(residual_, inputs)[0] / ir::evaluate(slope_, inputs)[0]);
  }
  return out;
}

}  // namespace topograd
