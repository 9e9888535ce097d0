// Report of a solve: result, history, backend with reason, and times.
#pragma once

#include "../frontend/host_residual.hpp"
#include "../frontend/inspect/unread_blocks.hpp"
#include "../ir/enum_table.hpp"
#include "../runtime/engine/engine_stats.hpp"
#include "../runtime/profile.hpp"
#include "constraints.hpp"
#include "options.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {

/// Reason for the end of a solve. Names are Ceres'.
enum class Termination {
  CONVERGENCE,     ///< a tolerance was met
  NO_CONVERGENCE,  ///< the bound on iterations or time was met; the parameters are usable
  FAILURE,         ///< no step could be found; the parameters hold the best accepted point
  USER_SUCCESS,    ///< a callback was satisfied
  USER_FAILURE,    ///< a callback stopped the solve
  INFEASIBLE,      ///< a constraint cannot be met; ConstrainedSummary::infeasible names it
};
TG_ENUM_NAMES(Termination)

/// Advice for the next solve, after one that reached its limit of steps.
enum class Advice {
#define TG_ADVICE(advice, sentence) advice,
#include "advice.def"
};
/// One sentence for the report; empty for none.
std::string_view text(Advice advice);

/// One trial step. Costs are those of the current point after it, never of a rejected trial.
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
  bool on_device = false;  ///< for solve(): a device ran it
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

/// Seconds of the phases of a solve, including building before it if known.
struct PhaseTimes : runtime::MakingTimes {
  double build_seconds = 0;       ///< tracing and matching residuals; set by callers
  double evaluation_seconds = 0;  ///< residuals, costs, derivatives
  double linear_solver_seconds = 0;
  double total_seconds = 0;          ///< of solve(), without build
  double device_search_seconds = 0;  ///< of looking for devices; 0: nobody looked

  PhaseTimes& operator+=(const PhaseTimes& more);
};

/// Result of SolverOptions::cross_check.
struct CrossCheck {
  std::uint64_t compared = 0;         ///< outputs
  std::uint64_t differences = 0;      ///< beyond the running error bounds of the kernels
  std::vector<std::string> messages;  ///< kernel, instance, output and values of the first of them
};

/// The parts of a problem that share no free unknown, and the results of those that were solved for
/// separately as columns by component, in the order of their first unknowns.
struct ComponentsSummary {
  bool separate = false;
  std::string why;            ///< reason for it, one line; empty: the components were not counted
  std::size_t count = 0;      ///< of components that are separate; the columns have as many entries
  std::size_t groups = 0;     ///< of components with the same structure
  std::uint32_t largest = 0;  ///< most unknowns of one
  std::vector<double> initial_cost, final_cost;
  std::vector<Termination> termination;
  std::vector<std::int32_t> successful_steps, unsuccessful_steps;
  std::vector<std::uint32_t> first_unknown;  ///< index of its first free scalar in x
  /// With SolverOptions::component_covariances: (JᵀJ)⁻¹ of component k over its free coordinates is
  /// covariance[covariance_start[k]] and what follows, row by row. It is infinite where JᵀJ is
  /// singular.
  std::vector<std::uint64_t> covariance_start;
  std::vector<double> covariance;
};

/// Result of SolverOptions::profile, beside Summary::kernels.
struct ProfileSummary {
  bool measured = false;
  double step_us = 0;  ///< wall time of the minimisation: the first linearisation and all steps
  /// Bytes per second, read and written, of a copy where the kernels ran; 0: unknown.
  double copy_rate = 0;
  std::string
      note;  ///< why kernels of a device have no times; empty: they have, or there were none
  /// Bars for a trace, on a clock that begins with solve(); `row` is that of Summary::kernels.
  std::vector<runtime::ProfileEvent> events;
  std::uint64_t events_left_out = 0;  ///< after the first Profile::kMostEvents
};

struct Summary : runtime::EngineCounts {
  Termination termination = Termination::FAILURE;
  std::string message;           ///< reason for the end, one line
  Advice advice = Advice::none;  ///< advice for the next solve
  double initial_cost = 0;       ///< ½ Σ r² and the energies, without penalties of constraints
  double final_cost = 0;
  double optimality =
      std::numeric_limits<double>::quiet_NaN();  ///< projected gradient at the end in a scale-free
                                                 ///< measure; NaN if unknown
  int num_successful_steps = 0;                  ///< accepted
  int num_unsuccessful_steps = 0;                ///< rejected or invalid
  int num_nonfinite_steps = 0;    ///< of the unsuccessful ones: the trial cost was not finite
  int num_repeated_steps = 0;     ///< of the successful ones: a device lost their points
  int num_escapes = 0;            ///< of the successful ones: away from a saddle or concave kink
  int num_linear_iterations = 0;  ///< of CG, in all steps
  /// Number of instances whose `if` took another branch than in their trace, over all evaluations
  /// repeated for this, and of those that were traced again and stayed so (not for a rejected
  /// step).
  std::uint64_t num_flips = 0, num_retraces = 0;
  std::vector<IterationSummary> iterations;

  int resumed_step = -1;           ///< the step after which a checkpoint continued; -1: none did
  double resumed_seconds = 0;      ///< of the solves before it
  std::string checkpoint_note;     ///< how many were written, and the last one; empty: none
  std::string checkpoint_warning;  ///< why the last one could not be written; empty: it was

