// The loop over lanes.
#include "lane_solver.hpp"

#include "../../runtime/engine/column_scaling.hpp"
#include "../../runtime/factor/refinement.hpp"
#include "../../runtime/linear/dense.hpp"
#include "../interrupts.hpp"
#include "../linear/factor/dense_rows.hpp"
#include "../linear/factor/normal_equations.hpp"
#include "../linear/factor/undetermined_blocks.hpp"
#include "../plan/decide.hpp"
#include "../step_control/negative_curvature.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace topograd {
namespace {

namespace cpu = runtime::cpu;
using cpu::kLanes;
using cpu::kTile;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kUnit = std::numeric_limits<double>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Bytes of the columns of one thread that stay in its cache.
constexpr std::size_t kCacheBytes = std::size_t{1} << 20;

/// Numbers between the lanes of one column and those of the next: with powers of two between them,
/// the numbers of one lane would compete for a few lines of a cache.
constexpr std::size_t kApart = 8;

/// Columns for facts of a lane, about.
constexpr std::size_t kFacts = 24;

/// Rounding of a device's costs in f32, relative.
constexpr double kDeviceNoise = 1 + 1e-4;
/// Rounding of a device's bounds in f32, relative.
constexpr double kDeviceRounding = 1e-6;
/// Rounding of a device's last cost in f64, relative: sums have another order here.
constexpr double kDeviceCost = 1e-9;

/// Position of (i, j), i <= j, in the rows of an upper triangle.
constexpr std::uint32_t packed(std::uint32_t n, std::uint32_t i, std::uint32_t j) {
  return i * n - i * (i + 1) / 2 + j;
}

}  // namespace

LaneProgram::LaneProgram(const ComponentGroup& group, const SolverOptions& options,
                         std::span<const double> lower, std::span<const double> upper)
    : group_(&group),
      options_(&options),
      lower_(lower),
      upper_(upper),
      free_number_(group.scalars, ComponentGroup::kFixed) {
  for (const ComponentKernel& kernel : group.kernels) {
    kernels_.emplace_back(kernel, options.bits);
    has_corners_ |= topograd::has_corners(kernel.term->topology->program);
  }
  const cpu::TileOps<double>& ops = cpu::tile_ops<double>(options.bits);
  for (std::uint32_t k = 0; k < group.scalars; ++k)
    if (group.column[k] != ComponentGroup::kFixed) free_number_[k] = free_++;
  for (std::size_t b = 0; b < group.blocks.size(); ++b)
    if (const runtime::ManifoldBlocks* const on = group.blocks[b].manifold)
      manifolds_.push_back(std::make_unique<Manifold>(Manifold{
          b, cpu::TileKernel<double>(on->plus, ops), cpu::TileKernel<double>(on->basis, ops)}));
  most_by_rows_ = static_cast<std::uint32_t>(most_unknowns(group.rows, kLargestReadBack));
  const std::size_t n = group.columns, of_point = group.scalars + n + n * (n + 1) / 2;
  std::size_t columns = 3 * of_point + 3 * n + (group.bounded ? 2 * group.scalars : 0) + kFacts;
  if (group.on_manifolds) columns += sums();
  columns += 2 * carried();
  for (const ComponentRows& rows : group.residuals) {
    if (kernels_[rows.kernel].is_rolled()) continue;  // steps read their numbers one after another
    for (const ComponentNumbers& numbers : rows.data)
      columns += numbers.positions == nullptr ? 0 : 1;
  }
  const std::size_t fit = kCacheBytes / (sizeof(double) * columns) / kLanes * kLanes;
  most_lanes_ = std::clamp(fit, kLanes, kTile);
}

std::size_t LaneProgram::lanes(std::size_t components) const {
  return std::min(most_lanes_, cpu::whole_lanes(components));
}

StepRules::Terms LaneProgram::terms() const {
  return {.few = group_->columns <= most_unknowns(group_->rows, kLargestJacobian)};
}

std::uint32_t LaneProgram::entry(std::uint32_t a, std::uint32_t b) const {
  return 1 + free_ + packed(free_, std::min(a, b), std::max(a, b));
}

std::vector<std::uint32_t> LaneProgram::sums_of(const ComponentRows& rows) const {
  std::vector<std::uint32_t> scalars, sums = {0};
  for (const std::uint32_t p : kernel(rows.kernel).free())
    scalars.push_back(free_number(rows.unknowns[p]));
  for (const std::uint32_t s : scalars) sums.push_back(1 + s);
  for (std::size_t a = 0; a < scalars.size(); ++a)
    for (std::size_t b = a; b < scalars.size(); ++b) sums.push_back(entry(scalars[a], scalars[b]));
  return sums;
}

std::uint32_t LaneProgram::carried() const {
  std::uint32_t most = 0;
  for (const LaneKernel& kernel : kernels_) most = std::max(most, kernel.carried());
  return most;
}

struct LaneSolver::Lane {
  Lane(const SolverOptions& options, StepRules::Terms terms) : rules(options, terms) {}

  StepRules rules;
  std::size_t component = 0;
  Phase phase = Phase::start;
  Solve asks = Solve::none;
  double initial_cost = 0;
  double here_cost = 0;                    // of the point
  double kept_cost = 0, kept_squares = 0;  // of the probe that is kept
  runtime::StepReport report;
  double share = 0;                     // damped_share() of the full step
  std::optional<QuadraticModel> model;  // at the point, while steps of it are tried
  int tries = 0;
  double gain = 0;  // that the last of them promises
  std::optional<SaddleSearch> saddle;
  double looked_beside = -1;          // cost of the point beside which leave_saddle() looked last
  bool looked_at_dependence = false;  // there, of columns on each other
  ProjectedSearch search;
  ComponentResult result;
  bool from_device = false;  // it began where the device ended
  bool ended = false;
  LostColumns lost_columns;
  std::vector<double> left;  // point of the end before a turn
  bool settled = false;      // there is no other turn
  int stuck_at = -1;         // steps before the last look at columns that may be lost
};

LaneSolver::LaneSolver(const LaneProgram& program, std::size_t lanes, bool covariances)
    : program_(program),
      group_(program.group()),
      options_(program.options()),
      covariances_(covariances),
      lanes_(lanes),
      stride_(lanes + kApart),
      n_(group_.columns),
      passes_(lane_passes()),
      scratch_(lane_scratch(n_)),
      x_of_ended_(group_.scalars) {
  make_shape();
  make_columns();
  bind();
  lanes_now_.assign(lanes_, Lane(options_, program_.terms()));
}
LaneSolver::~LaneSolver() = default;

void LaneSolver::make_shape() {
  const runtime::StepRequest request = StepRules(options_, program_.terms()).request();
  const bool on_host = group_.bounded || group_.on_manifolds;
  const bool refuses = n_ <= program_.most_by_rows();
  const bool small = n_ <= (on_host ? kLargestReadBack : program_.most_by_rows());
  coordinates_.resize(n_);
  for (std::uint32_t s = 0; s < group_.scalars; ++s)
    if (group_.column[s] != ComponentGroup::kFixed) free_.push_back(s);
  for (const ComponentBlock& block : group_.blocks) {
    std::uint32_t width = 0;
    for (std::uint32_t s = block.first; s < block.first + block.width; ++s) {
      if (block.manifold != nullptr || group_.column[s] == ComponentGroup::kFixed) continue;
      coordinates_[group_.column[s]].scalar = s;
      ++width;
    }
    // As UndeterminedBlocks.
    if (options_.scale_free && !on_host && width >= 2 && width <= kWidestTested)
      tested_.push_back({block.column, width});
  }
  // Pivots that vanish in a larger matrix are left out, as in a solve of its own; a small one is
  // refused.
  const double share = runtime::vanishing_share(n_, std::numeric_limits<double>::epsilon());
  shape_ = {.n = n_,
            .scalars = group_.scalars,
            .coordinates = coordinates_.data(),
            .free = free_.data(),
            .free_count = static_cast<std::uint32_t>(free_.size()),
            .tested = tested_.data(),
            .tested_count = static_cast<std::uint32_t>(tested_.size()),
            .scale_free = options_.scale_free,
            .jacobi_scaling = options_.jacobi_scaling,
            .least_diagonal = request.keeps_damping && small
                                  ? std::max(request.min_diagonal, runtime::kLeastDiagonalOfSmall)
                                  : request.min_diagonal,
            .most_diagonal = request.max_diagonal,
            .vanishing_damped = refuses            ? kUnitsOfStrict * share
                                : small || on_host ? 0
                                                   : share,
            .vanishing_undamped = kUnitsOfExact * share};
}

