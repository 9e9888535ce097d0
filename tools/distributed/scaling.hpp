// Measures and predictions of `check scaling`.
#pragma once

#include "../../distributed/communicator.hpp"
#include "../command/check/check_scaling.hpp"

#include <nlohmann/json.hpp>

#include <span>

namespace topograd::command {

class Scaling final : public ScalingMeter {
 public:
  ///   ranks  outlives it
  explicit Scaling(const distributed::Communicator& ranks) : ranks_(ranks) {}

  bool speaks() const override { return ranks_.rank() == 0; }
  nlohmann::ordered_json measure(std::span<const ScaledProblem> problems, int most_ranks,
                                 int iterations) override;

 private:
  const distributed::Communicator& ranks_;
};

}  // namespace topograd::command