  std::string backend;     ///< for the kernels: "cpu" or "vulkan"
  bool on_device = false;  ///< not the CPU
  std::string device;      ///< its name
  std::string why;         ///< reason for the backend, one line
  Precision precision = Precision::f64;
  bool emulated_float64 = false;                     ///< the device's f64 was by 32-bit integers
  Method method = Method::levenberg_marquardt;       ///< the method in use
  std::string method_note;                           ///< reason, if it was not asked for
  Method step_method = Method::levenberg_marquardt;  ///< of methods with constraints: the inner one
  LinearSolver linear_solver = LinearSolver::pcg;    ///< the solver in use
  std::string linear_solver_note;          ///< reason and cost; empty: the device's default
  FactorPlace factor = FactorPlace::host;  ///< of cholesky: where it was made
  std::string factor_note;                 ///< reason
  /// Bytes of the buffers of a factor on a device, and the bytes that its plan predicted.
  std::uint64_t factor_bytes = 0, predicted_factor_bytes = 0;
  Preconditioner preconditioner = Preconditioner::block_jacobi;  ///< of pcg: the last one in use
  std::string preconditioner_note;                               ///< reason and cost
  NormalMatrix normal_matrix = NormalMatrix::matrix_free;        ///< of pcg
  std::string normal_matrix_note;                                ///< size, or reason against it
  std::string accumulation;  ///< accumulation strategy for gradients
  runtime::PlanRecord plan;  ///< sums of batches, with reasons

  std::uint64_t unknowns = 0;        ///< free scalars
  std::uint64_t parameters = 0;      ///< scalars
  std::uint64_t residuals = 0;       ///< scalar rows
  std::uint64_t left_out = 0;        ///< of them: rows with weight 0, which are no data
  std::uint64_t read_unknowns = 0;   ///< free coordinates that the other rows, or energies, read
  std::uint64_t host_residuals = 0;  ///< blocks of opaque code, which ran on the host
  std::vector<LongExpression> long_expressions;  ///< what of them is the library's own
  std::vector<SharedValues> shared_values;       ///< marked by shared(): stored or inlined
  std::uint64_t energies = 0;
  std::vector<TopologySummary> topologies;
  std::vector<UnreadBlock> unread_blocks;  ///< blocks that nothing reads: unchanged
  std::vector<std::string> unread_names;   ///< names of the first of them in messages

  ComponentsSummary components;
  CrossCheck cross_check;
  ConstrainedSummary constrained;  ///< of augmented_lagrangian and barrier

  /// With SolverOptions::profile: kernels and passes, the longest first. Their times add up to
  /// ProfileSummary::step_us; the row of TimedWork::rest is what no other one explains.
  std::vector<runtime::KernelTime> kernels;
  ProfileSummary profile;

  PhaseTimes times;
  /// Seconds of the linear solver in a step on the CPU, as `automatic` predicted them when it
  /// compared these two; 0: it did not.
  double expected_cholesky_seconds = 0, expected_pcg_seconds = 0;

  /// Adds an engine's counters and construction times.
  void add(const runtime::EngineStats& stats);
  /// Rows that are data and active constraints that do not depend on others, less the unknowns that
  /// they read; at least 0. Bounds do not count.
  std::uint64_t degrees_of_freedom() const;
  /// Accepted and rejected steps.
  int num_iterations() const { return num_successful_steps + num_unsuccessful_steps; }
  /// Seconds of the linear solver in a step, the mean of all steps; 0 without steps.
  double linear_seconds_of_step() const {
    return num_iterations() > 0 ? times.linear_solver_seconds / num_iterations() : 0;
  }
  /// True if the parameters are at least as good as at the start.
  bool is_solution_usable() const {
    return termination != Termination::FAILURE && termination != Termination::USER_FAILURE &&
           termination != Termination::INFEASIBLE;
  }
  /// One line.
  std::string brief_report() const;
  /// Some thirty lines: sizes, backend and reason, costs, steps, times, counters.
  std::string full_report() const;
};

/// Adds the steps, counters and times of a solve to those of another one.
void add_counts(Summary& total, const Summary& more);

/// Summary::method, or the method of the minimisations of augmented_lagrangian or barrier.
inline Method step_method(const Summary& of) {
  return takes_constraints(of.method) ? of.step_method : of.method;
}

/// Derives advice from the history: the decrease of the cost in the last steps, the number of
/// rejected ones, and the model's predictions.
Advice advise(const Summary& summary);

/// Number of unread blocks that Summary::unread_names and reports name.
inline constexpr std::size_t kMostUnreadNames = 4;

/// Name of the solver of steps: `linear_solver`, or "none" if steps follow gradients.
std::string_view linear_solver_name(const Summary& summary);

/// Summary::kernels as a table; empty without SolverOptions::profile.
std::string profile_table(const Summary& summary);
/// Share of the steps' time that named kernels and passes explain, 0 to 1.
double explained_share(const Summary& summary);

/// The history as a table, one line per iteration.
std::string history_table(const Summary& summary);

/// The summary as JSON, one object: initial_cost, final_cost, iterations (accepted + rejected),
/// termination, message, backend, device, why, precision, topologies [{hash, name, instances,
/// outputs}], unknowns, residuals, left_out, degrees_of_freedom, build_s, plan_s, compile_ms (the
/// sum of glsl, spirv and pipeline, which are also there), solve_s, counters, and history [{cost,
/// gradient_norm, step_norm, radius, linear_iterations, step_time_s, time_s (since the start),
/// ...}]. Numbers that are not finite are null.
///
///   indent  spaces per level; -1 = one line
std::string to_json(const Summary& summary, int indent = 2);

}  // namespace topograd