void LaneSolver::make_columns() {
  std::vector<std::pair<double**, std::size_t>> wanted;
  const auto want = [&](double*& first, std::size_t count) { wanted.emplace_back(&first, count); };
  LaneNumbers& c = numbers_;
  want(c.x, group_.scalars);
  want(c.here_x, group_.scalars);
  want(kept_x_, group_.scalars);
  want(sums_, program_.sums());
  for (double*& carried : carried_) want(carried, program_.carried());
  if (group_.on_manifolds) {
    want(c.gradient, n_);
    want(c.matrix, triangle());
    want(c.squares_on_manifolds, 1);
    want(shift_, n_);
    want(moved_, group_.scalars);
    for (const auto& on : program_.manifolds()) {
      const std::size_t width = group_.blocks[on->block].width;
      basis_entries_ += width * width;
    }
    want(bases_, basis_entries_);
  }
  if (group_.bounded) {
    want(lower_, group_.scalars);
    want(upper_, group_.scalars);
  }
  for (double** const first : {&c.here_gradient, &kept_gradient_}) want(*first, n_);
  for (double** const first : {&c.here_matrix, &kept_matrix_}) want(*first, triangle());
  for (double** const first : {&c.scale, &c.damping, &c.delta}) want(*first, n_);
  for (double** const first : {&c.scaled,
                               &c.length,
                               &c.cost,
                               &c.gradient_max,
                               &c.gradient_norm,
                               &c.x_norm,
                               &c.scaled_gradient_max,
                               &c.scaled_gradient_norm,
                               &c.scaled_x_norm,
                               &c.scaled_step_norm,
                               &c.step_norm,
                               &c.arrives,
                               &c.solves,
                               &c.moves,
                               &c.undetermined,
                               &c.lambda,
                               &c.solved,
                               &c.vanished,
                               &c.decrease,
                               &c.slope,
                               &c.hidden})
    want(*first, 1);
  for (const ComponentRows& rows : group_.residuals)
    for (const ComponentNumbers& numbers : rows.data)
      if (numbers.positions != nullptr) loads_.push_back({nullptr, &numbers});
  for (DataColumn& data : loads_) want(data.column, 1);
  std::size_t count = 0;
  for (const auto& [first, columns] : wanted) count += columns;
  columns_ = cpu::Column<double>(count * stride_);
  std::fill_n(columns_.data(), columns_.size(), 0.0);
  double* next = columns_.data();
  for (const auto& [first, columns] : wanted)
    *first = std::exchange(next, next + columns * stride_);
  c.stride = stride_;
  c.lower = lower_;
  c.upper = upper_;
  c.doubled_cost = sums_;
  if (!group_.on_manifolds) {
    c.gradient = sums_ + stride_;
    c.matrix = c.gradient + n_ * stride_;
  }
  lane_index_.resize(lanes_);
  std::iota(lane_index_.begin(), lane_index_.end(), 0U);
}

/// A column that has one number in all lanes.
const double* LaneSolver::constant(const double* from) {
  std::unique_ptr<cpu::Column<double>>& made = constants_[from];
  if (made == nullptr) {
    made = std::make_unique<cpu::Column<double>>(lanes_);
    std::fill_n(made->data(), lanes_, *from);
  }
  return made->data();
}

void LaneSolver::bind() {
  std::size_t load = 0;
  for (const ComponentRows& rows : group_.residuals) bind_rows(rows, load);
}

/// Adds the runs of a residual block.
///
///   load  number of the rows' first column in loads_; after the call, of the next rows'
void LaneSolver::bind_rows(const ComponentRows& rows, std::size_t& load) {
  const LaneKernel& kernel = program_.kernel(rows.kernel);
  RowColumns columns{.data = {}, .sums = program_.sums_of(rows)};
  for (const ComponentNumbers& numbers : rows.data)
    columns.data.push_back(numbers.positions == nullptr ? constant(numbers.from)
                                                        : loads_[load++].column);
  std::size_t turn = 0;  // of the carried numbers that are read
  for (std::size_t p = 0; p < kernel.parts().size(); ++p) {
    const bool repeats = kernel.parts()[p].steps > 1;
    for (std::uint32_t step = 0; step < kernel.parts()[p].steps; ++step) {
      const std::size_t writes = repeats ? 1 - turn : turn;
      bind_step(rows, columns, p, step, turn, writes);
      turn = writes;
    }
  }
}

/// Adds the run of a step of a part.
///
///   reads, writes  numbers of the carried columns
void LaneSolver::bind_step(const ComponentRows& rows, const RowColumns& columns, std::size_t part,
                           std::uint32_t step, std::size_t reads, std::size_t writes) {
  const LaneKernel& kernel = program_.kernel(rows.kernel);
  const LanePart& of = kernel.parts()[part];
  const std::size_t uniforms = group_.kernels[rows.kernel].term->topology->program.leaves.data;
  const auto target = [&](const LanePart::Target& t, std::size_t turn) {
    if (!t.carried) return sums_ + columns.sums[t.number] * stride_;
    const bool stays = t.number >= kernel.carried_by_steps();
    return carried_[stays ? 0 : turn] + t.number * stride_;
  };
  const auto leaf = [&](std::uint32_t slot) -> const double* {
    if (slot >= of.first_target) return target(of.targets[slot - of.first_target], reads);
    if (slot >= of.first_parameter)
      return numbers_.x + rows.unknowns[slot - of.first_parameter] * stride_;
    if (slot >= of.first_uniform) return columns.data[uniforms + slot - of.first_uniform];
    return columns.data[of.data[slot].at(step)];
  };
  Run& run = runs_.emplace_back(Run{&kernel.tile(part), {}});
  for (const cpu::LeafUse& use : run.kernel->program().columns)
    run.binding.columns.push_back({leaf(use.slot), false});
  for (const LanePart::Target& t : of.outputs) run.binding.outputs.push_back(target(t, writes));
}

void LaneSolver::load(std::size_t at, std::size_t component) {
  Lane& lane = lanes_now_[at];
  lane.rules = StepRules(options_, program_.terms());
  lane.component = component;
  lane.phase = Phase::start;
  lane.result = {};
  lane.report = {};
  lane.ended = lane.settled = false;
  lane.lost_columns = {};
  lane.stuck_at = -1;
  lane.looked_beside = -1;
  numbers_.length[at] = numbers_.scaled[at] = 0;
  for (std::uint32_t k = 0; k < n_; ++k)
    number(numbers_.delta, k, at) = number(numbers_.scale, k, at) = 0;
  loaded_.push_back({at, component});
  for (std::uint32_t s = 0; group_.bounded && s < group_.scalars; ++s) {
    const std::size_t scalar = group_.x[s].at(component);
    number(lower_, s, at) = program_.has_lower() ? program_.lower(scalar) : -kInfinity;
    number(upper_, s, at) = program_.has_upper() ? program_.upper(scalar) : kInfinity;
  }
  load_start(at);
  lane.from_device = minima_ != nullptr && minima_->began(component) && load_minimum(at);
}

/// Gives the lanes that were loaded their data: column by column, since the columns are far apart.
void LaneSolver::load_data() {
  for (const DataColumn& data : loads_) {
    const double* const from = data.numbers->from;
    const Positions& positions = *data.numbers->positions;
    if (positions.list.empty()) {
      for (const auto& [at, component] : loaded_)
        data.column[at] = from[positions.first + component * positions.step];
    } else {
      for (const auto& [at, component] : loaded_) data.column[at] = from[positions.list[component]];
    }
  }
  loaded_.clear();
}

/// Begins where the device has ended the lane's component. False, and it begins at its start, if
/// that is beyond its bounds: a device whose driver has ended a kernel early left other numbers
/// there.
bool LaneSolver::load_minimum(std::size_t at) {
  Lane& lane = lanes_now_[at];
  const double* const x = minima_->x.data() + lane.component * group_.scalars;
  const auto within = [&](std::uint32_t s) {
    return group_.bounded ? std::clamp(x[s], number(lower_, s, at), number(upper_, s, at)) : x[s];
  };
  for (std::uint32_t s = 0; group_.bounded && s < group_.scalars; ++s)
    if (!(std::fabs(within(s) - x[s]) <= kDeviceRounding * std::fabs(within(s)))) return false;
  for (std::uint32_t s = 0; s < group_.scalars; ++s) number(numbers_.x, s, at) = within(s);
  lane.result.successful = minima_->accepted[lane.component];
  lane.result.unsuccessful = minima_->rejected[lane.component];
  return true;
}

void LaneSolver::load_start(std::size_t at) {
  for (std::uint32_t s = 0; s < group_.scalars; ++s)
    number(numbers_.x, s, at) = start_[group_.x[s].at(lanes_now_[at].component)];
}

void LaneSolver::move_lane(std::size_t from, std::size_t to) {
  std::swap(lanes_now_[from], lanes_now_[to]);
  for (double* column = columns_.data(); column < columns_.data() + columns_.size();
       column += stride_)
    column[to] = column[from];
}

