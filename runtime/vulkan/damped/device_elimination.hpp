// Steps through a Schur complement, or by a sparse factor, on a device: when, and their lists.
#pragma once

#include "../../engine/step_elimination.hpp"
#include "../linear/device_factor.hpp"
#include "../linear/device_matrix.hpp"
#include "../linear/device_schur.hpp"
#include "../recording/recorder.hpp"
#include "../steps/point_moves.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Iterations of one recorded list, an even number; lists are submitted until the solver's state
/// says that it is done.
inline constexpr int kIterationsOfList = 16;

struct SolveLists {
  Recorded start, iterations;
  Recorded finish;  ///< empty where nothing follows the iterations
};

/// (JᵀJ + λD) δ = −Jᵀr by a factor. Assembles JᵀJ by blocks, adds the damping, factorises and
/// solves in one recorded list. On manifolds the system is that of the tangent coordinates, and
/// scalars on active bounds have the identity's rows. In f32, solutions are refined with residuals
/// in the widest precision of the device.
///
/// Source of the refinement: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
/// chapter 12.
class DeviceFactorization : Part {
 public:
  /// All of these outlive it.
  DeviceFactorization(const Part& part, const PointMoves& moves) : Part(part), moves_(moves) {}

  /// As StepElimination::factorize().
  FactorUse factorize(bool wanted);

  /// Lists of a solve; null: steps are not solved for by a factor.
  const SolveLists* prepare();
  /// Records such a solve, if one was planned.
  void record(CommandList& list);

 private:
  /// The pattern of the lower triangle, and where its values lie in the matrix by blocks. Scalars
  /// behind the tangent coordinates of a block on a manifold have no column.
  struct Pattern {
    std::vector<int> starts, rows;
    std::vector<std::uint32_t> positions, scalars;  // scalars by column

    bool operator==(const Pattern&) const = default;
  };
  struct Solve {
    std::unique_ptr<DeviceMatrix> matrix;
    DeviceManifolds::MatrixVectors on_manifolds;  // of the matrix
    std::vector<Buffer> jacobians;                // by term
    SolveLists lists;
  };

  Pattern pattern_of(const NormalPlan& plan) const;
  std::vector<int> number_scalars(std::vector<std::uint32_t>& scalars) const;
  /// Describes the plan, or says why there is none.
  FactorUse plan();
  void record_residual(CommandList& list);

  const PointMoves& moves_;
  bool wanted_ = false;
  Pattern pattern_;                       // that factor_ was planned for
  std::unique_ptr<DeviceFactor> factor_;  // outlives changes that leave the pattern as it is
  FactorUse use_;
  Buffer diagonals_, correction_;
  Derived<Solve> solve_{recorder_.kernels};  // Jacobians have other columns without fixed blocks
};

class DeviceElimination final : public StepElimination, Part {
 public:
  /// All of these outlive it.
  DeviceElimination(const Part& part, const PointMoves& moves)
      : Part(part), moves_(moves), factorization_(part, moves) {}

  EliminationUse eliminate(std::span<const std::uint8_t> scalars) override;
  FactorUse factorize(bool wanted) override { return factorization_.factorize(wanted); }

  /// Marks the start of another solve.
  void begin_solve() { factorises_ = false; }
  /// Call after a solve with the lists of prepare(). After one with many iterations, the complement
  /// is factorised.
  void solved(int iterations);
  void transfer(ir::StateRecord& record);

  /// Lists of a solve by a factor or through the Schur complement; null: nothing is eliminated.
  const SolveLists* prepare();
  /// Records all lists of such a solve, if one was planned, to declare them.
  void record_all(CommandList& list);

 private:
  /// Describes the plan, or says why there is none.
  Why<MatrixReason> plan();
  SchurOperands operands() const;
  SolveLists make_lists();
  bool factorises() const;

  const PointMoves& moves_;
  DeviceFactorization factorization_;
  std::vector<std::uint8_t> eliminated_;  // by scalar, in the caller's order; empty: none
  bool factorises_ = false;               // the complement, from the next step on
  struct Solve {
    std::unique_ptr<DeviceSchur> schur;
    SolveLists iterates, factorises;
  };
  Derived<Solve> solve_{recorder_.kernels};  // Jacobians have other columns without fixed blocks
};

}  // namespace topograd::runtime::vulkan
