// Parts of a solve's report and messages: its problem, model and plan.
#pragma once

#include "../../frontend/inspect/unread_blocks.hpp"
#include "../../runtime/model/model.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../plan/decide.hpp"
#include "../summary.hpp"
#include "solve_state.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

std::vector<TopologySummary> topologies_of(const ProblemModel& model);
/// The blocks that no residual of any process reads.
std::vector<UnreadBlock> unread_blocks(const ProblemModel& model);

/// Blocks that nothing reads, of the model's problem in its present structure.
class UnreadBlocks {
 public:
  const std::vector<UnreadBlock>& of(const ProblemModel& model);

 private:
  std::vector<UnreadBlock> blocks_;
  std::uint64_t structure_ = ~std::uint64_t{0};  // that they are of
};

/// Sets the summary's fields of the problem, at the start of a solve.
void describe_problem(SolveState& state, std::span<const UnreadBlock> unread);

/// Sets the summary's fields of the factor.
void describe_factor(const Plan& plan, const SolverOptions& options, Summary& summary);

/// The message of a failed allocation, with alternatives that need less.
std::string out_of_memory(const runtime::Model& model);

/// In a handler: the message of the error that is handled.
std::string text_of_current_error();

}  // namespace topograd