void LaneSolver::run(std::size_t first, std::size_t last, std::span<const double> x,
                     Clock::time_point begin, ComponentSink& sink, const DeviceMinima* minima) {
  minima_ = minima;
  next_ = first;
  last_ = last;
  start_ = x;
  sink_ = &sink;
  for (active_ = 0; active_ < lanes_ && next_ < last_; ++active_) load(active_, next_++);
  load_data();
  while (active_ > 0) {
    seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
    interrupted_ = Interrupts::came() || sink.should_end();
    evaluate();
    passes_.report(shape_, numbers_, 0, active_);
    std::fill_n(numbers_.arrives, lanes_, 0.0);
    std::fill_n(numbers_.solves, lanes_, 0.0);
    std::fill_n(numbers_.moves, lanes_, 0.0);
    for (std::size_t at = 0; at < active_; ++at) consume(at);
    arrive();
    solve();
    for (std::size_t at = 0; at < active_; ++at) reconsider(at);
    passes_.move(shape_, numbers_, 0, active_);
    end_lanes();
  }
}

void LaneSolver::evaluate() {
  const std::size_t length = cpu::whole_lanes(active_);
  for (const auto& on : program_.manifolds()) move_on_manifold(*on);
  for (std::uint32_t k = 0; k < program_.sums(); ++k) std::fill_n(sums_ + k * stride_, length, 0.0);
  for (const Run& run : runs_) worker_.run(*run.kernel, run.binding, 0, length);
  if (!group_.on_manifolds) return;
  find_bases();
  for (std::size_t at = 0; at < active_; ++at) read_sums_on_manifolds(at);
}

/// Probes of a block on a manifold: x ⊞ δ, in the lanes where it moves. Its numbers at the probe
/// are still those of x.
void LaneSolver::move_on_manifold(const LaneProgram::Manifold& on) {
  const ComponentBlock& block = group_.blocks[on.block];
  cpu::Binding<double> binding;
  for (const cpu::LeafUse& leaf : on.plus.program().gathers) {
    double* const from = leaf.op == ir::Op::Tangent
                             ? shift_ + (block.column + leaf.slot) * stride_
                             : numbers_.x + (block.first + leaf.slot) * stride_;
    binding.gathers.push_back({from, lane_index_.data()});
  }
  for (std::uint32_t k = block.column; k < block.column + block.columns; ++k)
    for (std::size_t at = 0; at < active_; ++at)
      number(shift_, k, at) = numbers_.length[at] * number(numbers_.delta, k, at);
  for (std::uint32_t k = 0; k < block.width; ++k)
    binding.outputs.push_back(moved_ + (block.first + k) * stride_);
  worker_.run(on.plus, binding, 0, cpu::whole_lanes(active_));
  for (std::size_t at = 0; at < active_; ++at) {
    bool moves = false;
    for (std::uint32_t k = block.column; k < block.column + block.columns; ++k)
      moves |= number(shift_, k, at) != 0;
    for (std::uint32_t k = block.first; moves && k < block.first + block.width; ++k)
      number(numbers_.x, k, at) = number(moved_, k, at);
  }
}

void LaneSolver::find_bases() {
  const std::size_t length = cpu::whole_lanes(active_);
  double* first = bases_;
  for (const auto& on : program_.manifolds()) {
    const ComponentBlock& block = group_.blocks[on->block];
    cpu::Binding<double> binding;
    for (const cpu::LeafUse& leaf : on->basis.program().gathers)
      binding.gathers.push_back(
          {numbers_.x + (block.first + leaf.slot) * stride_, lane_index_.data()});
    const std::size_t entries = std::size_t{block.width} * block.width;
    for (std::size_t k = 0; k < entries; ++k) binding.outputs.push_back(first + k * stride_);
    worker_.run(on->basis, binding, 0, length);
    first += entries * stride_;
  }
}

/// Returns an entry of JᵀJ at the point.
double& LaneSolver::entry(std::uint32_t i, std::uint32_t j, std::size_t at) const {
  return number(numbers_.here_matrix, packed(n_, std::min(i, j), std::max(i, j)), at);
}

/// Copies of one lane's probe.
void LaneSolver::keep_probe(std::size_t at) {
  Lane& lane = lanes_now_[at];
  lane.kept_cost = numbers_.cost[at];
  lane.kept_squares = group_.on_manifolds ? numbers_.squares_on_manifolds[at] : 0;
  for (std::size_t k = 0; k < group_.scalars; ++k)
    number(kept_x_, k, at) = number(numbers_.x, k, at);
  for (std::size_t k = 0; k < n_; ++k)
    number(kept_gradient_, k, at) = number(numbers_.gradient, k, at);
  for (std::size_t k = 0; k < triangle(); ++k)
    number(kept_matrix_, k, at) = number(numbers_.matrix, k, at);
}

void LaneSolver::take_kept(std::size_t at) {
  const Lane& lane = lanes_now_[at];
  numbers_.doubled_cost[at] = 2 * lane.kept_cost;
  if (group_.on_manifolds) numbers_.squares_on_manifolds[at] = lane.kept_squares;
  for (std::size_t k = 0; k < group_.scalars; ++k)
    number(numbers_.x, k, at) = number(kept_x_, k, at);
  for (std::size_t k = 0; k < n_; ++k)
    number(numbers_.gradient, k, at) = number(kept_gradient_, k, at);
  for (std::size_t k = 0; k < triangle(); ++k)
    number(numbers_.matrix, k, at) = number(kept_matrix_, k, at);
  passes_.report_one(shape_, numbers_, at);
}

/// The scalars of the point.
std::vector<double> LaneSolver::point(std::size_t at) const {
  return scalars_of(at, numbers_.here_x);
}

/// The scalars of a lane in columns.
std::vector<double> LaneSolver::scalars_of(std::size_t at, double* columns) const {
  std::vector<double> x(group_.scalars);
  for (std::size_t s = 0; s < x.size(); ++s) x[s] = number(columns, s, at);
  return x;
}

/// P: from coordinates to the free scalars.
///
///   entries  of the bases of the blocks on manifolds, one after the other
Eigen::MatrixXd LaneSolver::basis(std::span<const double> entries) const {
  Eigen::MatrixXd basis = Eigen::MatrixXd::Zero(program_.free_scalars(), n_);
  const double* entry = entries.data();
  std::size_t on = 0;
  for (std::size_t b = 0; b < group_.blocks.size(); ++b) {
    const ComponentBlock& block = group_.blocks[b];
    const bool moves = on < program_.manifolds().size() && program_.manifolds()[on]->block == b;
    on += moves ? 1 : 0;
    for (std::uint32_t k = 0; k < block.width; ++k) {
      const std::uint32_t row = program_.free_number(block.first + k);
      if (!moves && row != ComponentGroup::kFixed) basis(row, group_.column[block.first + k]) = 1;
      for (std::uint32_t t = 0; moves && t < block.width; ++t, ++entry)
        if (t < block.columns) basis(row, block.column + t) = *entry;
    }
  }
  return basis;
}

/// The outputs of a kernel for one component, whose leaves are numbers by slot.
std::vector<double> LaneSolver::outputs_of(const cpu::TileKernel<double>& kernel,
                                           std::span<const double> numbers) {
  std::vector<double> out;
  const std::vector<double> leaves(numbers.begin(), numbers.end());
  for_outputs(kernel, std::span(&leaves, 1), [&](std::size_t, std::span<const double> outputs) {
    out.assign(outputs.begin(), outputs.end());
  });
  return out;
}

/// Calls visit(i, outputs) for each list of leaves; a vector of lanes runs at once.
template <class Visit>
void LaneSolver::for_outputs(const cpu::TileKernel<double>& kernel,
                             std::span<const std::vector<double>> numbers, const Visit& visit) {
  if (numbers.empty()) return;
  const std::size_t leaves = numbers.front().size();
  cpu::Column<double> columns(leaves * cpu::kLanes);
  const auto leaf = [&](std::size_t slot) { return columns.data() + slot * cpu::kLanes; };
  cpu::Binding<double> binding;
  for (const cpu::LeafUse& use : kernel.program().columns)
    binding.columns.push_back({leaf(use.slot), false});
  for (const cpu::LeafUse& use : kernel.program().gathers)
    binding.gathers.push_back({leaf(use.slot), lane_index_.data()});
  std::vector<double> out(kernel.program().outputs);
  for (std::size_t first = 0; first < numbers.size(); first += kLanes) {
    const std::size_t count = std::min<std::size_t>(kLanes, numbers.size() - first);
    for (std::size_t k = 0; k < leaves; ++k)
      for (std::size_t i = 0; i < kLanes; ++i)
        leaf(k)[i] = numbers[first + std::min(i, count - 1)][k];
    worker_.run(kernel, binding, 0, kLanes);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < out.size(); ++k) out[k] = worker_.output(k)[i];
      visit(first + i, out);
    }
  }
}

/// The basis at a point.
Eigen::MatrixXd LaneSolver::basis_at(std::span<const double> x) {
  std::vector<double> entries;
  for (const auto& on : program_.manifolds()) {
    const ComponentBlock& block = group_.blocks[on->block];
    const std::vector<double> of_block = outputs_of(on->basis, x.subspan(block.first, block.width));
    entries.insert(entries.end(), of_block.begin(), of_block.end());
  }
  return basis(entries);
}

