// The loop over lanes.
#include "lane_solver.hpp"

#include "../../ir/evaluate.hpp"
#include "../../runtime/engine/column_scaling.hpp"
#include "../../runtime/factor/factor_report.hpp"
#include "../../runtime/linear/dense.hpp"
#include "../interrupts.hpp"
#include "../linear/factor/dense_rows.hpp"
#include "../linear/factor/normal_system.hpp"
#include "../linear/factor/undetermined_blocks.hpp"
#include "../plan/decide.hpp"

#include <Eigen/Cholesky>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace topograd {
namespace {

namespace cpu = runtime::cpu;
using cpu::kLanes;
using cpu::kTile;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Bytes of the columns of one thread that stay in its cache.
constexpr std::size_t kCacheBytes = std::size_t{1} << 20;

/// Rounding of a walk's costs in f32, relative.
constexpr double kWalkNoise = 1 + 1e-4;

/// Position of (i, j), i <= j, in the rows of an upper triangle.
constexpr std::uint32_t packed(std::uint32_t n, std::uint32_t i, std::uint32_t j) {
  return i * n - i * (i + 1) / 2 + j;
}

/// The larger one; a NaN is kept.
double largest(double max, double v) { return std::isnan(max) || v <= max ? max : v; }

}  // namespace

