// Moves of a point to its trial point, within bounds and on manifolds; copies of accepted points.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "../../engine/damped_steps.hpp"
#include "../terms/device_terms.hpp"
#include "device_manifolds.hpp"

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
  /// Partial sums go to indices from `first` on.
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

struct StagedPoints {
  using Clock = std::chrono::steady_clock;

  std::array<Buffer, 2> points;
  int written = -1;                      ///< queued behind the last accept
  int arrived = -1;                      ///< known to be complete
  std::uint64_t accepted = 0;            ///< steps since the point was set
  std::array<std::uint64_t, 2> steps{};  ///< accepted steps up to each copy
  Clock::time_point last;

  /// Points up to this size are staged at every accepted step, larger ones once in the interval.
  static constexpr std::uint64_t kEveryStep = std::uint64_t{1} << 20;
  static constexpr std::chrono::seconds kInterval{1};

  bool due() const {
    return points[0].size() <= kEveryStep || written < 0 || Clock::now() - last >= kInterval;
  }
  /// The slot of a copy that is queued now, of the point after `accepted` steps.
  std::size_t begin() {
    written = arrived == 0 ? 1 : 0;
    last = Clock::now();
    const auto slot = static_cast<std::size_t>(written);
    steps[slot] = accepted;
    return slot;
  }
  /// A step was accepted that was queued before the host knew, with a copy behind it or without.
  void took(bool staged) {
    ++accepted;
    if (staged) steps[static_cast<std::size_t>(written)] = accepted;
  }
  /// The queued copy has arrived.
  void arrive() { arrived = written; }
  /// Copies of points before the next one are not of its solve.
  void forget() {
    written = arrived = -1;
    accepted = 0;
  }
  /// The last one that is complete. False, and x untouched, if there is none.
  bool read(const DeviceModel& model, std::span<double> x) const {
    if (arrived < 0) return false;
    model.read_staged(points[static_cast<std::size_t>(arrived)], x);
    return true;
  }
  std::uint64_t steps_since_arrived() const {
    return arrived < 0 ? accepted : accepted - steps[static_cast<std::size_t>(arrived)];
  }
};

class AcceptedPoints final : public KnownPoint, Part {
 public:
  using Scalars = std::array<double, codegen::kScalarCount>;

  explicit AcceptedPoints(const Part& part) : Part(part) {}

  /// The point is x from here on.
  void set(std::span<const double> x) {
    problem_.write(v_.x, x);
    known_->reset();
  }
  /// Report of a point that the device moved to itself, until it is taken.
  std::optional<PointReport>& known() { return *known_; }

  /// Makes lists and host memory, once.
  void prepare();
  /// The list that accepts the trial point, and stages it where that is due; to be submitted next.
  const Recorded& accepting();
  /// All scalars after the last submission, which ended with their read-back. Copies that were
  /// queued before have arrived then.
  const Scalars& read_scalars();

  StagedPoints& staged() { return *staged_; }
  bool last_known_point(std::span<double> x) override;
  std::uint64_t steps_after_known_point() const override { return staged_->steps_since_arrived(); }

 private:
  struct Lists {
    Recorded accept;
    std::array<Recorded, 2> accept_and_stage;
  };

  Derived<StagedPoints> staged_{recorder_.columns};
  Derived<Lists> lists_{recorder_.columns};
  Derived<std::optional<PointReport>> known_{recorder_.kernels};
};

}  // namespace topograd::runtime::vulkan
