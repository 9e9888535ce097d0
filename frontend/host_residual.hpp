// Residual blocks of opaque code, which run on the host.
#pragma once

#include <span>

namespace topograd {

/// A residual block that is a function of the user's with derivatives of its own, for what cannot
/// be traced. Solves that have such blocks keep their steps on the host and say so in the report.
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
  /// False says that there is no value: a trial point is then refused, a start is an error.
  virtual bool evaluate(const double* const* blocks, double* residuals,
                        double** jacobians) const = 0;

  /// Hears of each point before the blocks of a problem are evaluated there: for work that they
  /// share. Called on the first of them alone.
  ///
  ///   x            all unknowns, as the problem orders them
  ///   derivatives  Jacobians are wanted, too
  virtual void prepare(std::span<const double> /*x*/, bool /*derivatives*/) const {}
};

}  // namespace topograd
