// Sparse Cholesky factorisation on a device, of matrices that the host holds.
#pragma once

#include "../../engine/engine.hpp"
#include "../../factor/factor_report.hpp"
#include "../recording/recorder.hpp"
#include "device_factor.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// LLᵀ on a device in the precision of the options. Solutions in f32 are refined on the host with
/// residuals in f64, so that they are as exact as those of a factor in f64 while the matrix is not
/// too ill-conditioned. The same bits in every run.
///
/// Source of the refinement: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
/// chapter 12.
class HostMatrixFactor {
 public:
  ///   lower    pattern of the matrices
  ///   options  the device and the precision
  ///
  /// Throws the errors of open_context(), and Error{Unsupported} if the device cannot hold it.
  HostMatrixFactor(const LowerPattern& lower, const FactorPlan& plan, const EngineOptions& options);

  ///   values  of the lower triangle that was planned for
  FactorReport factor(std::span<const double> values, const PivotRule& rule = {});
  /// Solves for one right side, after factor() was complete.
  void solve(std::span<const double> right, std::span<double> solution);

  /// Steps of refinement in the last solve().
  int refinements() const { return refinements_; }
  std::uint64_t bytes() const { return factor_->bytes(); }
  std::uint64_t predicted_bytes() const { return factor_->predicted_bytes(); }
  std::uint64_t dispatches() const { return factor_->dispatches(); }
  /// Runs factorisation and solution `samples` times; median times of both.
  Timing time(int warm_ups, int samples);

 private:
  void solve_once(std::span<const double> right, std::span<double> solution);
  /// residual = right − A solution; returns the largest |right_i − (A solution)_i|, and `size`, the
  /// largest (|A| |solution| + |right|)_i.
  double find_residual(std::span<const double> right, std::span<const double> solution,
                       std::span<double> residual, double& size) const;

  std::vector<int> starts_, rows_;
  std::vector<std::uint32_t> order_;
  Context context_;
  Recorder recorder_{context_};
  VectorOps vectors_{context_, false};
  std::unique_ptr<DeviceFactor> factor_;
  Buffer values_, none_, damping_, right_, solution_;
  Recorded factor_list_, solve_list_;
  std::vector<double> host_values_;
  int refinements_ = 0;
};

}  // namespace topograd::runtime::vulkan