/// Pᵀ g and PᵀJᵀJP of the probe.
void LaneSolver::read_sums_on_manifolds(std::size_t at) {
  const std::uint32_t free = program_.free_scalars();
  std::vector<double> entries(basis_entries_);
  for (std::size_t k = 0; k < entries.size(); ++k) entries[k] = number(bases_, k, at);
  const Eigen::MatrixXd basis = this->basis(entries);
  Eigen::VectorXd gradient(free);
  Eigen::MatrixXd matrix(free, free);
  for (std::uint32_t a = 0; a < free; ++a) {
    gradient[a] = number(sums_, 1 + a, at);
    for (std::uint32_t b = a; b < free; ++b)
      matrix(a, b) = matrix(b, a) = number(sums_, program_.entry(a, b), at);
  }
  const Eigen::VectorXd along = basis.transpose() * gradient;
  const Eigen::MatrixXd projected = basis.transpose() * matrix * basis;
  for (std::uint32_t a = 0; a < n_; ++a) {
    number(numbers_.gradient, a, at) = along[a];
    for (std::uint32_t b = a; b < n_; ++b)
      number(numbers_.matrix, packed(n_, a, b), at) = projected(a, b);
  }
  double squares = 0;
  std::vector<double> x;
  for (const auto& on : program_.manifolds()) {
    const ComponentBlock& block = group_.blocks[on->block];
    const std::uint32_t row = program_.free_number(block.first);
    x.resize(block.width);
    for (std::uint32_t k = 0; k < block.width; ++k) x[k] = number(numbers_.x, block.first + k, at);
    squares += runtime::squares_along_tangents(
        x.data(), block.width, block.columns,
        [&](std::uint32_t t) { return projected(block.column + t, block.column + t); },
        [&](std::uint32_t k, std::uint32_t t) { return basis(row + k, block.column + t); });
  }
  numbers_.squares_on_manifolds[at] = squares;
}

/// Returns the facts of the probe.
runtime::PointReport LaneSolver::report_of(std::size_t at) const {
  const LaneNumbers& c = numbers_;
  return {.cost = c.cost[at],
          .gradient_max_norm = c.gradient_max[at],
          .gradient_norm = c.gradient_norm[at],
          .x_norm = c.x_norm[at],
          .scaled_gradient_max = c.scaled_gradient_max[at],
          .scaled_gradient_norm = c.scaled_gradient_norm[at],
          .scaled_x_norm = c.scaled_x_norm[at],
          .scaled_step_norm = c.scaled_step_norm[at]};
}

/// Probes that were accepted become points.
void LaneSolver::arrive() {
  passes_.arrive(shape_, numbers_, scratch_.data(), 0, active_);
  for (std::size_t at = 0; !tested_.empty() && at < active_; ++at)
    if (numbers_.arrives[at] != 0 && numbers_.undetermined[at] != 0) raise_damping(at);
}

/// As UndeterminedBlocks.
void LaneSolver::raise_damping(std::size_t at) {
  BlockMatrix entries;                         // NOLINT(*-member-init): what is read is set
  std::array<double, kWidestTested> diagonal;  // NOLINT(*-member-init)
  for (const LaneShape::Block& block : tested_) {
    for (std::uint32_t i = 0; i < block.width; ++i) {
      diagonal[i] = number(numbers_.damping, block.first + i, at);
      for (std::uint32_t j = 0; j <= i; ++j)
        entries[i * kWidestTested + j] = entry(block.first + j, block.first + i, at);
    }
    raise_dependent(entries, block.width, diagonal.data());
    for (std::uint32_t i = 0; i < block.width; ++i)
      number(numbers_.damping, block.first + i, at) = diagonal[i];
  }
}

/// The next pass solves a system of this lane.
void LaneSolver::ask(std::size_t at, Solve what) {
  Lane& lane = lanes_now_[at];
  lane.asks = what;
  numbers_.lambda[at] = what == Solve::damped ? lane.rules.lambda() : 0;
  const bool by_rows = what == Solve::damped && lane.result.by_rows;
  numbers_.solves[at] = by_rows || what == Solve::exact ? 0 : 1;
}

/// Solves for steps until each lane has one to try, or has ended.
void LaneSolver::solve() {
  for (bool some = true; some;) {
    passes_.solve(shape_, numbers_, scratch_.data(), 0, active_);
    some = false;
    for (std::size_t at = 0; at < active_; ++at) {
      Lane& lane = lanes_now_[at];
      if (lane.asks == Solve::none) continue;
      take_solution(at);
      some |= lane.asks != Solve::none;
    }
  }
}

void LaneSolver::take_solution(std::size_t at) {
  Lane& lane = lanes_now_[at];
  const Solve asked = std::exchange(lane.asks, Solve::none);
  const bool solved = numbers_.solves[at] != 0 && read_solution(at);
  numbers_.solves[at] = 0;
  if (asked == Solve::undamped) {
    // By QR of the rows where the squares in JᵀJ cost too many digits.
    const bool contradicts = (solved || solve_by_rows(at)) &&
                             lane.report.model_decrease > lane.rules.least_contradiction();
    if (!contradicts) {
      lane.ended = true;
      return;
    }
    lane.phase = Phase::confirm;
    return try_length(at, 1);
  }
  if (asked == Solve::exact) {
    lane.model = exact_model(at, here_columns());
    lane.tries = 0;
    if (curve(at)) return;
    lane.rules.accepts_exact(0);
    end_unsettled(at);
    if (!lane.ended) ask(at, Solve::damped);
    return;
  }
  if (!take_rows(at, solved)) return refuse_system(at);
  lane.phase = Phase::trial;
  lane.share = damped_share(lane.report);
  try_length(at, 1);
}

/// Takes a step by QR of the rows if that by JᵀJ cannot be used. False if there is no step.
bool LaneSolver::take_rows(std::size_t at, bool solved) {
  Lane& lane = lanes_now_[at];
  if (solved && !(lane.report.hidden_decrease > lane.report.model_decrease)) return true;
  const bool damped = numbers_.lambda[at] > 0;
  const bool may = solved || lane.result.by_rows || n_ <= program_.most_by_rows() || !damped;
  if (!may || !solve_by_rows(at)) return solved;
  // That the matrix is singular without damping says nothing about other steps.
  if (damped) lane.result.by_rows = true;
  return true;
}

/// Sets the part of a report that the model gives; the trial of the step gives the rest.
void LaneSolver::set_model(Lane& lane, double decrease, double slope, double hidden) {
  lane.report.model_decrease = decrease;
  lane.report.slope = slope;
  lane.report.hidden_decrease = hidden;
}

/// Reads what the pass found. False if there is no step.
bool LaneSolver::read_solution(std::size_t at) {
  const bool refuses = n_ <= program_.most_by_rows() || numbers_.lambda[at] == 0;
  if (numbers_.solved[at] == 0 || (refuses && numbers_.vanished[at] != 0)) return false;
  set_model(lanes_now_[at], numbers_.decrease[at], numbers_.slope[at], numbers_.hidden[at]);
  return true;
}

/// There is no step with this damping.
void LaneSolver::refuse_system(std::size_t at) {
  Lane& lane = lanes_now_[at];
  set_model(lane, kNaN, 0, 0);
  ++lane.result.unsuccessful;
  end_if(at, lane.rules.refuse(lane.rules.judge(lane.report), lane.report, kNaN));
  check(at);
  step(at);
}

/// True if a bound keeps a scalar at x from following −g.
bool LaneSolver::is_held(std::size_t at, std::uint32_t scalar, double x, double g) const {
  return group_.bounded &&
         ((x <= number(lower_, scalar, at) && g > 0) || (x >= number(upper_, scalar, at) && g < 0));
}

/// S: 0 where a bound holds a coordinate.
Eigen::VectorXd LaneSolver::scaling(std::size_t at) const {
  Eigen::VectorXd out(n_);
  for (std::uint32_t k = 0; k < n_; ++k) {
    const double scale = number(numbers_.scale, k, at);
    out[k] = options_.jacobi_scaling && scale > 0 ? scale : 1;
    const std::uint32_t s = coordinates_[k].scalar;
    if (s == LaneShape::kNone) continue;
    if (is_held(at, s, number(numbers_.here_x, s, at), number(numbers_.here_gradient, k, at)))
      out[k] = 0;
  }
  return out;
}

/// Leaves of the kernels of a component's rows: data, then unknowns.
std::vector<double> LaneSolver::leaves_of(const ComponentRows& rows, std::size_t component,
                                          std::span<const double> x) const {
  std::vector<double> out;
  for (const ComponentNumbers& numbers : rows.data)
    out.push_back(numbers.positions == nullptr ? *numbers.from
                                               : numbers.from[numbers.positions->at(component)]);
  for (const std::uint32_t scalar : rows.unknowns) out.push_back(x[scalar]);
  return out;
}

