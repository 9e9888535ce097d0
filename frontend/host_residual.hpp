// Residual blocks of opaque code, which run on the host.
#pragma once

#include <span>

namespace topograd {

/// A residual block with values and derivatives from user code, for code that cannot be traced.
/// Solves with such blocks make their steps on the host and say so in the report.
class HostResidual {
 public:
  virtual ~HostResidual() = default;

  /// Number of rows, always the same.
  virtual int rows() const = 0;
  /// Evaluates at a point.
  ///
  ///   blocks     values of each parameter block
  ///   residuals  rows() numbers, to be written
  ///   jacobians  null if only residuals are wanted; else for each block null (not wanted) or
  ///              rows() x width numbers, row by row, to be written
  ///
  /// Returns false if there is no value: a trial point is then rejected, a start is an error.
  virtual bool evaluate(const double* const* blocks, double* residuals,
                        double** jacobians) const = 0;

  /// Called at each point before the blocks of a problem are evaluated there, for work that they
  /// share. Only the first block of the problem is called.
  ///
  ///   x            all unknowns, as the problem orders them
  ///   derivatives  true if Jacobians are wanted, too
  virtual void prepare(std::span<const double> /*x*/, bool /*derivatives*/) const {}
};

}  // namespace topograd
