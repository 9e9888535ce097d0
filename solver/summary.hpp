// What a solve did: result, history, where it ran and why, and where the time went.
#pragma once

#include "../frontend/inspect/unread_blocks.hpp"
#include "../runtime/engine/engine_stats.hpp"
#include "advice.hpp"
#include "options.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// Why a solve ended. Names are Ceres'.
enum class Termination {
  CONVERGENCE,     ///< a tolerance was met
  NO_CONVERGENCE,  ///< the bound on iterations or time was met; the parameters are usable
  FAILURE,         ///< no step could be found; the parameters hold the best accepted point
  USER_SUCCESS,    ///< a callback was satisfied
  USER_FAILURE,    ///< a callback stopped the solve
};
std::string_view name(Termination termination);

/// One trial step. Costs are those of the point that is held after it, never of a rejected trial.
struct IterationSummary {
  int iteration = 0;               ///< 0 is the start
  bool step_is_valid = true;       ///< the model expected a decrease
  bool step_is_successful = true;  ///< accepted
  bool step_is_nonfinite = false;  ///< the cost at the trial point was NaN or infinite
  double cost = 0;
  double cost_change = 0;  ///< decrease from the last point to the trial, also of a rejected one
  double gradient_max_norm = 0;
  double gradient_norm = 0;
  double step_norm = 0;
  double relative_decrease = 0;    ///< gain ratio: actual over predicted decrease
  double trust_region_radius = 0;  ///< after the step
  int linear_iterations = 0;
  double step_size = 0;    ///< along the direction of a line search, or the learning rate
  int evaluations = 0;     ///< of cost and gradient by a line search
  bool on_device = false;  ///< of solve(): a device ran it
  double iteration_time_in_seconds = 0;
  double cumulative_time_in_seconds = 0;
};

/// One topology of the problem.
struct TopologySummary {
  std::string hash;  ///< 32 hexadecimal digits
  std::string name;  ///< label of its residuals
  std::uint64_t instances = 0;
  std::uint32_t outputs = 0;  ///< rows of one instance
};

/// Seconds of the phases of a solve; what happened before it (build) included where it is known.
struct PhaseTimes : runtime::MakingTimes {
  double build_seconds = 0;       ///< tracing and matching residuals; set by callers who timed it
  double evaluation_seconds = 0;  ///< residuals, costs, derivatives
  double linear_solver_seconds = 0;
  double total_seconds = 0;  ///< of solve(), without build

  PhaseTimes& operator+=(const PhaseTimes& more);
};

/// What SolverOptions::cross_check found.
struct CrossCheck {
  std::uint64_t compared = 0;         ///< outputs
  std::uint64_t differences = 0;      ///< beyond the running error bounds of the kernels
  std::vector<std::string> messages;  ///< kernel, instance, output and values of the first of them
};

struct Summary : runtime::EngineCounts {
  Termination termination = Termination::FAILURE;
  std::string message;           ///< why it ended, one line
  Advice advice = Advice::none;  ///< what to do about it
  double initial_cost = 0;       ///< ½ Σ r² and the energies
  double final_cost = 0;
  int num_successful_steps = 0;    ///< accepted
  int num_unsuccessful_steps = 0;  ///< rejected or invalid
  int num_nonfinite_steps = 0;     ///< of the unsuccessful ones: the trial cost was not finite
  int num_repeated_steps = 0;      ///< of the successful ones: their points were lost with a device
  int num_escapes = 0;             ///< of the successful ones: away from a saddle or concave kink
  int num_linear_iterations = 0;   ///< of CG, in all steps
  /// Instances whose `if` went another way than they were traced, over all evaluations that were
  /// repeated for it; and those of them that were traced again and stayed so (not for a rejected
  /// step).
  std::uint64_t num_flips = 0, num_retraces = 0;
  std::vector<IterationSummary> iterations;

  std::string backend;     ///< what ran the kernels: "cpu" or "vulkan"
  bool on_device = false;  ///< not the CPU
  std::string device;      ///< its name
  std::string why;         ///< why there, one line
  Precision precision = Precision::f64;
  Method method = Method::levenberg_marquardt;     ///< the one that was used
  std::string method_note;                         ///< why it, where it was chosen for energies
  LinearSolver linear_solver = LinearSolver::pcg;  ///< the one that was used
  std::string linear_solver_note;  ///< why it, and what it took; empty: the default from the device
  Preconditioner preconditioner = Preconditioner::block_jacobi;  ///< of pcg: the last one in use
  std::string preconditioner_note;                               ///< why it, and what it took
  NormalMatrix normal_matrix = NormalMatrix::matrix_free;        ///< of pcg
  std::string normal_matrix_note;                                ///< its size, or why not
  std::string accumulation;  ///< rung of the ladder for gradients
  runtime::PlanRecord plan;  ///< how batches are summed, and why

  std::uint64_t unknowns = 0;        ///< scalars that are not held constant
  std::uint64_t parameters = 0;      ///< scalars
  std::uint64_t residuals = 0;       ///< scalar rows
  std::uint64_t host_residuals = 0;  ///< blocks of opaque code, which ran on the host
  std::uint64_t energies = 0;
  std::vector<TopologySummary> topologies;
  std::vector<UnreadBlock> unread_blocks;  ///< no residual and no energy reads them: unchanged
  std::vector<std::string> unread_names;   ///< as messages call the first of them

  CrossCheck cross_check;

  PhaseTimes times;

  /// Adds what an engine counted, and the time it took to make.
  void add(const runtime::EngineStats& stats);
  /// Accepted and rejected steps.
  int num_iterations() const { return num_successful_steps + num_unsuccessful_steps; }
  /// The parameters are at least as good as at the start.
  bool is_solution_usable() const {
    return termination != Termination::FAILURE && termination != Termination::USER_FAILURE;
  }
  /// One line.
  std::string brief_report() const;
  /// Some thirty lines: sizes, backend and reason, costs, steps, times, counters.
  std::string full_report() const;
};

/// Of the blocks that nothing reads, as many are named in Summary::unread_names and in reports.
inline constexpr std::size_t kMostUnreadNames = 4;

/// What solved for steps: the name of `linear_solver`, or "none" where they come from gradients.
std::string_view linear_solver_name(const Summary& summary);

/// The history as a table, one line an iteration.
std::string history_table(const Summary& summary);

}  // namespace topograd