/// Residuals, and Jacobian over the coordinates, of a lane's component at a point.
void LaneSolver::rows_at(std::size_t at, std::span<const double> x, Eigen::VectorXd& residuals,
                         Eigen::MatrixXd* jacobian) {
  residuals.resize(group_.rows);
  if (jacobian != nullptr) *jacobian = Eigen::MatrixXd::Zero(group_.rows, program_.free_scalars());
  const std::size_t component = lanes_now_[at].component;
  Eigen::Index first = 0;
  for (const ComponentRows& rows : group_.residuals) {
    const LaneKernel& kernel = program_.kernel(rows.kernel);
    const std::vector<double> out = outputs_of(kernel.rows(), leaves_of(rows, component, x));
    const std::size_t m = kernel.row_count(), n = kernel.free().size();
    for (std::size_t r = 0; r < m; ++r) {
      residuals[first + static_cast<Eigen::Index>(r)] = out[r];
      for (std::size_t k = 0; jacobian != nullptr && k < n; ++k) {
        const std::uint32_t to = program_.free_number(rows.unknowns[kernel.free()[k]]);
        (*jacobian)(first + static_cast<Eigen::Index>(r), to) += out[m + r * n + k];
      }
    }
    first += static_cast<Eigen::Index>(m);
  }
  if (jacobian != nullptr && group_.on_manifolds) *jacobian *= basis_at(x);
}

/// The Hessian of the cost over the free scalars of a lane's component.
Eigen::MatrixXd LaneSolver::hessian_at(std::size_t at, std::span<const double> x) {
  Eigen::MatrixXd hessian = Eigen::MatrixXd::Zero(n_, n_);
  for (const ComponentRows& rows : group_.residuals) {
    const LaneKernel& kernel = program_.kernel(rows.kernel);
    const std::vector<double> out =
        outputs_of(kernel.curvature(), leaves_of(rows, lanes_now_[at].component, x));
    const auto row_of = [&](std::size_t k) {
      return program_.free_number(rows.unknowns[kernel.free()[k]]);
    };
    std::size_t next = 0;
    for (std::size_t a = 0; a < kernel.free().size(); ++a) {
      for (std::size_t b = a; b < kernel.free().size(); ++b, ++next) {
        hessian(row_of(a), row_of(b)) += out[next];
        if (a != b) hessian(row_of(b), row_of(a)) += out[next];
      }
    }
  }
  return hessian;
}

/// Asks second derivatives where a verdict depends on them.
///
///   change  of the cost, by the last step
void LaneSolver::find_exact_gain(std::size_t at, double change, const PointColumns& from) {
  StepRules& rules = lanes_now_[at].rules;
  if (rules.needs_exact_gain(change)) rules.set_exact_gain(exact_gain(at, from));
}

/// The cost of a lane's component to the second order, over the coordinates that move. None on
/// manifolds, for many unknowns, and where none moves.
std::optional<QuadraticModel> LaneSolver::exact_model(std::size_t at, const PointColumns& from) {
  if (!has_exact_model()) return std::nullopt;
  std::vector<double> x = scalars_of(at, from.x), squares;
  QuadraticModel model;
  for (std::uint32_t k = 0; k < n_; ++k) {
    squares.push_back(number(from.matrix, packed(n_, k, k), at));
    const std::uint32_t s = coordinates_[k].scalar;
    if (!is_held(at, s, x[s], number(from.gradient, k, at))) model.unknowns.push_back(k);
  }
  if (model.unknowns.empty()) return std::nullopt;
  const std::vector<double> noise = gradient_noise(squares, lanes_now_[at].rules.point(), kUnit);
  const auto size = static_cast<Eigen::Index>(model.unknowns.size());
  model.gradient.resize(size);
  model.squares.resize(size);
  model.noise.resize(size);
  for (Eigen::Index j = 0; j < size; ++j) {
    const std::uint32_t k = model.unknowns[static_cast<std::size_t>(j)];
    model.gradient[j] = number(from.gradient, k, at);
    model.squares[j] = squares[k];
    model.noise[j] = noise[k];
  }
  model.hessian = hessian_at(at, x)(model.unknowns, model.unknowns);
  return model;
}

/// Returns what topograd::exact_gain() returns for a solve of its own.
double LaneSolver::exact_gain(std::size_t at, const PointColumns& from,
                              std::span<const LeastCurvature> asked) {
  const std::optional<QuadraticModel> model = exact_model(at, from);
  const auto decrement = model ? NewtonDecrement::make_singular(*model, kUnit) : std::nullopt;
  if (!decrement) return kInfinity;
  const std::vector<std::uint32_t>& unknowns = decrement->unknowns();
  std::vector<double> x = scalars_of(at, from.x);
  for (std::size_t j = 0; j < unknowns.size(); ++j) {
    const std::uint32_t s = coordinates_[unknowns[j]].scalar;
    x[s] += decrement->step()[static_cast<Eigen::Index>(j)];
    if (group_.bounded) x[s] = std::clamp(x[s], number(lower_, s, at), number(upper_, s, at));
  }
  Eigen::VectorXd residuals;
  Eigen::MatrixXd jacobian;
  rows_at(at, x, residuals, &jacobian);
  Eigen::VectorXd left = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(unknowns.size()));
  for (Eigen::Index j = 0; j < left.size(); ++j)
    for (Eigen::Index row = 0; row < residuals.size(); ++row)
      left[j] += jacobian(row, unknowns[static_cast<std::size_t>(j)]) * residuals[row];
  return decrement->gain_that_holds(left, asked);
}

/// The probe moves along a direction over these coordinates.
void LaneSolver::set_direction(std::size_t at, std::span<const std::uint32_t> unknowns,
                               const Eigen::VectorXd& direction) {
  for (std::uint32_t k = 0; k < n_; ++k) number(numbers_.delta, k, at) = 0;
  for (std::size_t j = 0; j < unknowns.size(); ++j)
    number(numbers_.delta, unknowns[j], at) = direction[static_cast<Eigen::Index>(j)];
}

/// Coordinates whose columns have vanished.
std::vector<std::uint32_t> LaneSolver::find_vanished(std::size_t at) const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t k = 0; k < n_; ++k) {
    if (coordinates_[k].scalar == LaneShape::kNone) continue;
    const double x = number(numbers_.here_x, coordinates_[k].scalar, at);
    const double size = std::max(std::abs(x), std::abs(way(at, k)));
    if (LostColumns::has_vanished(entry(k, k, at), size, lanes_now_[at].here_cost))
      out.push_back(k);
  }
  return out;
}

/// Coordinates of residual blocks with kinks from which the cost falls.
std::vector<std::uint32_t> LaneSolver::find_kinks(std::size_t at) {
  const std::vector<double> x = point(at);
  std::vector<bool> has_kink(group_.scalars);
  for (std::size_t k = 0; k < group_.kernels.size(); ++k) {
    const LaneKernel& kernel = program_.kernel(k);
    if (kernel.kinks().program().outputs < 2) continue;
    std::vector<const ComponentRows*> blocks;
    std::vector<std::vector<double>> leaves;
    for (const ComponentRows& rows : group_.residuals) {
      if (rows.kernel != k) continue;
      blocks.push_back(&rows);
      leaves.push_back(leaves_of(rows, lanes_now_[at].component, x));
    }
    for_outputs(kernel.kinks(), leaves, [&](std::size_t i, std::span<const double> outputs) {
      for (const std::uint32_t parameter : kernel.free())
        if (outputs[1] >= 0) has_kink[blocks[i]->unknowns[parameter]] = true;
    });
  }
  std::vector<std::uint32_t> out;
  for (std::uint32_t k = 0; k < n_; ++k)
    if (coordinates_[k].scalar != LaneShape::kNone && has_kink[coordinates_[k].scalar])
      out.push_back(k);
  return out;
}

/// The gradient is exactly 0 at the start, which may be that of all unknowns together.
bool LaneSolver::is_nowhere(std::size_t at) const {
  const Lane& lane = lanes_now_[at];
  return lane.result.successful == 0 && lane.rules.point().gradient_max_norm == 0;
}

/// Looks for a lower cost beside a point where columns have vanished or depend on each other, or at
/// a kink; false where there is none, as topograd::leave_saddle().
bool LaneSolver::leave_saddle(std::size_t at) {
  Lane& lane = lanes_now_[at];
  const End end = lane.result.end;
  const bool may =
      end == End::none || end == End::curved_valley || termination(end) == Termination::CONVERGENCE;
  const bool dependent = end != End::none;
  const bool looked =
      lane.looked_beside == lane.here_cost && (lane.looked_at_dependence || !dependent);
  if (!may || looked || !lane.rules.may_leave_saddle() || !(lane.here_cost > 0)) return false;
  lane.looked_beside = lane.here_cost;
  lane.looked_at_dependence = dependent;
  const std::vector<std::uint32_t> vanished = find_vanished(at);
  return curve_away(at, vanished) || step_beside(at, vanished);
}

