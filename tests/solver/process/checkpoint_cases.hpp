// Solves that are interrupted and resumed: problems and options whose steps remember something.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../solver/options.hpp"
#include "../../../solver/summary.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {

/// A problem with the memory of its unknowns.
class Checkpointed {
 public:
  virtual ~Checkpointed() = default;
  virtual Problem& problem() = 0;
  std::vector<double> x();
};

struct CheckpointCase {
  std::string name;
  std::function<std::unique_ptr<Checkpointed>()> make;
  SolverOptions options;  ///< without the backend
  bool on_device = true;  ///< a device has something of its own to save
};
std::vector<CheckpointCase> checkpoint_cases();

/// The bits of one value in a solve's answer: "" or the first that differs.
std::string first_difference(const Summary& a, const std::vector<double>& x, const Summary& b,
                             const std::vector<double>& y);

/// Solves without interruption; then, for several steps, up to there with a checkpoint, and on from
/// it. x, history, counts and the reason for the end have the same bits.
void expect_resumes(const CheckpointCase& row, Backend backend);

}  // namespace topograd::test
