// Minimises the components of one group side by side, each by its own steps.
#pragma once

#include "../linear/projected_step.hpp"
#include "../options.hpp"
#include "../step_control/step_rules.hpp"
#include "../summary.hpp"
#include "groups.hpp"
#include "lane_kernel.hpp"

#include <Eigen/Core>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace topograd {

/// What all threads share that minimise the components of a group. Read-only.
class LaneProgram {
 public:
  /// Both outlive it.
  ///
  ///   lower, upper  by scalar of x, or of its first numbers, which then repeat; or empty
  LaneProgram(const ComponentGroup& group, const SolverOptions& options,
              std::span<const double> lower, std::span<const double> upper);

  const ComponentGroup& group() const { return *group_; }
  const SolverOptions& options() const { return *options_; }
  const LaneKernel& kernel(std::size_t k) const { return kernels_[k]; }
  bool has_lower() const { return !lower_.empty(); }
  bool has_upper() const { return !upper_.empty(); }
  /// Bounds of a place in x.
  double lower(std::size_t place) const { return lower_[place % lower_.size()]; }
  double upper(std::size_t place) const { return upper_[place % upper_.size()]; }
  /// The scalar at these places has the same bounds in all components.
  bool shares_bounds(const Places& places) const {
    const auto repeats = [&](std::span<const double> bounds) {
      return bounds.empty() || (places.list.empty() && places.step % bounds.size() == 0);
    };
    return repeats(lower_) && repeats(upper_);
  }
  /// Scalars that are not fixed: those over which kernels add up JᵀJ.
  std::uint32_t free_scalars() const { return free_; }
  /// Number of a scalar among them.
  std::uint32_t free_number(std::uint32_t scalar) const { return free_number_[scalar]; }
  /// Sums of a component: twice its cost, its gradient, the upper triangle of JᵀJ by rows.
  std::uint32_t sums() const { return 1 + free_ + free_ * (free_ + 1) / 2; }
  std::uint32_t entry(std::uint32_t a, std::uint32_t b) const;
  /// Most unknowns for which QR of the Jacobian serves.
  std::uint32_t most_by_rows() const { return most_by_rows_; }
  /// Of the rules of each component.
  StepRules::Terms terms() const;
  /// Most lanes whose numbers stay in a thread's cache; not more than so many components need.
  std::size_t lanes(std::size_t components) const;

  /// x ⊞ δ and its derivative, for a block on a manifold.
  struct Manifold {
    std::size_t block = 0;
    runtime::cpu::TileKernel<double> plus, basis;
  };
  const std::vector<std::unique_ptr<Manifold>>& manifolds() const { return manifolds_; }

 private:
  const ComponentGroup* group_;
  const SolverOptions* options_;
  std::span<const double> lower_, upper_;
  std::vector<LaneKernel> kernels_;
  std::vector<std::unique_ptr<Manifold>> manifolds_;
  std::uint32_t free_ = 0, most_by_rows_ = 0;
  std::vector<std::uint32_t> free_number_;
  std::size_t most_lanes_ = 0;
};

/// What a component's solution leaves.
struct ComponentResult {
  double initial_cost = 0, final_cost = 0, optimality = 0;
  int successful = 0, unsuccessful = 0, nonfinite = 0;
  End end = End::none;
  bool by_rows = false;                ///< some steps by QR of the Jacobian
  std::span<const double> covariance;  ///< (columns, columns), if it was asked for
};

/// Receives results; called on the threads that have them, once for each component.
class ComponentSink {
 public:
  virtual ~ComponentSink() = default;
  ///   x  the scalars of the component
  virtual void finish(const ComponentGroup& group, std::size_t component, std::span<const double> x,
                      const ComponentResult& result) = 0;
  /// True if components should end after their steps. Called on all threads.
  virtual bool should_end() const { return false; }
};

/// Points to which the components of a group have walked on a device, and how. Costs and ends are
/// in the device's precision.
struct Walks {
  std::vector<double> x;             ///< scalars of each component, one component after the other
  std::vector<double> initial_cost;  ///< infinite: it could not begin
  std::vector<double> final_cost;
  std::vector<End> end;                          ///< none: by no rule that gives a verdict
  std::vector<std::int32_t> accepted, rejected;  ///< steps

  bool began(std::size_t component) const {
    return initial_cost[component] < std::numeric_limits<double>::infinity();
  }
};

/// Minimises components of a group, on the calling thread. A component that has ended makes room
/// for the next one, and each follows the rules of a solve of its own. What happens in one lane
/// depends on its own component alone.
class LaneSolver {
 public:
  using Clock = std::chrono::steady_clock;

