// Moves of a point to its trial point, with copies of accepted points in host memory.
#pragma once

#include "../../engine/damped_steps.hpp"
#include "../terms/part.hpp"
#include "staged_points.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace topograd::runtime::vulkan {

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
