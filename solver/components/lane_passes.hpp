// Arithmetic of the steps of many components, by vector registers whose lanes are components.
#pragma once

#include <cstddef>
#include <cstdint>

namespace topograd {

/// The part of a group of components that passes read.
struct LaneShape {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// A coordinate of steps.
  struct Coordinate {
    std::uint32_t scalar = kNone;  ///< that it moves; kNone: a block on a manifold
  };
  /// Coordinates of one block of unknowns.
  struct Block {
    std::uint32_t first = 0, width = 0;
  };

  std::uint32_t n = 0, scalars = 0;
  const Coordinate* coordinates = nullptr;  ///< (n)
  const std::uint32_t* free = nullptr;      ///< scalars that are not fixed
  std::uint32_t free_count = 0;
  const Block* tested = nullptr;  ///< blocks that may be undetermined
  std::uint32_t tested_count = 0;
  bool scale_free = false, jacobi_scaling = false;  ///< as the options
  double least_diagonal = 0, most_diagonal = 0;     ///< clamps of the damping
  double vanishing_damped = 0,
         vanishing_undamped = 0;  ///< share of a pivot that vanishes; 0: none does
};

/// Numbers of all lanes: column c of an array has that of lane l at [c * stride + l]. Columns are
/// aligned to 64 bytes. Flags are 0 or 1. Matrices are upper triangles by rows.
struct LaneNumbers {
  std::size_t stride = 0;
  const double *lower = nullptr, *upper = nullptr;  ///< by scalar; null: no bounds

  // The probe.
  double* x = nullptr;
  double* doubled_cost = nullptr;
  double *gradient = nullptr, *matrix = nullptr;
  double* squares_on_manifolds = nullptr;  ///< null: there are none

  // The point.
  double *here_x = nullptr, *here_gradient = nullptr, *here_matrix = nullptr;
  double* scale = nullptr;    ///< of columns; 0 where none was found yet
  double* damping = nullptr;  ///< diagonal, in units of JᵀJ
  double* scaled = nullptr;   ///< flag: `scale` was set

  // The step.
  double* delta = nullptr;
  double* length = nullptr;  ///< of the step at the probe

  // Facts of the probe, which report() writes as PointReport and StepReport have them.
  double *cost = nullptr, *gradient_max = nullptr, *gradient_norm = nullptr, *x_norm = nullptr;
  double *scaled_gradient_max = nullptr, *scaled_gradient_norm = nullptr, *scaled_x_norm = nullptr;
  double *scaled_step_norm = nullptr, *step_norm = nullptr;

  // Flags that say which lanes a pass changes.
  double *arrives = nullptr, *solves = nullptr, *moves = nullptr;
  double* undetermined = nullptr;  ///< written by arrive(): a block is nearly singular

  // The linear system.
  double* lambda = nullptr;
  double* solved = nullptr;                                         ///< flag: there is a step
  double* vanished = nullptr;                                       ///< flag: a pivot was left out
  double *decrease = nullptr, *slope = nullptr, *hidden = nullptr;  ///< as in StepReport
};

/// Passes over lanes [first, last), whose results in a lane depend on that lane alone, and are the
/// same bits for every instruction set. `first` is a multiple of the widest register's numbers;
/// numbers of lanes after `last` may be read. What is written to them, and to lanes without the
/// flag of a pass as its results, means nothing.
struct LanePasses {
  /// Norms at the probe, and of the step to it.
  void (*report)(const LaneShape& shape, const LaneNumbers& at, std::size_t first,
                 std::size_t last);
  /// The same for one lane.
  void (*report_one)(const LaneShape& shape, const LaneNumbers& at, std::size_t lane);
  /// Makes the probe the point, with its scaling and damping, where `arrives` says so.
  void (*arrive)(const LaneShape& shape, const LaneNumbers& at, double* scratch, std::size_t first,
                 std::size_t last);
  /// (S JᵀJ S + λ clamp(S d S)) y = −S g, δ = S y where `solves` says so. S is 0 for coordinates
  /// that a bound holds.
  ///
  ///   scratch  (lane_scratch())
  void (*solve)(const LaneShape& shape, const LaneNumbers& at, double* scratch, std::size_t first,
                std::size_t last);
  /// The probe becomes x + length δ within the bounds where `moves` says so; blocks on manifolds
  /// stay at x.
  void (*move)(const LaneShape& shape, const LaneNumbers& at, std::size_t first, std::size_t last);
  /// (JᵀJ)⁻¹ of some lanes.
  ///
  ///   lanes     (count)
  ///   out       (count, n, n)
  ///   accurate  (count) flags: no pivot is so small that squares in JᵀJ cost many digits
  void (*covariances)(const LaneShape& shape, const LaneNumbers& at, double* scratch,
                      const std::uint32_t* lanes, std::size_t count, double* out, double* accurate);
};

/// Matrices up to this size are factorised by registers of lanes. Larger ones would leave the
/// caches, and are factorised lane by lane.
inline constexpr std::uint32_t kMostByRegisters = 64;
/// Numbers that passes need as scratch memory, aligned to 64 bytes.
std::size_t lane_scratch(std::uint32_t n);

/// Returns the passes for the newest instruction set of this processor.
const LanePasses& lane_passes();
/// Returns all that this processor can run, for tests; nullptr ends the list.
const LanePasses* const* all_lane_passes();

const LanePasses& lane_passes_baseline();
#if defined(__x86_64__)
const LanePasses& lane_passes_avx2();
const LanePasses& lane_passes_avx512();
#endif

}  // namespace topograd
