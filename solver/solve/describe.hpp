// Parts of a solve's report and messages: its problem, model and plan.
#pragma once

#include "../../frontend/inspect/unread_blocks.hpp"
#include "../../runtime/model/model.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"
#include "../summary.hpp"
#include "solve_session.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

std::vector<TopologySummary> topologies_of(const ProblemModel& model);
/// What the residuals of all processes read.
struct ProblemReads {
  std::vector<UnreadBlock> unread;  ///< blocks that nothing reads
  std::uint64_t left_out = 0;       ///< rows with weight 0
  std::uint64_t unknowns = 0;       ///< free coordinates that other rows, or energies, read
};

/// The reads of the model's problem, in its present state.
class ReadsOfModel {
 public:
  const ProblemReads& of(const ProblemModel& model);

 private:
  ProblemReads reads_;
  bool known_ = false;
  Versions versions_;  // that they are of
};

/// Sets the summary's fields of the problem, at the start of a solve.
void describe_problem(SolveState& state, const ProblemReads& reads);

/// Sets the summary's fields of the factor.
void describe_factor(const Plan& plan, const SolverOptions& options, Summary& summary);

/// The message of a failed allocation, with alternatives that need less.
std::string out_of_memory(const runtime::Model& model);

/// In a handler: the message of the error that is handled.
std::string text_of_current_error();

/// Fills Summary::kernels and Summary::profile.
///
///   copy_rate  of the backend of the kernels, in bytes per second; 0: unknown
void describe_profile(const runtime::Profile& profile, double copy_rate, Summary& summary);

}  // namespace topograd
