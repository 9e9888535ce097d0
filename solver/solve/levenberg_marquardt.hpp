// The outer loop of nonlinear least squares: damped steps, accepted or rejected by their gain.
#pragma once

#include "../checkpoint/checkpoints.hpp"
#include "../linear/step_solver.hpp"
#include "../model/exact_model.hpp"
#include "../model/inspect.hpp"
#include "../model/model.hpp"
#include "../options.hpp"
#include "../session/engines.hpp"
#include "../step_control/lost_columns.hpp"
#include "../step_control/solve_control.hpp"
#include "../step_control/step_rules.hpp"
#include "../step_control/trust_region.hpp"
#include "../summary.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// Levenberg–Marquardt and Gauss–Newton with step control, on whatever engine holds the point.
///
/// A trial with a non-finite cost is a rejected step. A rejected step ends the solve only where it
/// was the first trial from its point, and model and cost agree that nothing is left to gain: a
/// step that is tiny because earlier ones were rejected says nothing about the parameters.
///
/// The model does not contain the penalties of inequalities that become active along a step. Such a
/// step, if it would be refused, is cut back first; the radius falls as for a refused one.
///
/// Source: Nocedal and Yuan, Combining trust region and line search techniques (1998), for these
/// cuts; Ceres Solver's TrustRegionMinimizer for tolerances, radius and their order.
class Minimizer {
 public:
  /// `options` are resolved; all of these outlive the Minimizer.
  ///
  ///   checkpoints  null: none are written, and nothing is resumed
  Minimizer(const SolverOptions& options, const ProblemModel& model, Summary& summary,
            Checkpoints* checkpoints = nullptr);

  /// Minimises from the point of engines.here() until a rule ends it; fills in costs, history,
  /// steps, termination and message. The engine that serves then is left at the best accepted
  /// point.
  ///
  /// After an Error of an engine it may be called again with other engines that hold the same
  /// point; radius and history go on.
  ///
  /// Throws Error{NonFinite} that names the residual if cost or gradient are not finite or a loss
  /// decreases at the start, and what the engine throws.
  void run(Engines& engines, StepSolver& solver);
  /// The accepted point of least cost where steps have raised it since; else empty.
  const std::vector<double>& best() const { return best_; }

 private:
  void start(Engines& engines, StepSolver& solver);
  void advance(Engines& engines, StepSolver& solver);
  void step(Engines& engines, StepSolver& solver);
  /// A step of the exact model, where those of the linear one are short. False if there is none.
  bool curve(Engines& engines, StepSolver& solver);
  struct Taken {
    bool shortened;       ///< by shorten()
    double damped_share;  ///< of the full step
  };
  void take(Engines& engines, StepSolver& solver, Trial trial, const StepFacts& facts,
            const Taken& taken);
  void rescale(Trial& trial);
  bool shorten(Trial& trial);
  void check_range(runtime::Engine& engine);
  /// Finds what rounding hides at the point, row by row, where a verdict may depend on it.
  void find_row_noise(runtime::Engine& engine);
  /// Asks second derivatives where a verdict depends on them.
  ///
  ///   change  of the cost, by the last step
  void find_exact_gain(Engines& engines, StepSolver& solver, double change);
  ColumnFacts column_facts() const;
  ///   asked  as for exact_gain()
  void ask_exact_model(Engines& engines, StepSolver& solver,
                       std::span<const LeastCurvature> asked = {});
  /// Saves or restores the state of this, the engine and the solver.
  void transfer(ir::StateRecord& record, runtime::Engine& engine, StepSolver& solver);
  /// Writes a checkpoint if one is due.
  void save(runtime::Engine& engine, StepSolver& solver);
  /// Looks at the point; what solves for steps follows it by prepare_steps(). Another engine may
  /// serve from here on.
  void linearize(Engines& engines, StepSolver& solver);
  double judged_gradient(runtime::Engine& engine, const runtime::PointReport& point) const;
  double largest_in_units(std::span<const double> x, std::span<const double> gradient) const;
  void prepare_steps(runtime::Engine& engine);
  void keep_best(runtime::Engine& engine, double trial_cost);
  void return_to_best(Engines& engines, StepSolver& solver);
  runtime::StepRequest request() const;
  /// Without one, steps are judged here: by what the engine does not know of.
  std::optional<runtime::StepRule> rule() const;
  /// A loss that decreases at the engine's point ends the solve: gradients do not show it. False
  /// if none does.
  bool refuse_decreasing_loss(runtime::Engine& engine);
  void refuse_derivatives(const std::string& why);
  void check_bounds(Engines& engines, StepSolver& solver);
  Verdict measured(Engines& engines, const Verdict& verdict);
  StepRules make_rules() const;
  void set_forcing(Engines& engines, StepSolver& solver);
  /// Unknowns whose columns may have vanished since the start.
  ///
  ///   squares  column_squares()
  std::vector<std::uint32_t> find_lost(std::span<const double> x,
                                       std::span<const double> squares) const;
  bool holds_exactly(Engines& engines, StepSolver& solver, std::span<const double> x,
                     std::span<const std::uint32_t> lost);
  /// After an end, or where steps are refused: true if the minimisation goes on from another point.
  bool reconsider(Engines& engines, StepSolver& solver);
  bool turn(Engines& engines, StepSolver& solver, const Verdict& verdict,
            std::span<const std::uint32_t> lost, std::span<const double> squares);
  void look_back(Engines& engines, StepSolver& solver);
  bool leave_valley(Engines& engines, StepSolver& solver);
  bool leave_saddle(Engines& engines, StepSolver& solver, std::span<const double> x,
                    std::span<const double> squares);
  void begin_again(Engines& engines, StepSolver& solver);
  void move_to(Engines& engines, StepSolver& solver, std::span<const double> x);
  /// The verdict, unless a step without damping shows that more is to be had.
  Verdict confirmed(Engines& engines, StepSolver& solver, const Verdict& verdict);
  void end(const Verdict& verdict);
  const runtime::PointReport& point() const { return rules_.point(); }
  void finish(Termination termination, std::string message);
  void record(IterationSummary iteration);

  const SolverOptions& options_;
  const ProblemModel& model_;
  Summary& summary_;
  Checkpoints* checkpoints_;
  SolveControl control_;
  Inspector inspector_;
  bool curvature_jumps_;  // the cost has second derivatives that jump
  StepRules rules_;
  Gain gain_;
  std::vector<double> best_;             // the point of least cost, while steps may raise it
  std::string first_nonfinite_;          // what was not finite at the first trial that was not
  std::optional<LinearizedPoint> here_;  // the point, where its numbers are finite
  bool started_ = false;
  Verdict verdict_;  // by which a rule ended it
  LostColumns lost_columns_;
  int steps_before_ = 0;               // accepted ones, when the minimisation last began
  double looked_beside_ = -1;          // cost of the point beside which leave_saddle() looked last
  bool looked_at_dependence_ = false;  // there, of columns on each other
  std::vector<double> first_, left_;   // the points of the start and of the end before a turn
};

}  // namespace topograd