LaneProgram::LaneProgram(const ComponentGroup& group, const SolverOptions& options,
                         std::span<const double> lower, std::span<const double> upper)
    : group_(&group),
      options_(&options),
      lower_(lower),
      upper_(upper),
      free_number_(group.scalars, ComponentGroup::kFixed) {
  for (const ComponentKernel& kernel : group.kernels) kernels_.emplace_back(kernel);
  for (std::uint32_t k = 0; k < group.scalars; ++k)
    if (group.column[k] != ComponentGroup::kFixed) free_number_[k] = free_++;
  for (std::size_t b = 0; b < group.blocks.size(); ++b)
    if (const runtime::ManifoldBlocks* const on = group.blocks[b].manifold)
      manifolds_.push_back(std::make_unique<Manifold>(
          Manifold{b, cpu::TileKernel<double>(on->plus), cpu::TileKernel<double>(on->basis)}));
  most_by_rows_ = static_cast<std::uint32_t>(most_unknowns(group.rows, kLargestReadBack));
  std::size_t columns = 3 * group.scalars + sums();
  for (const ComponentRows& rows : group.residuals)
    for (const ComponentNumbers& numbers : rows.data) columns += numbers.places == nullptr ? 0 : 1;
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

/// The numbers of a component at one point, in coordinates of steps.
struct LaneSolver::Point {
  double cost = 0;
  double* x = nullptr;
  double* gradient = nullptr;
  double* matrix = nullptr;         // upper triangle of JᵀJ by rows
  double squares_on_manifolds = 0;  // their part of PointReport::scaled_x_norm²
};

struct LaneSolver::Lane {
  Lane(const SolverOptions& options, StepRules::Terms terms) : rules(options, terms) {}

  StepRules rules;
  std::size_t component = 0;
  Phase phase = Phase::start;
  double initial_cost = 0;
  runtime::StepReport report;
  double share = 0;   // damped_share() of the full step
  double length = 0;  // of the step at the probe
  ProjectedSearch search;
  ComponentResult result;
  Point here, probe, kept;
  double* scale = nullptr;    // S, 0 where no column was found yet
  double* damping = nullptr;  // diagonal for it, in the units of JᵀJ
  double* delta = nullptr;    // the step in coordinates
  bool scaled = false;
  bool settled = false;  // damping is of this point
  bool walked = false;   // it began at the end of a walk
  bool ended = false;
};

LaneSolver::LaneSolver(const LaneProgram& program, std::size_t lanes, bool covariances)
    : program_(program),
      group_(program.group()),
      options_(program.options()),
      covariances_(covariances),
      lanes_(lanes),
      n_(group_.columns),
      matrix_(std::size_t{n_} * n_),
      solution_(n_),
      limits_(n_) {
  make_columns();
  bind();
  const std::size_t triangle = std::size_t{n_} * (n_ + 1) / 2;
  const std::size_t of_point = group_.scalars + n_ + triangle;
  const std::size_t of_lane = 3 * of_point + 3 * std::size_t{n_};
  numbers_.resize(of_lane * lanes_);
  for (std::size_t l = 0; l < lanes_; ++l) {
    Lane& lane = lanes_now_.emplace_back(options_, program_.terms());
    double* at = numbers_.data() + l * of_lane;
    for (Point* const point : {&lane.here, &lane.probe, &lane.kept}) {
      *point = {0, at, at + group_.scalars, at + group_.scalars + n_};
      at += of_point;
    }
    lane.scale = at;
    lane.damping = at + n_;
    lane.delta = at + 2 * std::size_t{n_};
  }
}
LaneSolver::~LaneSolver() = default;

void LaneSolver::make_columns() {
  std::size_t next = 0;
  const auto take = [&](std::size_t count) { return std::exchange(next, next + count); };
  x_ = take(group_.scalars);
  sums_ = take(program_.sums());
  if (group_.on_manifolds) {
    here_ = take(group_.scalars);
    delta_ = take(group_.scalars);
    moved_ = take(group_.scalars);
    for (const auto& on : program_.manifolds()) {
      const std::size_t width = group_.blocks[on->block].width;
      basis_entries_ += width * width;
    }
    bases_ = take(basis_entries_);
  }
  for (const ComponentRows& rows : group_.residuals)
    for (const ComponentNumbers& numbers : rows.data)
      if (numbers.places != nullptr) loads_.push_back({take(1), &numbers});
  columns_ = cpu::Column<double>(next * lanes_);
  std::fill_n(columns_.data(), columns_.size(), 0.0);
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
  for (const ComponentRows& rows : group_.residuals) bindings_.push_back(binding_of(rows, load));
}

///   load  number of the rows' first column in loads_; after the call, of the next rows'
cpu::Binding<double> LaneSolver::binding_of(const ComponentRows& rows, std::size_t& load) {
  const LaneKernel& kernel = program_.kernel(rows.kernel);
  std::vector<const double*> leaves;  // data, then parameters
  for (const ComponentNumbers& numbers : rows.data)
    leaves.push_back(numbers.places == nullptr ? constant(numbers.from)
                                               : column(loads_[load++].column));
  for (const std::uint32_t scalar : rows.unknowns) leaves.push_back(column(x_ + scalar));
  std::vector<double*> sums = {column(sums_)};
  std::vector<std::uint32_t> scalars;
  for (const std::uint32_t p : kernel.free())
    scalars.push_back(program_.free_number(rows.unknowns[p]));
  for (const std::uint32_t s : scalars) sums.push_back(column(sums_ + 1 + s));
  for (std::size_t a = 0; a < scalars.size(); ++a)
    for (std::size_t b = a; b < scalars.size(); ++b)
      sums.push_back(column(sums_ + program_.entry(scalars[a], scalars[b])));
  cpu::Binding<double> binding;
  for (const cpu::LeafUse& leaf : kernel.tile().program().columns) {
    const bool of_sum = leaf.slot >= kernel.first_sum();
    binding.columns.push_back(
        {of_sum ? sums[leaf.slot - kernel.first_sum()] : leaves[leaf.slot], false});
  }
  for (const std::uint32_t number : kernel.sums()) binding.outputs.push_back(sums[number]);
  return binding;
}

void LaneSolver::load(std::size_t at, std::size_t component) {
  Lane& lane = lanes_now_[at];
  lane.rules = StepRules(options_, program_.terms());
  lane.component = component;
  lane.phase = Phase::start;
  lane.result = {};
  lane.length = 0;
  lane.scaled = lane.settled = lane.ended = false;
  const bool walked = walks_ != nullptr && walks_->began(component);
  for (std::uint32_t s = 0; s < group_.scalars; ++s)
    lane.probe.x[s] =
        walked ? walks_->x[component * group_.scalars + s] : start_[group_.x[s].at(component)];
  lane.walked = walked;
  if (walked) {
    lane.result.successful = walks_->accepted[component];
    lane.result.unsuccessful = walks_->rejected[component];
  }
  std::fill_n(lane.delta, n_, 0.0);
  for (const DataColumn& data : loads_)
    column(data.column)[at] = data.numbers->from[data.numbers->places->at(component)];
}

void LaneSolver::move_lane(std::size_t from, std::size_t to) {
  std::swap(lanes_now_[from], lanes_now_[to]);
  for (const DataColumn& data : loads_) column(data.column)[to] = column(data.column)[from];
}

void LaneSolver::run(std::size_t first, std::size_t last, std::span<const double> x,
                     Clock::time_point begin, ComponentSink& sink, const Walks* walks) {
  walks_ = walks;
  next_ = first;
  last_ = last;
  start_ = x;
  sink_ = &sink;
  for (active_ = 0; active_ < lanes_ && next_ < last_; ++active_) load(active_, next_++);
  while (active_ > 0) {
    seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
    interrupted_ = Interrupts::came() || sink.should_end();
    evaluate();
    for (std::size_t at = 0; at < active_; ++at) consume(at);
    for (std::size_t at = 0; at < active_;) {
      if (!lanes_now_[at].ended) {
        ++at;
      } else if (next_ < last_) {
        load(at++, next_++);
      } else if (--active_ != at) {
        move_lane(active_, at);
      }
    }
  }
}

void LaneSolver::evaluate() {
  const std::size_t length = cpu::whole_lanes(active_);
  for (std::uint32_t s = 0; s < group_.scalars; ++s) {
    double* const to = column(x_ + s);
    for (std::size_t at = 0; at < active_; ++at) to[at] = lanes_now_[at].probe.x[s];
  }
  for (const auto& on : program_.manifolds()) move_on_manifold(*on);
  for (std::uint32_t k = 0; k < program_.sums(); ++k) std::fill_n(column(sums_ + k), length, 0.0);
  for (std::size_t j = 0; j < bindings_.size(); ++j)
    worker_.run(program_.kernel(group_.residuals[j].kernel).tile(), bindings_[j], 0, length);
  if (group_.on_manifolds) find_bases();
}

/// Probes of a block on a manifold: x ⊞ δ, in the lanes where it moves.
void LaneSolver::move_on_manifold(const LaneProgram::Manifold& on) {
  const ComponentBlock& block = group_.blocks[on.block];
  for (std::size_t at = 0; at < active_; ++at) {
    const Lane& lane = lanes_now_[at];
    const double* const x = lane.phase == Phase::start ? lane.probe.x : lane.here.x;
    for (std::uint32_t k = 0; k < block.width; ++k) {
      column(here_ + block.first + k)[at] = x[block.first + k];
      column(delta_ + block.first + k)[at] =
          k < block.columns ? lane.length * lane.delta[block.column + k] : 0.0;
    }
  }
  cpu::Binding<double> binding;
  for (const cpu::LeafUse& leaf : on.plus.program().gathers) {
    const std::size_t from = leaf.op == ir::Op::Tangent ? delta_ : here_;
    binding.gathers.push_back({column(from + block.first + leaf.slot), lane_index_.data()});
  }
  for (std::uint32_t k = 0; k < block.width; ++k)
    binding.outputs.push_back(column(moved_ + block.first + k));
  worker_.run(on.plus, binding, 0, cpu::whole_lanes(active_));
  for (std::size_t at = 0; at < active_; ++at) {
    bool moves = false;
    for (std::uint32_t k = 0; k < block.columns; ++k)
      moves |= column(delta_ + block.first + k)[at] != 0;
    for (std::uint32_t k = block.first; moves && k < block.first + block.width; ++k)
      lanes_now_[at].probe.x[k] = column(x_ + k)[at] = column(moved_ + k)[at];
  }
}

void LaneSolver::find_bases() {
  const std::size_t length = cpu::whole_lanes(active_);
  std::size_t first = bases_;
  for (const auto& on : program_.manifolds()) {
    const ComponentBlock& block = group_.blocks[on->block];
    cpu::Binding<double> binding;
    for (const cpu::LeafUse& leaf : on->basis.program().gathers)
      binding.gathers.push_back({column(x_ + block.first + leaf.slot), lane_index_.data()});
    const std::size_t entries = std::size_t{block.width} * block.width;
    for (std::size_t k = 0; k < entries; ++k) binding.outputs.push_back(column(first + k));
    worker_.run(on->basis, binding, 0, length);
    first += entries;
  }
}

void LaneSolver::read_sums(std::size_t at, Point& to) const {
  const double* from = columns_.data() + sums_ * lanes_ + at;
  to.cost = *from / 2;
  if (group_.on_manifolds) return read_sums_on_manifolds(at, to);
  for (std::uint32_t k = 0; k < n_; ++k) to.gradient[k] = *(from += lanes_);
  const std::size_t entries = std::size_t{n_} * (n_ + 1) / 2;
  for (std::size_t k = 0; k < entries; ++k) to.matrix[k] = *(from += lanes_);
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

/// The basis at a lane's current point.
Eigen::MatrixXd LaneSolver::basis_at(const Lane& lane) const {
  std::vector<double> entries;
  for (const auto& on : program_.manifolds()) {
    const ComponentBlock& block = group_.blocks[on->block];
    const std::vector<double> of_block = ir::evaluate<double>(
        block.manifold->basis,
        {.parameters = std::span<const double>(lane.here.x + block.first, block.width)});
    entries.insert(entries.end(), of_block.begin(), of_block.end());
  }
  return basis(entries);
}

/// Pᵀ g and PᵀJᵀJP.
void LaneSolver::read_sums_on_manifolds(std::size_t at, Point& to) const {
  const double* const sums = columns_.data() + sums_ * lanes_ + at;
  const std::uint32_t free = program_.free_scalars();
  std::vector<double> entries(basis_entries_);
  for (std::size_t k = 0; k < entries.size(); ++k)
    entries[k] = columns_[(bases_ + k) * lanes_ + at];
  const Eigen::MatrixXd basis = this->basis(entries);
  Eigen::VectorXd gradient(free);
  Eigen::MatrixXd matrix(free, free);
  for (std::uint32_t a = 0; a < free; ++a) {
    gradient[a] = sums[(1 + a) * lanes_];
    for (std::uint32_t b = a; b < free; ++b)
      matrix(a, b) = matrix(b, a) = sums[program_.entry(a, b) * lanes_];
  }
  Eigen::Map<Eigen::VectorXd>(to.gradient, n_) = basis.transpose() * gradient;
  const Eigen::MatrixXd projected = basis.transpose() * matrix * basis;
  for (std::uint32_t a = 0; a < n_; ++a)
    for (std::uint32_t b = a; b < n_; ++b) to.matrix[packed(n_, a, b)] = projected(a, b);
  to.squares_on_manifolds = 0;
  for (const auto& on : program_.manifolds()) {
    const ComponentBlock& block = group_.blocks[on->block];
    const std::uint32_t row = program_.free_number(block.first);
    to.squares_on_manifolds += runtime::squares_along_tangents(
        to.x + block.first, block.width, block.columns,
        [&](std::uint32_t t) { return projected(block.column + t, block.column + t); },
        [&](std::uint32_t k, std::uint32_t t) { return basis(row + k, block.column + t); });
  }
}

bool LaneSolver::is_held(const Lane& lane, const Point& point, std::uint32_t scalar) const {
  const std::size_t place = group_.x[scalar].at(lane.component);
  const double g = point.gradient[group_.column[scalar]], x = point.x[scalar];
  return (program_.has_lower() && x <= program_.lower(place) && g > 0) ||
         (program_.has_upper() && x >= program_.upper(place) && g < 0);
}

/// x less the nearest point of the box to x − g.
double LaneSolver::free_gradient(const Lane& lane, const Point& point, std::uint32_t scalar) const {
  const std::size_t place = group_.x[scalar].at(lane.component);
  // The difference x − (x − g) would lose the digits of a gradient that is small beside x.
  double g = point.gradient[group_.column[scalar]];
  if (program_.has_lower()) g = std::min(g, point.x[scalar] - program_.lower(place));
  if (program_.has_upper()) g = std::max(g, point.x[scalar] - program_.upper(place));
  return g;
}

runtime::PointReport LaneSolver::report_of(const Lane& lane, const Point& point) const {
  runtime::PointReport out{.cost = point.cost};
  double squares = 0, x_squares = 0;
  for (std::uint32_t s = 0; s < group_.scalars; ++s)
    if (group_.column[s] != ComponentGroup::kFixed) x_squares += point.x[s] * point.x[s];
  const auto add = [&](double g) {
    out.gradient_max_norm = largest(out.gradient_max_norm, std::fabs(g));
    squares += g * g;
  };
  if (!group_.bounded) {
    for (std::uint32_t k = 0; k < n_; ++k) add(point.gradient[k]);
  } else {
    for (const ComponentBlock& block : group_.blocks) {
      for (std::uint32_t k = 0; block.manifold != nullptr && k < block.columns; ++k)
        add(point.gradient[block.column + k]);
      for (std::uint32_t s = block.first;
           block.manifold == nullptr && s < block.first + block.width; ++s)
        if (group_.column[s] != ComponentGroup::kFixed) add(free_gradient(lane, point, s));
    }
  }
  out.gradient_norm = std::sqrt(squares);
  out.x_norm = std::sqrt(x_squares);
  add_scaled_norms(lane, point, out);
  return out;
}

void LaneSolver::add_scaled_norms(const Lane& lane, const Point& point,
                                  runtime::PointReport& out) const {
  double max = 0, gradients = 0, xs = point.squares_on_manifolds, steps = 0;
  const auto add = [&](std::uint32_t k, bool held) {
    const double h = point.matrix[packed(n_, k, k)];
    if (h == 0) return;
    const double g = held ? 0 : runtime::scaled_gradient(point.gradient[k], h);
    max = largest(max, std::fabs(g));
    gradients += g * g;
    const double step = lane.length * lane.delta[k];
    steps += h * step * step;
  };
  for (const ComponentBlock& block : group_.blocks) {
    if (block.manifold == nullptr) {
      for (std::uint32_t s = block.first; s < block.first + block.width; ++s) {
        const std::uint32_t k = group_.column[s];
        if (k == ComponentGroup::kFixed) continue;
        add(k, group_.bounded && is_held(lane, point, s));
        xs += point.matrix[packed(n_, k, k)] * point.x[s] * point.x[s];
      }
      continue;
    }
    for (std::uint32_t k = block.column; k < block.column + block.columns; ++k) add(k, false);
  }
  out.scaled_gradient_max = max;
  out.scaled_gradient_norm = std::sqrt(gradients);
  out.scaled_x_norm = std::sqrt(xs);
  out.scaled_step_norm = std::sqrt(steps);
}

void LaneSolver::set_scale(Lane& lane) {
  const double unit = options_.scale_free ? 0 : 1;
  for (std::uint32_t k = 0; k < n_; ++k) {
    if (lane.scaled && !options_.scale_free) break;
    const double here = runtime::column_scale(unit, std::sqrt(lane.here.matrix[packed(n_, k, k)]));
    lane.scale[k] = lane.scaled ? runtime::first_scale(lane.scale[k], here) : here;
  }
  lane.scaled = true;
}

/// The diagonal for the damping, as the solver of a whole problem has it.
void LaneSolver::set_damping(Lane& lane) {
  if (std::exchange(lane.settled, true)) return;
  set_scale(lane);
  for (std::uint32_t k = 0; k < n_; ++k) lane.damping[k] = lane.here.matrix[packed(n_, k, k)];
  if (options_.scale_free && !group_.bounded && !group_.on_manifolds) find_undetermined(lane);
}

/// True if a block of JᵀJ is far from singular: its pivots are no small parts of its diagonal.
bool LaneSolver::is_determined(const Lane& lane, std::uint32_t first, std::uint32_t width) {
  constexpr double kFarFromSingular = 1e-8;
  double* const a = matrix_.data();  // free until the system is built
  for (std::uint32_t j = 0; j < width; ++j) {
    const double* const row = lane.here.matrix + packed(n_, first + j, first + j);
    double pivot = row[0];
    for (std::uint32_t k = 0; k < j; ++k)
      pivot -= a[j * width + k] * a[j * width + k] * a[k * width + k];
    if (!(pivot > kFarFromSingular * row[0])) return false;
    a[j * width + j] = pivot;
    const double reciprocal = 1 / pivot;
    for (std::uint32_t i = j + 1; i < width; ++i) {
      double sum = row[i - j];
      for (std::uint32_t k = 0; k < j; ++k)
        sum -= a[i * width + k] * a[j * width + k] * a[k * width + k];
      a[i * width + j] = sum * reciprocal;
    }
  }
  return true;
}

/// As UndeterminedBlocks.
void LaneSolver::find_undetermined(Lane& lane) {
  BlockMatrix entries;  // NOLINT(*-member-init): what is read is set
  for (const ComponentBlock& block : group_.blocks) {
    std::uint32_t width = 0;
    for (std::uint32_t s = block.first; s < block.first + block.width; ++s)
      width += group_.column[s] == ComponentGroup::kFixed ? 0 : 1;
    if (width < 2 || width > kWidestTested) continue;
    const std::uint32_t first = block.column;
    if (is_determined(lane, first, width)) continue;
    for (std::uint32_t i = 0; i < width; ++i)
      for (std::uint32_t j = 0; j <= i; ++j)
        entries[i * kWidestTested + j] = lane.here.matrix[packed(n_, first + j, first + i)];
    raise_dependent(entries, width, lane.damping + first);
  }
}

/// (S JᵀJ S + λ clamp(S d S)) y = −S g, δ = S y. Sets the report's decrease and slope; false if
/// there is no step.
bool LaneSolver::solve(Lane& lane) {
  const runtime::StepRequest request = lane.rules.request();
  set_damping(lane);
  const bool damped = request.lambda > 0;
  const bool solved = !lane.result.by_rows &&
                      factor_and_solve(lane, request, damped ? kUnitsOfStrict : kUnitsOfExact);
  if (solved && !(lane.report.hidden_decrease > lane.report.model_decrease)) return true;
  const bool may = solved || lane.result.by_rows || n_ <= program_.most_by_rows() || !damped;
  if (!may || !solve_by_rows(lane, request)) return solved;
  // That the matrix is singular without damping says nothing about other steps.
  if (damped) lane.result.by_rows = true;
  return true;
}

/// The step without damping, of a small component. By QR of the rows where the squares in JᵀJ cost
/// too many digits.
bool LaneSolver::solve_undamped(Lane& lane) {
  const runtime::StepRequest request = lane.rules.undamped_request();
  set_damping(lane);
  return factor_and_solve(lane, request, kUnitsOfExact) || solve_by_rows(lane, request);
}

/// S, in place of the step: 0 where a bound holds a coordinate.
void LaneSolver::set_scaling(Lane& lane) const {
  for (std::uint32_t k = 0; k < n_; ++k)
    lane.delta[k] = options_.jacobi_scaling && lane.scale[k] > 0 ? lane.scale[k] : 1;
  if (!group_.bounded) return;
  for (std::uint32_t scalar = 0; scalar < group_.scalars; ++scalar) {
    const std::uint32_t k = group_.column[scalar];
    if (k != ComponentGroup::kFixed && is_held(lane, lane.here, scalar)) lane.delta[k] = 0;
  }
}

/// The damped system, in matrix_ (lower triangle by rows) and solution_.
void LaneSolver::build_system(const Lane& lane, const runtime::StepRequest& request, bool small) {
  const double least = request.keeps_damping && small
                           ? std::max(request.min_diagonal, runtime::kLeastDiagonalOfSmall)
                           : request.min_diagonal;
  const double* const s = lane.delta;
  for (std::uint32_t j = 0; j < n_; ++j) {
    const double* const row = lane.here.matrix + packed(n_, j, j);
    for (std::uint32_t i = j; i < n_; ++i)
      matrix_[std::size_t{i} * n_ + j] = s[i] * s[j] * row[i - j];
    const double damping = std::clamp(s[j] * s[j] * lane.damping[j], least, request.max_diagonal);
    matrix_[std::size_t{j} * n_ + j] += request.lambda * damping;
    solution_[j] = -s[j] * lane.here.gradient[j];
  }
}

/// Cholesky's factor by rows, with reciprocals on its diagonal; false if the matrix is not positive
/// definite.
///
///   vanishing  share of the diagonal below which a pivot is left out; 0: none is. limits_ has
///              that size for each pivot which is left out, else 0
bool LaneSolver::factor(double vanishing) {
  const std::size_t n = n_;
  double* const a = matrix_.data();
  for (std::size_t j = 0; j < n; ++j) {
    double pivot = a[j * n + j];
    const double limit = vanishing * std::fabs(pivot);
    for (std::size_t k = 0; k < j; ++k) pivot -= a[j * n + k] * a[j * n + k];
    const bool vanishes = vanishing > 0 && std::fabs(pivot) <= limit;
    if (!vanishes && !(pivot > 0 && pivot < kInfinity)) return false;
    limits_[j] = vanishes ? limit : 0;
    const double reciprocal = vanishes ? 0 : 1 / std::sqrt(pivot);
    a[j * n + j] = reciprocal;
    for (std::size_t i = j + 1; i < n; ++i) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = sum * reciprocal;
    }
  }
  return true;
}

/// Solves by the factor. Returns what pivots that were left out may hide, as
/// NormalSystem::hidden_decrease().
double LaneSolver::substitute() {
  double hidden = 0;
  const std::size_t n = n_;
  const double* const a = matrix_.data();
  double* const y = solution_.data();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) y[j] -= a[j * n + k] * y[k];
    if (limits_[j] > 0) hidden += y[j] * y[j] / (2 * limits_[j]);
    y[j] *= a[j * n + j];
  }
  for (std::size_t j = n; j-- > 0;) {
    for (std::size_t i = j + 1; i < n; ++i) y[j] -= a[i * n + j] * y[i];
    y[j] *= a[j * n + j];
  }
  return hidden;
}