/// Begins a search in a direction of negative curvature; false if there is none.
bool LaneSolver::curve_away(std::size_t at, std::span<const std::uint32_t> vanished) {
  Lane& lane = lanes_now_[at];
  if (!lane.rules.may_ask_exactly() || !has_exact_model()) return false;
  Eigen::MatrixXd normal;
  if (!is_nowhere(at) && vanished.empty()) {
    if (!lane.looked_at_dependence) return false;
    normal.resize(n_, n_);
    for (std::uint32_t i = 0; i < n_; ++i)
      for (std::uint32_t j = 0; j <= i; ++j) normal(i, j) = normal(j, i) = entry(i, j, at);
    if (!normal.allFinite() || !has_dependent_columns(normal)) return false;
  }
  std::optional<QuadraticModel> model = exact_model(at, here_columns());
  if (model && normal.size() > 0) model->normal = normal(model->unknowns, model->unknowns);
  const auto descent = model ? negative_curvature(*model, kUnit) : std::nullopt;
  if (!descent) return false;
  set_direction(at, model->unknowns, descent->direction);
  lane.saddle.emplace(lane.here_cost, descent->curvature, lane.rules.least_contradiction());
  lane.phase = Phase::saddle;
  lane.ended = false;
  try_length(at, lane.saddle->length());
  return true;
}

/// Costs with single scalars changed, each of the residual blocks that read the scalar.
std::vector<double> LaneSolver::costs_beside(std::size_t at, std::span<const Beside> probes) {
  std::vector<double> x = point(at), out(probes.size());
  for (std::size_t k = 0; k < group_.kernels.size(); ++k) {
    std::vector<std::size_t> probe;
    std::vector<std::vector<double>> leaves;
    for (std::size_t p = 0; p < probes.size(); ++p) {
      const double here = std::exchange(x[probes[p].scalar], probes[p].value);
      for (const ComponentRows& rows : group_.residuals) {
        if (rows.kernel != k ||
            std::ranges::find(rows.unknowns, probes[p].scalar) == rows.unknowns.end())
          continue;
        probe.push_back(p);
        leaves.push_back(leaves_of(rows, lanes_now_[at].component, x));
      }
      x[probes[p].scalar] = here;
    }
    for_outputs(
        program_.kernel(k).kinks(), leaves,
        [&](std::size_t i, std::span<const double> outputs) { out[probe[i]] += outputs[0]; });
  }
  return out;
}

/// Goes to the best point along a single coordinate, the others where they are; false if none has a
/// lower cost.
bool LaneSolver::step_beside(std::size_t at, std::span<const std::uint32_t> vanished) {
  const StepRules& rules = lanes_now_[at].rules;
  const bool nowhere = is_nowhere(at);
  const std::vector<std::uint32_t> kinks = find_kinks(at);
  const std::vector<double> x = point(at);
  std::vector<Beside> here;
  std::vector<BesideUnknown> unknowns;
  for (std::uint32_t k = 0; k < n_; ++k) {
    const std::uint32_t s = coordinates_[k].scalar;
    const bool by_cost = nowhere || std::ranges::binary_search(kinks, k);
    if (s == LaneShape::kNone || !(by_cost || std::ranges::binary_search(vanished, k))) continue;
    here.push_back({s, x[s]});
    unknowns.push_back({.column = by_cost ? 0 : std::sqrt(entry(k, k, at))});
  }
  if (here.empty()) return false;
  const std::vector<double> costs = costs_beside(at, here);
  for (std::size_t i = 0; i < here.size(); ++i) {
    unknowns[i].cost = costs[i];
    unknowns[i].least = rules.least_contradiction() * (costs[i] / lanes_now_[at].here_cost);
  }
  const auto moved = [&](const BesideProbe& probe) {
    const auto [s, value] = here[probe.unknown];
    const double to = value + probe.step;
    return Beside{
        s, group_.bounded ? std::clamp(to, number(lower_, s, at), number(upper_, s, at)) : to};
  };
  const std::vector<BesideStep> steps =
      steps_beside(unknowns, [&](std::span<const BesideProbe> probes) {
        std::vector<Beside> to;
        std::ranges::transform(probes, std::back_inserter(to), moved);
        return costs_beside(at, to);
      });
  const auto best = std::ranges::max_element(steps, {}, &BesideStep::gain);
  if (!(best->gain > rules.least_contradiction())) return false;
  const Beside to = moved({static_cast<std::uint32_t>(best - steps.begin()), best->step});
  for (std::uint32_t s = 0; s < group_.scalars; ++s)
    number(numbers_.x, s, at) = s == to.scalar ? to.value : x[s];
  go_to(at, Phase::leave);
  return true;
}

/// A step from the saddle has a cost: the next one, the best one, or the end that was.
void LaneSolver::look_beside_saddle(std::size_t at) {
  Lane& lane = lanes_now_[at];
  lane.saddle->judge(numbers_.cost[at]);
  if (lane.saddle->length() != 0) return try_length(at, lane.saddle->length());
  if (lane.saddle->best() != 0) {
    lane.phase = Phase::leave;
    return try_length(at, lane.saddle->best());
  }
  if (!step_beside(at, find_vanished(at))) stay(at);
}

/// Goes on from beside the saddle, if derivatives are finite there.
void LaneSolver::leave(std::size_t at) {
  const runtime::PointReport report = report_of(at);
  if (!std::isfinite(report.gradient_max_norm)) return stay(at);
  ++lanes_now_[at].result.successful;
  begin_again(at, report);
}

/// Nothing was found elsewhere: the lane has ended where it is, or goes on there.
void LaneSolver::stay(std::size_t at) {
  Lane& lane = lanes_now_[at];
  lane.phase = Phase::trial;
  lane.ended = lane.result.end != End::none;
  step(at);
}

/// Tries the next step of the exact model at the point; false if there is none.
bool LaneSolver::curve(std::size_t at) {
  Lane& lane = lanes_now_[at];
  std::optional<NewtonDecrement> decrement;
  while (lane.model && !decrement && lane.tries < lane.rules.exact_tries())
    decrement = NewtonDecrement::make(*lane.model, kUnit, exact_damping(lane.tries++));
  if (!decrement) return false;
  set_direction(at, decrement->unknowns(), decrement->step());
  lane.gain = decrement->gain();
  lane.phase = Phase::exact;
  try_length(at, 1);
  return true;
}

/// Takes that step if it brings what it promises.
void LaneSolver::judge_exact(std::size_t at) {
  Lane& lane = lanes_now_[at];
  lane.phase = Phase::trial;
  const double change = lane.here_cost - numbers_.cost[at];
  const bool keeps =
      NewtonDecrement::keeps_promise(lane.gain, change, exact_damping(lane.tries - 1)) &&
      std::isfinite(report_of(at).gradient_max_norm);
  if (!keeps && curve(at)) return;
  if (lane.rules.accepts_exact(keeps ? change : 0)) {
    lane.result.final_cost = numbers_.cost[at];
    move_here(at);
    lane.rules.open_point();
    if (!lane.rules.finite()) lane.result.end = End::nonfinite;
    check(at);
  } else {
    end_unsettled(at);
  }
  step(at);
}

/// Second derivatives know no step.
void LaneSolver::end_unsettled(std::size_t at) {
  Lane& lane = lanes_now_[at];
  lane.result.end = lane.rules.check_settled().end;
  lane.ended = lane.result.end != End::none;
}

/// Second derivatives confirm the verdict that a step without damping leaves unsettled, or are not
/// known; else the next step is theirs.
bool LaneSolver::is_settled(std::size_t at) {
  Lane& lane = lanes_now_[at];
  if (!lane.rules.may_ask_exactly() || !has_exact_model() || program_.has_corners()) return true;
  lane.rules.set_exact_gain(exact_gain(at, here_columns()));
  if (lane.rules.check_exact_gain()) return true;
  lane.rules.doubt(lane.report.model_decrease);
  return false;
}

/// The step by QR of the rows, with the damping that was asked for.
bool LaneSolver::solve_by_rows(std::size_t at) {
  Lane& lane = lanes_now_[at];
  runtime::StepRequest request = lane.rules.request();
  request.lambda = numbers_.lambda[at];
  if (request.keeps_damping && n_ <= program_.most_by_rows())
    request.min_diagonal = std::max(request.min_diagonal, runtime::kLeastDiagonalOfSmall);
  Eigen::VectorXd residuals, damping(n_), scales(n_);
  Eigen::MatrixXd jacobian;
  rows_at(at, point(at), residuals, &jacobian);
  const Eigen::VectorXd scaling = this->scaling(at);
  for (std::uint32_t k = 0; k < n_; ++k) {
    const double here = entry(k, k, at), s = scaling[k];
    const double damped =
        here + runtime::column_damping(number(numbers_.damping, k, at), s * s, request);
    const bool is_held = s == 0;
    damping[k] = is_held ? 0 : std::max(0.0, damped - here);
    scales[k] =
        is_held ? 0 : scale_of_rows(number(numbers_.scale, k, at), here, request.lambda > 0);
  }
  const std::optional<Eigen::VectorXd> delta = solve_rows(jacobian, residuals, damping, scales);
  if (!delta) return false;
  const Eigen::VectorXd change = jacobian * *delta;
  double slope = 0;
  for (std::uint32_t k = 0; k < n_; ++k) {
    number(numbers_.delta, k, at) = (*delta)[k];
    slope += number(numbers_.here_gradient, k, at) * (*delta)[k];
  }
  set_model(lane, -residuals.dot(change) - change.squaredNorm() / 2, slope, 0);
  return true;
}