  ///   lanes  how many work at once, a multiple of kLanes
  LaneSolver(const LaneProgram& program, std::size_t lanes, bool covariances);
  ~LaneSolver();

  std::size_t lanes() const { return lanes_; }

  /// Minimises components [first, last) of the group from their places in x.
  ///
  ///   begin  of the time limit
  ///   walks  points from which they go on, as if the steps to them had been its own; or null
  void run(std::size_t first, std::size_t last, std::span<const double> x, Clock::time_point begin,
           ComponentSink& sink, const Walks* walks = nullptr);

 private:
  struct Point;
  struct Lane;
  enum class Phase : std::uint8_t { start, trial, longer, search, confirm };

  // Numbers of all lanes, by column.
  double* column(std::size_t k) { return columns_.data() + k * lanes_; }
  void make_columns();
  const double* constant(const double* from);
  void bind();
  runtime::cpu::Binding<double> binding_of(const ComponentRows& rows, std::size_t& load);
  void load(std::size_t at, std::size_t component);
  void move_lane(std::size_t from, std::size_t to);
  void evaluate();
  void move_on_manifold(const LaneProgram::Manifold& on);
  void find_bases();

  // One lane.
  void read_sums(std::size_t at, Point& to) const;
  Eigen::MatrixXd basis(std::span<const double> entries) const;
  Eigen::MatrixXd basis_at(const Lane& lane) const;
  void read_sums_on_manifolds(std::size_t at, Point& to) const;
  void consume(std::size_t at);
  void begin(std::size_t at);
  void judge(std::size_t at);
  void accept(std::size_t at, const StepFacts& facts);
  double free_gradient(const Lane& lane, const Point& point, std::uint32_t scalar) const;
  runtime::PointReport report_of(const Lane& lane, const Point& point) const;
  void add_scaled_norms(const Lane& lane, const Point& point, runtime::PointReport& out) const;
  bool is_held(const Lane& lane, const Point& point, std::uint32_t scalar) const;
  void set_scale(Lane& lane);
  void set_damping(Lane& lane);
  bool is_determined(const Lane& lane, std::uint32_t first, std::uint32_t width);
  void find_undetermined(Lane& lane);
  bool solve(Lane& lane);
  bool solve_undamped(Lane& lane);
  bool factor_and_solve(Lane& lane, const runtime::StepRequest& request, double units);
  void set_scaling(Lane& lane) const;
  void build_system(const Lane& lane, const runtime::StepRequest& request, bool small);
  bool factor(double vanishing);
  double substitute();
  bool solve_by_rows(Lane& lane, runtime::StepRequest request);
  bool refuse_underflow(Lane& lane);
  bool refuse_walk(Lane& lane);
  void rows_at(const Lane& lane, Eigen::VectorXd& residuals, Eigen::MatrixXd* jacobian) const;
  void step(std::size_t at);
  void try_length(std::size_t at, double length);
  double step_norm(const Lane& lane) const;
  void end_if(std::size_t at, const Verdict& verdict);
  void check(std::size_t at);
  void judge_verdict(std::size_t at);
  void end(Lane& lane);
  void give_result(Lane& lane);
  void find_covariance(const Lane& lane);

  const LaneProgram& program_;
  const ComponentGroup& group_;
  const SolverOptions& options_;
  bool covariances_;
  std::size_t lanes_;
  std::uint32_t n_;  // coordinates

  runtime::cpu::Column<double> columns_;
  std::map<const double*, std::unique_ptr<runtime::cpu::Column<double>>> constants_;  // by number
  std::size_t x_ = 0, sums_ = 0, here_ = 0, delta_ = 0, moved_ = 0, bases_ = 0;
  std::size_t basis_entries_ = 0;
  struct DataColumn {
    std::size_t column = 0;
    const ComponentNumbers* numbers = nullptr;
  };
  std::vector<DataColumn> loads_;
  std::vector<runtime::cpu::Binding<double>> bindings_;  // by residual block of the group
  std::vector<std::uint32_t> lane_index_;
  runtime::cpu::Worker<double> worker_;

  std::vector<Lane> lanes_now_;  // by position
  std::size_t active_ = 0;
  std::size_t next_ = 0, last_ = 0;
  std::span<const double> start_;
  const Walks* walks_ = nullptr;
  ComponentSink* sink_ = nullptr;
  double seconds_ = 0;
  bool interrupted_ = false;
  std::vector<double> numbers_;  // of all lanes' points
  std::vector<double> matrix_, solution_, limits_, covariance_;
};

}  // namespace topograd
