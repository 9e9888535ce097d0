// Residual blocks that fit a curve y = f(x) to points.
#pragma once

#include "../../ir/program.hpp"
#include "../expression/expression.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// A residual block with one expression: the input of find_curve().
struct CurveSource {
  std::string label, expression;
  ExpressionNames names;
  /// For each of names.parameters; the curve refers to them.
  std::vector<const double*> parameters;
  std::vector<std::vector<double>> data;  ///< for each of names.data: one number per instance
  std::vector<double> uniforms;
};

/// A residual whose expression is the scaled distance of y from a function of x: (f(x) - y) / s,
/// with the same unknowns in all instances.
class Curve {
 public:
  std::string label, x_name, y_name;
  std::vector<double> x, y;           ///< for each instance
  std::vector<std::size_t> left_out;  ///< instances with weight 0, ascending

  /// f at these points, with the present values of the unknowns. Other numbers of the instances in
  /// the expression (s above) cancel.
  std::vector<double> fit(std::span<const double> at) const;

 private:
  friend std::optional<Curve> find_curve(CurveSource source);

  ir::Program residual_, slope_;  // expression and its derivative by y; parameters are the data
  std::size_t x_slot_ = 0, y_slot_ = 0;
  std::vector<double> other_;  // numbers of the first instance, by slot
  std::vector<const double*> parameters_;
  std::vector<double> uniforms_;
};

/// The curve that a block fits, or nothing. There is a curve if exactly one of the data, y, has a
/// slope that depends neither on unknowns nor on y, and if exactly one, x, of the other data on
/// which that slope does not depend differs between instances.
std::optional<Curve> find_curve(CurveSource source);

}  // namespace topograd