///   units  of rounding at or below which a pivot of a small matrix is refused
bool LaneSolver::factor_and_solve(Lane& lane, const runtime::StepRequest& request, double units) {
  const bool on_host = group_.bounded || group_.on_manifolds;
  const bool small = n_ <= (on_host ? kLargestReadBack : program_.most_by_rows());
  // Pivots that vanish in a larger matrix are left out, as in a solve of its own; a small one is
  // refused.
  const bool refuses = n_ <= program_.most_by_rows() || request.lambda == 0;
  const double share = runtime::vanishing_share(n_, std::numeric_limits<double>::epsilon());
  const double vanishing = refuses ? units * share : small || on_host ? 0 : share;
  set_scaling(lane);
  build_system(lane, request, small);
  if (!factor(vanishing)) return false;
  const auto vanishes = [](double limit) { return limit > 0; };
  if (refuses && std::any_of(limits_.begin(), limits_.begin() + n_, vanishes)) return false;
  const double hidden = substitute();
  double* const delta = lane.delta;
  double slope = 0, square = 0, sum = 0;
  for (std::uint32_t k = 0; k < n_; ++k) {
    delta[k] *= solution_[k];
    slope += lane.here.gradient[k] * delta[k];
    sum += std::fabs(delta[k]);
  }
  if (!std::isfinite(sum)) return false;
  for (std::uint32_t i = 0; i < n_; ++i) {
    const double* const row = lane.here.matrix + packed(n_, i, i);
    double product = row[0] * delta[i];
    for (std::uint32_t j = i + 1; j < n_; ++j) product += 2 * row[j - i] * delta[j];
    square += delta[i] * product;
  }
  lane.report = {.model_decrease = -slope - square / 2, .slope = slope, .hidden_decrease = hidden};
  return true;
}

