// Evaluations by their kind: kernels that are made ahead, and times.
#pragma once

#include "damped/device_steps.hpp"
#include "terms/term_rows.hpp"

#include <map>
#include <vector>

namespace topograd::runtime::vulkan {

class EvaluationKinds final : public KernelsAhead, public Measurements, Part {
 public:
  /// All of these outlive it.
  ///
  ///   narrow  has the linear systems of steps; null: `steps` has them
  EvaluationKinds(const Part& part, TermRows& rows, TermHessians& hessians, TermSums& sums,
                  NormalProducts& products, DeviceSteps& steps, Engine* narrow)
      : Part(part),
        rows_(rows),
        hessians_(hessians),
        sums_(sums),
        products_(products),
        steps_(steps),
        narrow_(narrow) {}

  bool prepare(Pass pass) override;
  bool prepare_step() override { return steps_.prepare_ahead(); }
  Timing time(Pass pass, int warm_ups, int samples) override;
  Timing time_step(int iterations, double damping, int samples) override;
  double copy_rate() override;
  std::vector<MemoryUse> memory() const override;

 private:
  void record(CommandList& list, Pass pass);
  double time_copies();

  TermRows& rows_;
  TermHessians& hessians_;
  TermSums& sums_;
  NormalProducts& products_;
  DeviceSteps& steps_;
  Engine* narrow_;
  Derived<std::map<Pass, Preparation>> preparations_{recorder_.structure};
};

}  // namespace topograd::runtime::vulkan
