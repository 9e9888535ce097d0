// Minimises the components of one group side by side, each by its own steps.
#pragma once

#include "../linear/projected_step.hpp"
#include "../options.hpp"
#include "../step_control/lost_columns.hpp"
#include "../step_control/newton_decrement.hpp"
#include "../step_control/step_rules.hpp"
#include "../summary.hpp"
#include "groups.hpp"
#include "lane_kernel.hpp"
#include "lane_passes.hpp"

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
  /// Bounds of a scalar of x.
  double lower(std::size_t x_index) const { return lower_[x_index % lower_.size()]; }
  double upper(std::size_t x_index) const { return upper_[x_index % upper_.size()]; }
  /// The scalar at these positions has the same bounds in all components.
  bool shares_bounds(const Positions& positions) const {
    const auto repeats = [&](std::span<const double> bounds) {
      return bounds.empty() || (positions.list.empty() && positions.step % bounds.size() == 0);
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
  /// The component's sums to which a block adds, by the sums of its kernel.
  std::vector<std::uint32_t> sums_of(const ComponentRows& rows) const;
  /// Most numbers that the steps of a kernel's loop hand on.
  std::uint32_t carried() const;
  /// Most unknowns for which QR of the Jacobian serves.
  std::uint32_t most_by_rows() const { return most_by_rows_; }
  /// Of the rules of each component.
  StepRules::Terms terms() const;
  /// Some of its residuals may have corners.
  bool has_corners() const { return has_corners_; }
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
  bool has_corners_ = false;
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
  /// So many more have finished.
  virtual void count(std::size_t /*finished*/) {}
  /// True if components should end after their steps. Called on all threads.
  virtual bool should_end() const { return false; }
};

/// Points at which a device has ended the components of a group, and how. Costs and ends are
/// in the device's precision.
struct DeviceMinima {
  codegen::Precision precision = codegen::Precision::f64;  ///< of the device's numbers
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

  /// Minimises components [first, last) of the group from their values in x.
  ///
  ///   begin  of the time limit
  ///   minima  points from which they go on, as if the steps to them had been its own; or null
  void run(std::size_t first, std::size_t last, std::span<const double> x, Clock::time_point begin,
           ComponentSink& sink, const DeviceMinima* minima = nullptr);

 private:
  struct Lane;
  enum class Phase : std::uint8_t {
    start,
    trial,
    longer,
    search,
    confirm,
    exact,
    saddle,
    leave,
    turn,
    back
  };
  /// The step that a lane asks for: of the linear model, or of second derivatives.
  enum class Solve : std::uint8_t { none, damped, undamped, exact };

  // Numbers of all lanes, by column.
  void make_shape();
  void make_columns();
  const double* constant(const double* from);
  void bind();
  /// Columns of a residual block: its data and uniforms, and the component's sums to which it adds.
  struct RowColumns {
    std::vector<const double*> data;
    std::vector<std::uint32_t> sums;
  };
  void bind_rows(const ComponentRows& rows, std::size_t& load);
  void bind_step(const ComponentRows& rows, const RowColumns& columns, std::size_t part,
                 std::uint32_t step, std::size_t reads, std::size_t writes);
  void load(std::size_t at, std::size_t component);
  void load_data();
  void load_start(std::size_t at);
  bool load_minimum(std::size_t at);
  void move_lane(std::size_t from, std::size_t to);
  void evaluate();
  void move_on_manifold(const LaneProgram::Manifold& on);
  void find_bases();
  void read_sums_on_manifolds(std::size_t at);
  void arrive();
  void solve();
  void end_lanes();

  // One lane.
  /// A number of one of the columns that begin at `first`.
  double& number(double* first, std::size_t k, std::size_t at) const {
    return first[k * stride_ + at];
  }
  double& entry(std::uint32_t i, std::uint32_t j, std::size_t at) const;
  /// Numbers of the upper triangle of a matrix over the coordinates.
  std::size_t triangle() const { return std::size_t{n_} * (n_ + 1) / 2; }
  void keep_probe(std::size_t at);
  void take_kept(std::size_t at);
  std::vector<double> point(std::size_t at) const;
  std::vector<double> scalars_of(std::size_t at, double* columns) const;
  Eigen::MatrixXd basis(std::span<const double> entries) const;
  std::vector<double> outputs_of(const runtime::cpu::TileKernel<double>& kernel,
                                 std::span<const double> numbers);
  template <class Visit>
  void for_outputs(const runtime::cpu::TileKernel<double>& kernel,
                   std::span<const std::vector<double>> numbers, const Visit& visit);
  Eigen::MatrixXd basis_at(std::span<const double> x);
  void consume(std::size_t at);
  void begin(std::size_t at);
  void judge(std::size_t at);
  void accept(std::size_t at, const StepFacts& facts);
  void move_here(std::size_t at);
  runtime::PointReport report_of(std::size_t at) const;
  void raise_damping(std::size_t at);
  void ask(std::size_t at, Solve what);
  void take_solution(std::size_t at);
  static void set_model(Lane& lane, double decrease, double slope, double hidden);
  bool read_solution(std::size_t at);
  void refuse_system(std::size_t at);
  bool take_rows(std::size_t at, bool solved);
  Eigen::VectorXd scaling(std::size_t at) const;
  bool solve_by_rows(std::size_t at);
  bool refuse_underflow(std::size_t at);
  bool refuse_minimum(std::size_t at);
  bool may_end_as_device(std::size_t at) const;
  void rows_at(std::size_t at, std::span<const double> x, Eigen::VectorXd& residuals,
               Eigen::MatrixXd* jacobian);
  std::vector<double> leaves_of(const ComponentRows& rows, std::size_t component,
                                std::span<const double> x) const;
  Eigen::MatrixXd hessian_at(std::size_t at, std::span<const double> x);
  /// Columns of a point.
  struct PointColumns {
    double *x, *gradient, *matrix;
  };
  PointColumns probe_columns() const { return {numbers_.x, numbers_.gradient, numbers_.matrix}; }
  PointColumns here_columns() const {
    return {numbers_.here_x, numbers_.here_gradient, numbers_.here_matrix};
  }
  bool is_held(std::size_t at, std::uint32_t scalar, double x, double g) const;
  bool has_exact_model() const { return !group_.on_manifolds && n_ <= kMostCurved; }
  std::optional<QuadraticModel> exact_model(std::size_t at, const PointColumns& from);
  void find_exact_gain(std::size_t at, double change, const PointColumns& from);
  double exact_gain(std::size_t at, const PointColumns& from,
                    std::span<const LeastCurvature> asked = {});
  bool curve(std::size_t at);
  void judge_exact(std::size_t at);
  void set_direction(std::size_t at, std::span<const std::uint32_t> unknowns,
                     const Eigen::VectorXd& direction);
  bool leave_saddle(std::size_t at);
  bool curve_away(std::size_t at, std::span<const std::uint32_t> vanished);
  bool step_beside(std::size_t at, std::span<const std::uint32_t> vanished);
  std::vector<std::uint32_t> find_vanished(std::size_t at) const;
  std::vector<std::uint32_t> find_kinks(std::size_t at);
  /// A scalar of a component and its value beside a point.
  struct Beside {
    std::uint32_t scalar;
    double value;
  };
  std::vector<double> costs_beside(std::size_t at, std::span<const Beside> probes);
  bool is_nowhere(std::size_t at) const;
  void look_beside_saddle(std::size_t at);
  void leave(std::size_t at);
  void stay(std::size_t at);
  void begin_again(std::size_t at, const runtime::PointReport& report, int shortness = 0);
  bool is_settled(std::size_t at);
  void end_unsettled(std::size_t at);
  void step(std::size_t at);
  void try_length(std::size_t at, double length);
  void end_if(std::size_t at, const Verdict& verdict);
  void check(std::size_t at);
  void judge_verdict(std::size_t at);
  void find_covariance(std::size_t at, double* out);
  double way(std::size_t at, std::uint32_t k) const;
  bool may_be_lost(std::size_t at, std::uint32_t k) const;
  bool holds_exactly(std::size_t at, std::span<const std::uint32_t> lost);
  std::vector<std::uint32_t> find_lost(std::size_t at) const;
  void go_to(std::size_t at, Phase phase);
  bool settle_turn(std::size_t at, bool stuck, bool lost);
  void reconsider(std::size_t at);
  void probe_lost(std::size_t at);
  void turn(std::size_t at);
  void go_back(std::size_t at);

  const LaneProgram& program_;
  const ComponentGroup& group_;
  const SolverOptions& options_;
  bool covariances_;
  std::size_t lanes_, stride_;
  std::uint32_t n_;  // coordinates

  runtime::cpu::Column<double> columns_;
  std::map<const double*, std::unique_ptr<runtime::cpu::Column<double>>> constants_;  // by number
  LaneShape shape_;
  std::vector<LaneShape::Coordinate> coordinates_;
  std::vector<std::uint32_t> free_;
  std::vector<LaneShape::Block> tested_;
  const LanePasses& passes_;
  LaneNumbers numbers_;
  double *kept_x_ = nullptr, *kept_gradient_ = nullptr, *kept_matrix_ = nullptr;
  double *lower_ = nullptr, *upper_ = nullptr;  // by scalar
  double* sums_ = nullptr;
  double* carried_[2] = {nullptr, nullptr};  // what steps of loops read and write, in turns
  double *shift_ = nullptr, *moved_ = nullptr, *bases_ = nullptr;  // of blocks on manifolds
  std::size_t basis_entries_ = 0;
  runtime::cpu::Column<double> scratch_;
  struct DataColumn {
    double* column = nullptr;
    const ComponentNumbers* numbers = nullptr;
  };
  std::vector<DataColumn> loads_;
  struct Loaded {
    std::size_t at = 0, component = 0;
  };
  std::vector<Loaded> loaded_;  // lanes without their data
  /// Kernels in the order in which they run, with their columns.
  struct Run {
    const runtime::cpu::TileKernel<double>* kernel = nullptr;
    runtime::cpu::Binding<double> binding;
  };
  std::vector<Run> runs_;
  std::vector<std::uint32_t> lane_index_;
  runtime::cpu::Worker<double> worker_;

  std::vector<Lane> lanes_now_;  // by position
  std::size_t active_ = 0;
  std::size_t next_ = 0, last_ = 0;
  std::span<const double> start_;
  const DeviceMinima* minima_ = nullptr;
  ComponentSink* sink_ = nullptr;
  double seconds_ = 0;
  bool interrupted_ = false;
  std::vector<std::uint32_t> ended_;  // positions
  std::vector<double> x_of_ended_, covariances_of_ended_, accurate_;
};

}  // namespace topograd
