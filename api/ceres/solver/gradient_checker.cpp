// GradientChecker: compares a cost function's Jacobians with finite differences.
#include "gradient_checker.hpp"

#include "../cost/numeric_diff.hpp"
#include "report.hpp"

#include <algorithm>
#include <cmath>

namespace ceres {
namespace {

Matrix InTangentSpace(const Manifold* manifold, const double* x, const Matrix& jacobian) {
  if (manifold == nullptr) return jacobian;
  Matrix out(jacobian.rows(), manifold->TangentSize());
  manifold->RightMultiplyByPlusJacobian(x, static_cast<int>(jacobian.rows()), jacobian.data(),
                                        out.data());
  return out;
}

std::vector<double*> Pointers(std::vector<Matrix>& matrices) {
  std::vector<double*> pointers;
  for (Matrix& matrix : matrices) pointers.push_back(matrix.data());
  return pointers;
}

/// Relative difference for large numbers, absolute if both are near 0.
double Difference(double a, double b) {
  const double scale = std::max(std::abs(a), std::abs(b));
  const double difference = std::abs(a - b);
  return scale < 1e-8 ? difference : difference / scale;
}

void Compare(std::size_t block, const Matrix& given, const Matrix& numeric, double precision,
             GradientChecker::ProbeResults& results) {
  for (Eigen::Index r = 0; r < given.rows(); ++r) {
    for (Eigen::Index c = 0; c < given.cols(); ++c) {
      const double error = Difference(given(r, c), numeric(r, c));
      results.maximum_relative_error = std::max(results.maximum_relative_error, error);
      if (error <= precision) continue;
      results.error_log += internal::Format(
          "block %zu, residual %d, coordinate %d: %.12g, by differences %.12g, relative error "
          "%.3g\n",
          block, static_cast<int>(r), static_cast<int>(c), given(r, c), numeric(r, c), error);
    }
  }
}

}  // namespace

GradientChecker::GradientChecker(const CostFunction* function,
                                 const std::vector<const Manifold*>* manifolds,
                                 const NumericDiffOptions& options)
    : function_(function),
      manifolds_(manifolds != nullptr
                     ? *manifolds
                     : std::vector<const Manifold*>(function->parameter_block_sizes().size())),
      options_(options) {}

void GradientChecker::Adapt(const std::vector<const LocalParameterization*>& parameterizations) {
  manifolds_.clear();
  for (const LocalParameterization* of : parameterizations) {
    adapters_.push_back(of == nullptr ? nullptr
                                      : std::make_shared<internal::ParameterizationManifold>(*of));
    manifolds_.push_back(adapters_.back().get());
  }
}

bool GradientChecker::Probe(double const* const* parameters, double relative_precision,
                            ProbeResults* results) const {
  ProbeResults local;
  ProbeResults& out = results != nullptr ? *results : local;
  out = ProbeResults();
  const std::vector<std::int32_t>& sizes = function_->parameter_block_sizes();
  out.residuals.resize(function_->num_residuals());
  for (const std::int32_t size : sizes)
    out.jacobians.emplace_back(Matrix::Zero(function_->num_residuals(), size));
  out.numeric_jacobians = out.jacobians;
  std::vector<double*> given = Pointers(out.jacobians);
  std::vector<double*> numeric = Pointers(out.numeric_jacobians);
  const auto f = [this](double const* const* x, double* r) {
    return function_->Evaluate(x, r, nullptr);
  };
  out.return_value =
      function_->Evaluate(parameters, out.residuals.data(), given.data()) &&
      internal::NumericJacobian(
          f, RIDDERS, options_, sizes, parameters,
          {out.residuals.data(), static_cast<std::size_t>(out.residuals.size())}, numeric.data());
  if (!out.return_value) {
    out.error_log = "the cost function could not be evaluated";
    for (Matrix& jacobian : out.jacobians) jacobian.setZero();
    out.numeric_jacobians = out.jacobians;
  }
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    out.local_jacobians.push_back(InTangentSpace(manifolds_[k], parameters[k], out.jacobians[k]));
    out.local_numeric_jacobians.push_back(
        InTangentSpace(manifolds_[k], parameters[k], out.numeric_jacobians[k]));
    if (out.return_value)
      Compare(k, out.local_jacobians[k], out.local_numeric_jacobians[k], relative_precision, out);
  }
  return out.error_log.empty();
}

}  // namespace ceres
