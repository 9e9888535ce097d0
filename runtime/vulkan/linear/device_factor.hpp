// Sparse symmetric factorisation on the device, by fronts, level by level.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../../engine/engine.hpp"
#include "../../factor/level_plan.hpp"
#include "../../factor/refinement.hpp"
#include "../../linear/choices.hpp"
#include "../recording/recorder.hpp"
#include "../recording/vector_ops.hpp"

namespace topograd::runtime::vulkan {

/// LLᵀ of a symmetric positive definite matrix or L S Lᵀ of an indefinite one, S being the signs of
/// its pivots, and solutions by it, in the precision of the context. Nothing is added by atomics:
/// the same bits in every run.
///
/// Pivots vanish by the PivotRule of Scalar::vanishing. Another one that is not finite, or not
/// admitted, makes the solution NaN. Every record_ function begins with a barrier of its own, and
/// leaves its results behind the caller's next one.
class DeviceFactor {
 public:
  /// The pivots of a step.
  struct PivotStatus {
    std::uint32_t refused;  ///< 1 + the number of the first refused one in the step; 0: none
    std::uint32_t vanished, negative;
  };
  static PivotStatus unpack(std::uint32_t status) {
    return {status & 0xff, status >> 8 & 0xff, status >> 16};
  }

  /// Limits of a plan for this device.
  static LevelPlan::Limits limits(const Context& context);
  /// Returns MatrixReason::none if its lists and what is bound of its fronts fit the range of a
  /// storage buffer, and workgroups are large enough; else the reason why not.
  static Why<MatrixReason> obstacle(const Context& context, const LevelPlan& plan);

  ///   plan  without an obstacle
  ///
  /// Context and vectors outlive this.
  DeviceFactor(Context& context, VectorOps& vectors, const LevelPlan& plan);

  /// The lower triangle that was planned for, with the damping of each column.
  struct Matrix {
    const Buffer &values, &damping;
    const Buffer& fixed;  ///< u32 by column: 1: its row and column are the identity's
    AdmittedPivots admitted = AdmittedPivots::positive;
  };
  void record_factor(CommandList& list, const Matrix& matrix);
  /// solution = A⁻¹ right, after record_factor().
  ///
  ///   negative  solution = −A⁻¹ right
  void record_solve(CommandList& list, const Buffer& right, bool negative, const Buffer& fixed,
                    const Buffer& solution);
  /// Scalar::state: converged, or breakdown if a pivot was refused; no iterations; vanished.
  void record_finish(CommandList& list);

  /// By position in the order, after record_factor(): a PivotStatus at the first pivot of each
  /// step.
  const Buffer& status() const { return status_; }
  /// Bytes of its buffers.
  std::uint64_t bytes() const;
  /// Bytes that the plan predicted.
  std::uint64_t predicted_bytes() const { return predicted_; }
  /// Dispatches of a factorisation and a solution.
  std::uint64_t dispatches() const;
  /// Steps of up to kFrontTile pivots that follow one another in a factorisation.
  std::uint64_t steps() const;

 private:
  using Items = LevelPlan::Items;
  template <class Kernel>
  void record_items(CommandList& list, Kernel kernel, const Items& items);
  template <class Kernel>
  Kernel with_children(Kernel kernel) const;
  static kernel::Part words_part(const Buffer& list, const Items& items, std::uint32_t words);
  kernel::Part part(const Buffer& buffer, const LevelPlan::Piece& piece) const;
  kernel::Part panels(const LevelPlan::Level& level) const;
  void record_entries(CommandList& list, const Matrix& matrix);

  Context& context_;
  VectorOps& vectors_;
  std::vector<LevelPlan::Level> levels_;
  std::vector<LevelPlan::Range> ranges_;
  std::uint32_t unknowns_ = 0;
  std::uint64_t predicted_ = 0;
  Buffer fronts_, entries_, items_, parent_rows_, row_scalars_, cuts_, pivot_scalars_;
  Buffer panels_, updates_[2], fronts_vectors_, solved_, status_;
  Buffer limits_;  // by scalar
};

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