/// The next pass moves the probe to a part of the step; blocks on manifolds follow when it is
/// evaluated.
void LaneSolver::try_length(std::size_t at, double length) {
  numbers_.length[at] = length;
  numbers_.moves[at] = 1;
}

/// Asks for a step, unless the lane has ended or asks already.
void LaneSolver::step(std::size_t at) {
  const Lane& lane = lanes_now_[at];
  if (lane.ended || lane.asks != Solve::none) return;
  ask(at, lane.rules.wants_exact_step() ? Solve::exact : Solve::damped);
}

void LaneSolver::end_if(std::size_t at, const Verdict& verdict) {
  if (!verdict) return;
  lanes_now_[at].result.end = verdict.end;
}

/// Ends the lane by the last verdict, or at a limit.
void LaneSolver::check(std::size_t at) {
  Lane& lane = lanes_now_[at];
  ComponentResult& result = lane.result;
  if (result.end == End::none)
    end_if(at, lane.rules.check_limits(seconds_, result.successful + result.unsuccessful));
  if (result.end == End::none) end_if(at, lane.rules.check_radius());
  if (result.end == End::none && interrupted_) result.end = End::interrupted;
  if (result.end == End::none) return;
  const bool may_go_on = result.successful + result.unsuccessful < options_.max_iterations;
  if (may_go_on && lane.rules.may_be_contradicted({result.end})) return ask(at, Solve::undamped);
  lane.ended = true;
}

/// The verdict, after a step without damping that promised more than the verdict says is left.
void LaneSolver::judge_verdict(std::size_t at) {
  Lane& lane = lanes_now_[at];
  lane.phase = Phase::trial;
  const StepRules::Undamped undamped = lane.rules.judge_undamped(lane.report);
  if (undamped == StepRules::Undamped::agrees ||
      (undamped == StepRules::Undamped::unsettled && is_settled(at))) {
    lane.ended = true;
    return;
  }
  lane.result.end = End::none;
  if (undamped == StepRules::Undamped::is_taken) {
    lane.share = damped_share(lane.report);
    accept(at, lane.rules.judge(lane.report));
    check(at);
  }
  step(at);
}

void LaneSolver::consume(std::size_t at) {
  Lane& lane = lanes_now_[at];
  if (lane.phase == Phase::start) return begin(at);
  if (lane.phase == Phase::turn) return turn(at);
  if (lane.phase == Phase::back) return go_back(at);
  if (lane.phase == Phase::exact) return judge_exact(at);
  if (lane.phase == Phase::saddle) return look_beside_saddle(at);
  if (lane.phase == Phase::leave) return leave(at);
  const double cost = numbers_.cost[at];
  const runtime::StepReport tried{.step_norm = numbers_.step_norm[at], .trial_cost = cost};
  if (lane.phase == Phase::longer) {
    if (!StepRules::take_length(lane.report, numbers_.length[at], tried)) {
      numbers_.length[at] = 1;
      take_kept(at);
    }
    return judge(at);
  }
  lane.report.trial_cost = tried.trial_cost;
  lane.report.step_norm = tried.step_norm;
  if (lane.phase == Phase::confirm) return judge_verdict(at);
  if (lane.phase == Phase::trial && group_.bounded) {
    lane.search = ProjectedSearch(lane.here_cost, lane.report);
    lane.phase = Phase::search;
  } else if (lane.phase == Phase::trial && !lane.rules.last_was_hidden()) {
    if (const std::optional<double> length = lane.rules.other_length(lane.report)) {
      keep_probe(at);
      lane.phase = Phase::longer;
      return try_length(at, *length);
    }
  }
  if (lane.phase == Phase::search) {
    if (const std::optional<double> length = lane.search.next(cost)) return try_length(at, *length);
  }
  judge(at);
}

/// A device's minimum that is no better than the start here is not used.
bool LaneSolver::refuse_minimum(std::size_t at) {
  Lane& lane = lanes_now_[at];
  if (!lane.from_device ||
      numbers_.cost[at] <= minima_->initial_cost[lane.component] * kDeviceNoise)
    return false;
  lane.from_device = false;
  lane.result = {};
  load_start(at);
  return true;
}

/// The verdict of a device in f64 needs no step of its own here: the cost is what it says, the
/// gradient allows the verdict, and a step without damping will be asked to contradict it.
bool LaneSolver::may_end_as_device(std::size_t at) const {
  const Lane& lane = lanes_now_[at];
  if (!lane.from_device || minima_->precision != Precision::f64) return false;
  const double difference = lane.here_cost - minima_->final_cost[lane.component];
  return std::fabs(difference) <= kDeviceCost * lane.here_cost &&
         lane.rules.may_be_contradicted({minima_->end[lane.component]}) &&
         lane.rules.tolerances_hold();
}

void LaneSolver::begin(std::size_t at) {
  Lane& lane = lanes_now_[at];
  if (refuse_minimum(at)) return;
  numbers_.arrives[at] = 1;
  lane.here_cost = numbers_.cost[at];
  lane.initial_cost = lane.from_device ? minima_->initial_cost[lane.component] : lane.here_cost;
  lane.result.initial_cost = lane.initial_cost;
  lane.result.final_cost = lane.here_cost;
  lane.rules.set_point(report_of(at), lane.initial_cost);
  lane.rules.open_point();
  lane.rules.start(lane.here_cost);
  if (!lane.rules.finite()) {
    lane.result.end = End::nonfinite;
  } else if (out_of_range(lane.rules.point()) || refuse_underflow(at)) {
    lane.result.end = End::out_of_range;
  } else if (may_end_as_device(at)) {
    lane.result.end = minima_->end[lane.component];
  }
  check(at);
  step(at);
}

/// Residuals whose squares underflow have no cost and no gradient. At the start.
bool LaneSolver::refuse_underflow(std::size_t at) {
  const runtime::PointReport& point = lanes_now_[at].rules.point();
  if (point.cost != 0 || point.gradient_max_norm != 0) return false;
  Eigen::VectorXd residuals;
  rows_at(at, scalars_of(at, numbers_.x), residuals, nullptr);
  const double most = residuals.size() == 0 ? 0 : residuals.cwiseAbs().maxCoeff();
  return most > 0 && most * most < std::numeric_limits<double>::min();
}

void LaneSolver::judge(std::size_t at) {
  Lane& lane = lanes_now_[at];
  const StepFacts facts = lane.rules.judge(lane.report);
  lane.result.nonfinite += facts.nonfinite ? 1 : 0;
  if (lane.rules.accepts(facts, lane.report)) {
    accept(at, facts);
  } else {
    ++lane.result.unsuccessful;
    if (facts.valid) find_exact_gain(at, facts.change, here_columns());
    end_if(at, lane.rules.refuse(facts, lane.report, lane.share));
  }
  check(at);
  step(at);
}

void LaneSolver::accept(std::size_t at, const StepFacts& facts) {
  Lane& lane = lanes_now_[at];
  const runtime::PointReport before = lane.rules.point();
  lane.result.final_cost = lane.report.trial_cost;
  lane.rules.take(facts, lane.report, false);
  move_here(at);
  find_exact_gain(at, facts.change, probe_columns());
  end_if(at, lane.rules.after_take(facts, lane.report, before, lane.share));
  lane.rules.open_point();
  if (!lane.rules.finite()) {
    lane.rules.set_cost(lane.report.trial_cost);
    lane.result.end = End::nonfinite;
  }
  if (out_of_range(lane.rules.point())) lane.result.end = End::out_of_range;
}

/// The probe becomes the point, after a step that was taken.
void LaneSolver::move_here(std::size_t at) {
  Lane& lane = lanes_now_[at];
  numbers_.arrives[at] = 1;
  lane.here_cost = numbers_.cost[at];
  ++lane.result.successful;
  lane.rules.set_point(report_of(at), lane.initial_cost);
}

/// From the start to the point, by coordinate k, which is not on a manifold.
double LaneSolver::way(std::size_t at, std::uint32_t k) const {
  const std::uint32_t s = coordinates_[k].scalar;
  return number(numbers_.here_x, s, at) - start_[group_.x[s].at(lanes_now_[at].component)];
}

/// The column of coordinate k may have vanished since the start.
bool LaneSolver::may_be_lost(std::size_t at, std::uint32_t k) const {
  return coordinates_[k].scalar != LaneShape::kNone &&
         LostColumns::may_be_lost(entry(k, k, at), way(at, k), lanes_now_[at].here_cost);
}

/// Second derivatives leave nothing to gain, and say of each of these coordinates that the cost
/// would be higher with it back where it began.
bool LaneSolver::holds_exactly(std::size_t at, std::span<const std::uint32_t> lost) {
  Lane& lane = lanes_now_[at];
  if (!lane.rules.may_ask_exactly()) return false;
  std::vector<LeastCurvature> asked;
  asked.reserve(lost.size());
  for (const std::uint32_t k : lost)
    asked.push_back(
        {k, LostColumns::least_curvature(way(at, k), lane.here_cost, options_.function_tolerance)});
  lane.rules.set_exact_gain(exact_gain(at, here_columns(), asked));
  return static_cast<bool>(lane.rules.check_exact_gain());
}

