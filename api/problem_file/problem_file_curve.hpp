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

/// A residual block with one expression, as find_curve() takes it.
struct CurveSource {
  std::string label, expression;
  ExpressionNames names;
  std::vector<const double*> parameters;  ///< by names.parameters; the curve refers to them
  std::vector<std::vector<double>> data;  ///< by names.data: a number an instance
  std::vector<double> uniforms;
};

/// A residual whose expression says how far y is from a function of x: (f(x) - y) / s, with the
/// same unknowns in all instances.
class Curve {
 public:
  std::string label, x_name, y_name;
  std::vector<double> x, y;           ///< of the instances
  std::vector<std::size_t> left_out;  ///< of them: with weight 0, ascending

  /// f at these places, with the present values of the unknowns. Where the expression reads other
  /// numbers of the instances (s above), they cancel.
  std::vector<double> fit(std::span<const double> at) const;

 private:
  friend std::optional<Curve> find_curve(CurveSource source);

  ir::Program residual_, slope_;  // the expression and its derivative by y; parameters are the data
  std::size_t x_slot_ = 0, y_slot_ = 0;
  std::vector<double> other_;  // numbers of the first instance, by slot
  std::vector<const double*> parameters_;
  std::vector<double> uniforms_;
};

/// The curve that a block fits, or nothing. There is one where exactly one of the names of data, y,
/// enters with a slope that depends on neither unknowns nor y, and where of the others that slope
/// does not depend on exactly one, x, differs between instances.
std::optional<Curve> find_curve(CurveSource source);

}  // namespace topograd
