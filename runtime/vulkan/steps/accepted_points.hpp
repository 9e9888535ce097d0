// Moves of a point to its trial point, with copies of accepted points in host memory.
#pragma once

#include "../recording/recorder.hpp"
#include "../recording/step_vectors.hpp"
#include "../terms/device_model.hpp"
#include "staged_points.hpp"

#include <array>
#include <span>

namespace topograd::runtime::vulkan {

class AcceptedPoints {
 public:
  using Scalars = std::array<double, codegen::kScalarCount>;

  /// All of these outlive it.
  AcceptedPoints(Context& context, Recorder& recorder, const DeviceModel& problem,
                 const StepVectors& v)
      : context_(context), recorder_(recorder), problem_(problem), v_(v) {}

  /// Makes lists and host memory, once.
  void prepare();
  /// The list that accepts the trial point, and stages it where that is due; to be submitted next.
  const Recorded& accepting();
  /// All scalars after the last submission, which ended with their read-back. What was queued
  /// before has arrived then.
  const Scalars& read_scalars();

  StagedPoints& staged() { return *staged_; }
  const StagedPoints& staged() const { return *staged_; }
  /// As KnownPoint::last_known_point().
  bool last_known(std::span<double> x) const;

 private:
  struct Lists {
    Recorded accept;
    std::array<Recorded, 2> accept_and_stage;
  };

  Context& context_;
  Recorder& recorder_;
  const DeviceModel& problem_;
  const StepVectors& v_;
  Derived<StagedPoints> staged_{recorder_.columns};
  Derived<Lists> lists_{recorder_.columns};
};

}  // namespace topograd::runtime::vulkan