/// Coordinates whose columns may have vanished.
std::vector<std::uint32_t> LaneSolver::find_lost(std::size_t at) const {
  std::vector<std::uint32_t> lost;
  for (std::uint32_t k = 0; k < n_; ++k)
    if (may_be_lost(at, k)) lost.push_back(k);
  return lost;
}

/// The next pass evaluates the probe as it is, for this phase.
void LaneSolver::go_to(std::size_t at, Phase phase) {
  numbers_.length[at] = numbers_.moves[at] = 0;
  lanes_now_[at].phase = phase;
  lanes_now_[at].ended = false;
}

/// Compares this end, or the point where the lane is stuck, with the end before the turn. False if
/// that one counts, to which the lane goes back.
bool LaneSolver::settle_turn(std::size_t at, bool stuck, bool lost) {
  Lane& lane = lanes_now_[at];
  const End end = stuck ? End::lost_columns : lane.result.end;
  const bool better =
      lane.lost_columns.settle(lane.here_cost, {end}, lost, options_.function_tolerance);
  if (!better || !stuck) lane.result.end = lane.lost_columns.verdict().end;
  if (better) return true;
  for (std::uint32_t s = 0; s < group_.scalars; ++s) number(numbers_.x, s, at) = lane.left[s];
  go_to(at, Phase::back);
  return false;
}

/// A lane that has ended, or is stuck, goes on from another point where columns have vanished.
void LaneSolver::reconsider(std::size_t at) {
  Lane& lane = lanes_now_[at];
  ComponentResult& result = lane.result;
  bool stuck = !lane.ended && lane.phase == Phase::trial && lane.rules.is_stuck() &&
               lane.stuck_at != result.successful + result.unsuccessful;
  if (!options_.scale_free || lane.settled || !(lane.ended || stuck)) return;
  const bool converged = lane.ended && termination(result.end) == Termination::CONVERGENCE;
  const bool valley = lane.ended && result.end == End::curved_valley;
  if (!converged && !stuck && !valley && !lane.lost_columns.is_open()) return;
  if (stuck) lane.stuck_at = result.successful + result.unsuccessful;
  std::vector<std::uint32_t> lost;
  if (converged || stuck) lost = find_lost(at);
  if (!lost.empty() && holds_exactly(at, lost)) {
    lost.clear();
    if (stuck) result.end = lane.rules.check_exact_gain().end;
    lane.ended = true;
    stuck = false;
  }
  if (lane.lost_columns.is_open() && !(stuck && lost.empty()) &&
      !settle_turn(at, stuck, !lost.empty()))
    return;
  if (result.successful + result.unsuccessful >= options_.max_iterations) return;
  if (lost.empty() || !lane.lost_columns.may_turn()) {
    leave_saddle(at);
    return;
  }
  lane.left = point(at);
  probe_lost(at);
  go_to(at, Phase::turn);
}

/// Puts the probe where the lane is, with unknowns whose columns may be lost back at the start.
void LaneSolver::probe_lost(std::size_t at) {
  const Lane& lane = lanes_now_[at];
  for (std::uint32_t s = 0; s < group_.scalars; ++s) number(numbers_.x, s, at) = lane.left[s];
  for (std::uint32_t k = 0; k < n_; ++k) {
    if (!may_be_lost(at, k)) continue;
    const std::uint32_t s = coordinates_[k].scalar;
    number(numbers_.x, s, at) = start_[group_.x[s].at(lane.component)];
  }
}

/// Goes on from the probe, where unknowns are back where they began, if they had columns there.
void LaneSolver::turn(std::size_t at) {
  Lane& lane = lanes_now_[at];
  const runtime::PointReport report = report_of(at);
  bool had = false;
  for (std::uint32_t k = 0; k < n_; ++k)
    had |= may_be_lost(at, k) &&
           LostColumns::is_lost(entry(k, k, at), number(numbers_.matrix, packed(n_, k, k), at));
  if (!had || !std::isfinite(report.cost) || !std::isfinite(report.gradient_max_norm) ||
      out_of_range(report)) {
    if (leave_saddle(at)) return;
    lane.settled = lane.result.end != End::none;
    return stay(at);
  }
  const bool was_stuck = lane.result.end == End::none;
  bool at_start = true;
  for (std::uint32_t s = 0; s < group_.scalars; ++s)
    at_start &= number(numbers_.x, s, at) == start_[group_.x[s].at(lane.component)];
  lane.lost_columns.turn(lane.here_cost, {was_stuck ? End::lost_columns : lane.result.end},
                         at_start);
  begin_again(at, report, lane.lost_columns.shortness());
}

/// The probe becomes the point, from which the lane goes on as from a start.
void LaneSolver::begin_again(std::size_t at, const runtime::PointReport& report, int shortness) {
  Lane& lane = lanes_now_[at];
  lane.result.end = End::none;
  lane.result.by_rows = false;
  lane.result.final_cost = lane.here_cost = report.cost;
  lane.phase = Phase::trial;
  lane.report = {};
  numbers_.arrives[at] = 1;
  numbers_.scaled[at] = 0;
  for (std::uint32_t k = 0; k < n_; ++k) number(numbers_.scale, k, at) = 0;
  StepRules rules(options_, program_.terms());
  rules.follow_start(lane.rules);
  lane.rules = rules;
  lane.rules.set_point(report, lane.initial_cost);
  lane.rules.open_point();
  lane.rules.start(lane.here_cost);
  if (shortness > 0) lane.rules.begin_short(shortness);
  check(at);
  step(at);
}

/// The probe is the end before the turn, which counts.
void LaneSolver::go_back(std::size_t at) {
  Lane& lane = lanes_now_[at];
  numbers_.arrives[at] = 1;
  lane.result.final_cost = lane.here_cost = numbers_.cost[at];
  lane.rules.set_point(report_of(at), lane.initial_cost);
  lane.settled = lane.ended = true;
}

/// Gives results, and takes the next components.
void LaneSolver::end_lanes() {
  ended_.clear();
  for (std::size_t at = 0; at < active_; ++at)
    if (lanes_now_[at].ended) ended_.push_back(static_cast<std::uint32_t>(at));
  const std::size_t size = covariances_ ? std::size_t{n_} * n_ : 0;
  if (size > 0) {
    covariances_of_ended_.resize(ended_.size() * size);
    accurate_.resize(ended_.size());
    passes_.covariances(shape_, numbers_, scratch_.data(), ended_.data(), ended_.size(),
                        covariances_of_ended_.data(), accurate_.data());
  }
  for (std::size_t k = 0; k < ended_.size(); ++k) {
    Lane& lane = lanes_now_[ended_[k]];
    double* const covariance = covariances_of_ended_.data() + k * size;
    if (size > 0 && accurate_[k] == 0) find_covariance(ended_[k], covariance);
    lane.result.covariance = {covariance, size};
    lane.result.optimality = lane.rules.optimality();
    for (std::uint32_t s = 0; s < group_.scalars; ++s)
      x_of_ended_[s] = number(numbers_.here_x, s, ended_[k]);
    sink_->finish(group_, lane.component, x_of_ended_, lane.result);
  }
  if (!ended_.empty()) sink_->count(ended_.size());
  for (; !ended_.empty() && next_ < last_; ended_.pop_back()) load(ended_.back(), next_++);
  load_data();
  for (; !ended_.empty(); ended_.pop_back())
    if (--active_ != ended_.back()) move_lane(active_, ended_.back());
}

/// (JᵀJ)⁻¹ by J itself, where the squares in JᵀJ cost too many digits; infinite if it is singular.
void LaneSolver::find_covariance(std::size_t at, double* out) {
  const auto n = static_cast<Eigen::Index>(n_);
  Eigen::Map<Eigen::MatrixXd> covariance(out, n, n);
  covariance.setConstant(kInfinity);
  Eigen::VectorXd scale(n), residuals;
  for (std::uint32_t i = 0; i < n_; ++i) scale[i] = 1 / std::sqrt(entry(i, i, at));
  if (!scale.allFinite()) return;
  Eigen::MatrixXd jacobian;
  rows_at(at, point(at), residuals, &jacobian);
  if (jacobian.rows() < n || !jacobian.allFinite()) return;
  const runtime::Svd svd =
      runtime::accurate_svd(jacobian * scale.asDiagonal(), runtime::SvdVectors::right);
  const Eigen::VectorXd& values = svd.values;
  const double least = std::numeric_limits<double>::epsilon() *
                       static_cast<double>(std::max(jacobian.rows(), n)) * values[0];
  if (!(values[n - 1] > least)) return;
  const Eigen::MatrixXd half = scale.asDiagonal() * svd.v * values.cwiseInverse().asDiagonal();
  covariance = half * half.transpose();
}

}  // namespace topograd