/// Residuals, and Jacobian over the coordinates, at the current point.
void LaneSolver::rows_at(const Lane& lane, Eigen::VectorXd& residuals,
                         Eigen::MatrixXd* jacobian) const {
  residuals.resize(group_.rows);
  if (jacobian != nullptr) *jacobian = Eigen::MatrixXd::Zero(group_.rows, program_.free_scalars());
  Eigen::Index first = 0;
  for (const ComponentRows& rows : group_.residuals) {
    const LaneKernel& kernel = program_.kernel(rows.kernel);
    std::vector<double> data;
    for (const ComponentNumbers& numbers : rows.data)
      data.push_back(numbers.places == nullptr ? *numbers.from
                                               : numbers.from[numbers.places->at(lane.component)]);
    for (const std::uint32_t scalar : rows.unknowns) data.push_back(lane.here.x[scalar]);
    const std::vector<double> out = ir::evaluate<double>(kernel.rows(), {.data = data});
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
  if (jacobian != nullptr && group_.on_manifolds) *jacobian *= basis_at(lane);
}

bool LaneSolver::solve_by_rows(Lane& lane, runtime::StepRequest request) {
  if (request.keeps_damping && n_ <= program_.most_by_rows())
    request.min_diagonal = std::max(request.min_diagonal, runtime::kLeastDiagonalOfSmall);
  Eigen::VectorXd residuals, damping(n_), scales(n_);
  Eigen::MatrixXd jacobian;
  rows_at(lane, residuals, &jacobian);
  set_scaling(lane);
  for (std::uint32_t k = 0; k < n_; ++k) {
    const double entry = lane.here.matrix[packed(n_, k, k)], s = lane.delta[k];
    const double damped = entry + runtime::column_damping(lane.damping[k], s * s, request);
    const bool is_held = s == 0;
    damping[k] = is_held ? 0 : std::max(0.0, damped - entry);
    scales[k] = is_held ? 0 : scale_of_rows(lane.scale[k], entry, request.lambda > 0);
  }
  const std::optional<Eigen::VectorXd> delta = solve_rows(jacobian, residuals, damping, scales);
  if (!delta) return false;
  const Eigen::VectorXd change = jacobian * *delta;
  double slope = 0;
  for (std::uint32_t k = 0; k < n_; ++k) {
    lane.delta[k] = (*delta)[k];
    slope += lane.here.gradient[k] * lane.delta[k];
  }
  lane.report = {.model_decrease = -residuals.dot(change) - change.squaredNorm() / 2,
                 .slope = slope};
  return true;
}

/// Moves the probe to a part of the step; blocks on manifolds follow when it is evaluated.
void LaneSolver::try_length(std::size_t at, double length) {
  Lane& lane = lanes_now_[at];
  lane.length = length;
  for (std::uint32_t s = 0; s < group_.scalars; ++s) {
    const std::uint32_t k = group_.column[s];
    lane.probe.x[s] = lane.here.x[s];
    if (k == ComponentGroup::kFixed) continue;
    lane.probe.x[s] += length * lane.delta[k];
  }
  if (group_.on_manifolds) {
    for (const auto& on : program_.manifolds()) {
      const ComponentBlock& block = group_.blocks[on->block];
      std::copy_n(lane.here.x + block.first, block.width, lane.probe.x + block.first);
    }
  }
  if (!group_.bounded) return;
  for (std::uint32_t s = 0; s < group_.scalars; ++s) {
    if (group_.column[s] == ComponentGroup::kFixed) continue;
    const std::size_t place = group_.x[s].at(lane.component);
    double& x = lane.probe.x[s];
    if (program_.has_lower()) x = std::max(x, program_.lower(place));
    if (program_.has_upper()) x = std::min(x, program_.upper(place));
  }
}

double LaneSolver::step_norm(const Lane& lane) const {
  double square = 0;
  for (std::uint32_t s = 0; s < group_.scalars; ++s) {
    const double moved = lane.probe.x[s] - lane.here.x[s];
    square += moved * moved;
  }
  return std::sqrt(square);
}

/// Solves for steps until one can be tried, or none can.
void LaneSolver::step(std::size_t at) {
  Lane& lane = lanes_now_[at];
  while (!lane.ended && lane.phase != Phase::confirm) {
    if (solve(lane)) {
      lane.phase = Phase::trial;
      lane.share = damped_share(lane.report);
      return try_length(at, 1);
    }
    lane.report = {.model_decrease = kNaN};
    ++lane.result.unsuccessful;
    end_if(at, lane.rules.refuse(lane.rules.judge(lane.report), lane.report, kNaN));
    check(at);
  }
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
  if (may_go_on && lane.rules.may_be_contradicted({result.end}) && solve_undamped(lane) &&
      lane.report.model_decrease > lane.rules.least_contradiction()) {
    lane.phase = Phase::confirm;
    return try_length(at, 1);
  }
  end(lane);
}

void LaneSolver::end(Lane& lane) {
  lane.ended = true;
  give_result(lane);
}

/// The verdict, after a step without damping that promised more than the verdict says is left.
void LaneSolver::judge_verdict(std::size_t at) {
  Lane& lane = lanes_now_[at];
  lane.phase = Phase::trial;
  const StepRules::Undamped undamped = lane.rules.judge_undamped(lane.report);
  if (undamped == StepRules::Undamped::agrees) return end(lane);
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
  read_sums(at, lane.probe);
  if (lane.phase == Phase::start) return begin(at);
  const runtime::StepReport tried{.step_norm = step_norm(lane), .trial_cost = lane.probe.cost};
  if (lane.phase == Phase::longer) {
    if (!StepRules::take_length(lane.report, lane.length, tried)) {
      std::swap(lane.kept, lane.probe);
      lane.length = 1;
    }
    return judge(at);
  }
  lane.report.trial_cost = tried.trial_cost;
  lane.report.step_norm = tried.step_norm;
  if (lane.phase == Phase::confirm) return judge_verdict(at);
  if (lane.phase == Phase::trial && group_.bounded) {
    lane.search = ProjectedSearch(lane.here.cost, lane.report);
    lane.phase = Phase::search;
  } else if (lane.phase == Phase::trial && !lane.rules.last_was_hidden()) {
    if (const std::optional<double> length = lane.rules.other_length(lane.report)) {
      std::swap(lane.kept, lane.probe);
      lane.phase = Phase::longer;
      return try_length(at, *length);
    }
  }
  if (lane.phase == Phase::search) {
    if (const std::optional<double> length = lane.search.next(lane.probe.cost))
      return try_length(at, *length);
  }
  judge(at);
}

/// A walk whose end is no better than its start here is not used.
bool LaneSolver::refuse_walk(Lane& lane) {
  if (!lane.walked || lane.probe.cost <= walks_->initial_cost[lane.component] * kWalkNoise)
    return false;
  lane.walked = false;
  lane.result = {};
  for (std::uint32_t s = 0; s < group_.scalars; ++s)
    lane.probe.x[s] = start_[group_.x[s].at(lane.component)];
  return true;
}

void LaneSolver::begin(std::size_t at) {
  Lane& lane = lanes_now_[at];
  if (refuse_walk(lane)) return;
  std::swap(lane.here, lane.probe);
  lane.initial_cost = lane.walked ? walks_->initial_cost[lane.component] : lane.here.cost;
  lane.result.initial_cost = lane.initial_cost;
  lane.result.final_cost = lane.here.cost;
  lane.rules.set_point(report_of(lane, lane.here), lane.initial_cost);
  lane.rules.open_point();
  lane.rules.start(lane.here.cost);
  if (!lane.rules.finite()) {
    lane.result.end = End::nonfinite;
  } else if (out_of_range(lane.rules.point()) || refuse_underflow(lane)) {
    lane.result.end = End::out_of_range;
  }
  check(at);
  step(at);
}

/// Residuals whose squares underflow have no cost and no gradient.
bool LaneSolver::refuse_underflow(Lane& lane) {
  const runtime::PointReport& point = lane.rules.point();
  if (point.cost != 0 || point.gradient_max_norm != 0) return false;
  Eigen::VectorXd residuals;
  rows_at(lane, residuals, nullptr);
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
    end_if(at, lane.rules.refuse(facts, lane.report, lane.share));
  }
  check(at);
  step(at);
}

