// Moves of a point to its trial point, within bounds and on manifolds.
#pragma once

#include "../terms/device_terms.hpp"
#include "device_manifolds.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace topograd::runtime::vulkan {

/// On manifolds conjugate gradients run in tangent coordinates, kernels of residuals in those of x.
class PointMoves : Part {
 public:
  explicit PointMoves(const Part& part) : Part(part) {}

  /// For a model that has just been arranged, whose vectors are there.
  void build();
  /// Bounds of the model, which are others.
  void write_bounds();

  bool bounded() const { return !problem_.model().lower.empty(); }
  bool on_manifolds() const { return problem_.model().manifolds != nullptr; }
  /// True if some scalars that are not constant take no part in steps.
  bool has_bounds_or_manifolds() const { return bounded() || on_manifolds(); }

  /// Norms of x and of the gradient.
  void record_norms(CommandList& list);
  void record_scaled_norms(CommandList& list);
  /// Gradient and diagonal blocks in tangent coordinates.
  void record_tangents(CommandList& list);
  /// The direction in coordinates of x.
  const Buffer& record_expanded(CommandList& list, const Buffer& direction);
  /// A vector in coordinates of x comes back to tangent coordinates, with a barrier behind it.
  void record_contracted(CommandList& list, const Buffer& vector);
  /// Vectors of a matrix that record_matrix_contracted() changes; there are none without manifolds.
  DeviceManifolds::MatrixVectors matrix_vectors(const BlockRows& matrix) const;
  /// The blocks of a matrix off its diagonal come to tangent coordinates. Begins with a barrier of
  /// its own, ends with one to come.
  void record_matrix_contracted(CommandList& list, const DeviceManifolds::MatrixVectors& vectors,
                                const Buffer& matrix) const;
  /// trial = x + length δ, with its report.
  void record(CommandList& list, codegen::Scalar length);

 private:
  using Scalar = codegen::Scalar;

  void make_bounds();
  void make_manifolds();
  /// gradient = 0 where fixed; result = x less the point that −g leads to, bounds apart.
  void record_gradient_moves(CommandList& list);
  /// The same with bounds: also finds the scalars that they hold.
  void record_bounded_norms(CommandList& list, const Buffer& gradient, const Buffer& fixed);
  /// Partial sums go to places from `first` on.
  void record_trial(CommandList& list, std::uint32_t first);
  void record_bounded_trial(CommandList& list, const Buffer& point, std::uint32_t first,
                            Scalar length);
  /// trial = its projection on the box, with the model's decrease and the slope.
  void record_into_box(CommandList& list, std::uint32_t first);
  void record_move_on_manifolds(CommandList& list, Scalar length);

  Buffer lower_, upper_;  // if there are bounds
  std::unique_ptr<DeviceManifolds> manifolds_;
  Buffer ambient_;      // a direction, on manifolds
  Buffer off_tangent_;  // u32 by scalar: fixed, or behind a block's tangent coordinates
};

}  // namespace topograd::runtime::vulkan
