// Sparse symmetric factorisation on a device, of matrices that the host holds.
#pragma once

#include "../../engine/engine.hpp"
#include "../../factor/factor_report.hpp"
#include "../../factor/refinement.hpp"
#include "../recording/recorder.hpp"
#include "device_factor.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// LLᵀ or L S Lᵀ on a device in the precision of the options. Solutions in f32, and those of
/// matrices with negative pivots, are refined on the host with residuals in f64, so that they are
/// as exact as those of a factor in f64 while the matrix is not too ill-conditioned. The same bits
/// in every run.
class HostMatrixFactor {
 public:
  ///   lower    pattern of the matrices
  ///   options  the device and the precision
  ///
  /// Throws the errors of open_context(), and Error{Unsupported} if the device cannot hold it.
  HostMatrixFactor(const LowerPattern& lower, const FactorPlan& plan, const EngineOptions& options);

  ///   values  of the lower triangle that was planned for
  FactorReport factor(std::span<const double> values, const PivotRule& rule = {});
  /// Solves for one right side, after factor() was complete. Solutions that are not refined are
  /// reported as accurate without a look at them.
  SolveReport solve(std::span<const double> right, std::span<double> solution);

  std::uint64_t bytes() const { return factor_->bytes(); }
  std::uint64_t predicted_bytes() const { return factor_->predicted_bytes(); }
  std::uint64_t dispatches() const { return factor_->dispatches(); }
  /// Runs factorisation and solution `samples` times; median times of both.
  Timing time(int warm_ups, int samples);

 private:
  void solve_once(std::span<const double> right, std::span<double> solution);
  void record_factor(CommandList& list, AdmittedPivots admitted);
  std::vector<DeviceFactor::PivotStatus> read_status();

  std::vector<int> starts_, rows_;
  std::vector<std::uint32_t> order_;
  Context context_;
  Recorder recorder_{context_};
  VectorOps vectors_{context_, false};
  std::unique_ptr<DeviceFactor> factor_;
  Buffer values_, none_, damping_, right_, solution_;
  Recorded factor_list_, indefinite_list_, solve_list_;  // the second from its first use on
  std::vector<double> host_values_;
  FactorReport report_;
};

}  // namespace topograd::runtime::vulkan