void LaneSolver::accept(std::size_t at, const StepFacts& facts) {
  Lane& lane = lanes_now_[at];
  const runtime::PointReport before = lane.rules.point();
  std::swap(lane.here, lane.probe);
  lane.settled = false;
  ++lane.result.successful;
  lane.result.final_cost = lane.report.trial_cost;
  lane.rules.take(facts, lane.report, false);
  lane.rules.set_point(report_of(lane, lane.here), lane.initial_cost);
  end_if(at, lane.rules.after_take(facts, lane.report, before, lane.share));
  lane.rules.open_point();
  if (!lane.rules.finite()) {
    lane.rules.set_cost(lane.report.trial_cost);
    lane.result.end = End::nonfinite;
  }
  if (out_of_range(lane.rules.point())) lane.result.end = End::out_of_range;
}

void LaneSolver::give_result(Lane& lane) {
  lane.result.optimality = lane.rules.optimality();
  if (covariances_) {
    find_covariance(lane);
    lane.result.covariance = covariance_;
  }
  sink_->finish(group_, lane.component, std::span(lane.here.x, group_.scalars), lane.result);
}

/// (JᵀJ)⁻¹; infinite if it is singular. Where the squares in JᵀJ cost too many digits, by J itself.
void LaneSolver::find_covariance(const Lane& lane) {
  constexpr double kLeastPivot = 1e-8;
  const auto n = static_cast<Eigen::Index>(n_);
  covariance_.assign(std::size_t{n_} * n_, kInfinity);
  Eigen::Map<Eigen::MatrixXd> covariance(covariance_.data(), n, n);
  Eigen::MatrixXd matrix(n, n);
  Eigen::VectorXd scale(n);
  for (std::uint32_t i = 0; i < n_; ++i) {
    scale[i] = 1 / std::sqrt(lane.here.matrix[packed(n_, i, i)]);
    for (std::uint32_t j = 0; j <= i; ++j)
      matrix(i, j) = lane.here.matrix[packed(n_, j, i)] * scale[i] * scale[j];
  }
  if (!scale.allFinite()) return;
  const Eigen::LLT<Eigen::MatrixXd> factor(matrix);
  const bool accurate = factor.info() == Eigen::Success &&
                        factor.matrixLLT().diagonal().cwiseAbs2().minCoeff() > kLeastPivot;
  if (accurate) {
    covariance =
        scale.asDiagonal() * factor.solve(Eigen::MatrixXd::Identity(n, n)) * scale.asDiagonal();
    return;
  }
  Eigen::VectorXd residuals;
  Eigen::MatrixXd jacobian;
  rows_at(lane, residuals, &jacobian);
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
