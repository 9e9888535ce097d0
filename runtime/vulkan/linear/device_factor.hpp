// Sparse symmetric factorisation on the device, by fronts, level by level.
#pragma once

#include "../../factor/factor_report.hpp"
#include "../../factor/level_plan.hpp"
#include "../../linear/normal_matrix.hpp"
#include "../recording/vector_ops.hpp"

#include <cstdint>

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

  /// By place in the order, after record_factor(): a PivotStatus at the first pivot of each step.
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
  Buffer fronts_, entries_, items_, places_, row_scalars_, cuts_, pivot_scalars_;
  Buffer panels_, updates_[2], fronts_vectors_, solved_, status_;
  Buffer limits_;  // by scalar
};

}  // namespace topograd::runtime::vulkan
