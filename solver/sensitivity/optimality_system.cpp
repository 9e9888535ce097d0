// Assembles the Hessian in coordinates, solves it, and eliminates unknowns for the multipliers.
#include "optimality_system.hpp"

#include "../../frontend/inspect/array_names.hpp"
#include "../../ir/error.hpp"
#include "../../ir/machine/formatted.hpp"
#include "../../runtime/cpu/factor/sparse_factor.hpp"
#include "../../runtime/linear/dense.hpp"
#include "../linear/factor/lower_pattern.hpp"
#include "../linear/factor/normal_equations.hpp"
#include "../session/session.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Vector = Eigen::VectorXd;
using Columns = std::vector<std::uint32_t>;

/// Up to this size eigenvalues tell how far from singular a matrix is.
constexpr Eigen::Index kLargestDense = 160;
/// Least eigenvalue or pivot of a matrix with a unit diagonal, times its size: below it, rounding
/// has made it.
constexpr double kLeastShare = 1e-15;
/// In a matrix that is singular by that bound, eigenvalues up to this one, times its size, are 0;
/// and pivots or eigenvalues below minus the second bound are negative.
constexpr double kZero = 1e-14, kNegative = 1e-10;
/// An unknown is determined if no null vector has a larger part along it.
constexpr double kNoPart = 1e-8;

/// By column: an entry of it or of its row is not 0.
std::vector<bool> present_columns(const SparseMatrix& lower) {
  std::vector<bool> out(static_cast<std::size_t>(lower.cols()), false);
  for (Eigen::Index c = 0; c < lower.cols(); ++c)
    for (SparseMatrix::InnerIterator it(lower, c); it; ++it)
      if (it.value() != 0)
        out[static_cast<std::size_t>(c)] = out[static_cast<std::size_t>(it.row())] = true;
  return out;
}

}  // namespace

struct SymmetricSolver::Impl {
  /// One matrix with a unit diagonal, on some columns of H.
  class Part {
   public:
    using Failure = SymmetricSolver::Failure;

    Part(const SparseMatrix& scaled, Columns columns, int threads)
        : columns_(std::move(columns)), determined_(columns_.size(), true) {
      if (scaled.cols() <= kLargestDense)
        decompose(scaled);
      else
        factorise(scaled, threads);
    }

    /// Set if the matrix is not positive definite in working precision.
    const std::optional<Failure>& failure() const { return failure_; }
    bool indefinite() const { return failure_ && failure_->pivot < -kNegative; }
    const Columns& columns() const { return columns_; }
    bool determined(std::size_t k) const { return determined_[k]; }

    void solve(const Vector& right, Vector& out) const {
      Vector own(static_cast<Eigen::Index>(columns_.size())), found = Vector::Zero(own.size());
      for (std::size_t k = 0; k < columns_.size(); ++k)
        own[static_cast<Eigen::Index>(k)] = right[columns_[k]];
      if (dense_) {
        Vector along = dense_->vectors().transpose() * own;
        for (Eigen::Index k = 0; k < along.size(); ++k)
          along[k] = k < zeros_ ? 0 : along[k] / dense_->values()[k];
        found = dense_->vectors() * along;
      } else if (sparse_ && !failure_) {
        sparse_->solve({own.data(), columns_.size()}, {found.data(), columns_.size()});
      }
      for (std::size_t k = 0; k < columns_.size(); ++k)
        out[columns_[k]] = found[static_cast<Eigen::Index>(k)];
    }

   private:
    void decompose(const SparseMatrix& scaled) {
      dense_.emplace(Eigen::MatrixXd(scaled));
      const Vector& values = dense_->values();
      const double largest = values[values.size() - 1], least = values[0] / largest;
      const auto size = static_cast<double>(values.size());
      if (least > kLeastShare * size) return;
      Eigen::Index column = 0;
      dense_->vectors().col(0).cwiseAbs().maxCoeff(&column);
      failure_ = {columns_[static_cast<std::size_t>(column)], least};
      while (zeros_ < values.size() && values[zeros_] <= kZero * size * largest) ++zeros_;
      for (std::size_t k = 0; k < columns_.size(); ++k)
        determined_[k] = dense_->vectors()
                             .row(static_cast<Eigen::Index>(k))
                             .head(zeros_)
                             .cwiseAbs()
                             .maxCoeff() <= kNoPart;
    }

    void factorise(const SparseMatrix& scaled, int threads) {
      sparse_.emplace(runtime::make_factor_plan(pattern_of(scaled)), threads);
      const runtime::FactorReport report = sparse_->factor(values_of(scaled));
      if (report.end != runtime::FactorEnd::complete)
        failure_ = {columns_[report.column], report.pivot};
      else if (sparse_->least_pivot() <=
               kLeastShare * std::sqrt(static_cast<double>(scaled.cols())))
        failure_ = {kNowhere, sparse_->least_pivot()};
      if (failure_) determined_.assign(columns_.size(), false);
    }

    static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};  // beyond all columns

    Columns columns_;  // ascending
    std::vector<bool> determined_;
    std::optional<Failure> failure_;
    std::optional<runtime::SymmetricEigen> dense_;
    Eigen::Index zeros_ = 0;  // eigenvalues
    std::optional<runtime::cpu::SparseFactor> sparse_;
  };

  Impl(const SparseMatrix& lower, int threads)
      : scale(Vector::Zero(lower.cols())),
        unknowns(static_cast<std::size_t>(lower.cols()), Unknown::absent) {
    const std::vector<bool> present = present_columns(lower);
    Columns columns;
    for (Eigen::Index k = 0; k < lower.cols(); ++k) {
      if (!present[static_cast<std::size_t>(k)]) continue;
      const double diagonal = lower.coeff(k, k);
      if (!(diagonal > 0) || !std::isfinite(diagonal)) {
        failure = {static_cast<std::uint32_t>(k), diagonal};
        return;
      }
      scale[k] = 1 / std::sqrt(diagonal);
      columns.push_back(static_cast<std::uint32_t>(k));
    }
    if (columns.empty()) {
      if (lower.cols() > 0) failure = {0, 0};
      return;  // nothing is free
    }
    const SparseMatrix scaled = scaled_by(scale, lower);
    add(scaled, columns, threads);
    if (parts.back().failure()) split(scaled, columns, threads);
    if (!failure) mark();
  }

  void add(const SparseMatrix& scaled, const Columns& columns, int threads) {
    const bool whole = columns.size() == unknowns.size();
    parts.emplace_back(whole ? scaled : lower_part(scaled, columns), columns, threads);
  }

  /// One part for each component, of which some are singular.
  void split(const SparseMatrix& scaled, const Columns& columns, int threads) {
    const Failure first = *parts.back().failure();
    const Columns component = components(scaled);
    std::map<std::uint32_t, Columns> members;
    for (const std::uint32_t k : columns) members[component[k]].push_back(k);
    if (members.size() > 1) {
      parts.clear();
      for (const auto& [root, own] : members) add(scaled, own, threads);
    }
    for (const Part& part : parts) {
      if (!part.indefinite()) continue;
      failure = part.failure();
      return;
    }
    const bool any = std::ranges::any_of(parts, [](const Part& part) {
      for (std::size_t k = 0; k < part.columns().size(); ++k)
        if (part.determined(k)) return true;
      return false;
    });
    if (!any) failure = first;
  }

  void mark() {
    for (const Part& part : parts)
      for (std::size_t k = 0; k < part.columns().size(); ++k)
        unknowns[part.columns()[k]] = part.determined(k) ? Unknown::determined : Unknown::singular;
  }

  Vector solve(const Vector& right) const {
    const Vector scaled = scale.cwiseProduct(right);
    Vector out = Vector::Zero(right.size());
    for (const Part& part : parts) part.solve(scaled, out);
    return scale.cwiseProduct(out);
  }

  Vector scale;
  std::vector<Unknown> unknowns;
  std::deque<Part> parts;
  std::optional<Failure> failure;
};

SymmetricSolver::SymmetricSolver(const SparseMatrix& lower, int threads)
    : impl_(std::make_unique<Impl>(lower, threads)) {}
SymmetricSolver::~SymmetricSolver() = default;
SymmetricSolver::SymmetricSolver(SymmetricSolver&&) noexcept = default;
SymmetricSolver& SymmetricSolver::operator=(SymmetricSolver&&) noexcept = default;

const std::optional<SymmetricSolver::Failure>& SymmetricSolver::failure() const {
  return impl_->failure;
}
SymmetricSolver::Unknown SymmetricSolver::unknown(Eigen::Index column) const {
  return impl_->unknowns[static_cast<std::size_t>(column)];
}
Vector SymmetricSolver::solve(const Vector& right) const { return impl_->solve(right); }

namespace {

/// Length of the longest differences, in tangent coordinates.
constexpr double kLongest = 0.04;

/// gᵀ(x ⊞ δ), and its second derivatives along directions.
class AlongDirections {
 public:
  AlongDirections(const Manifold& manifold, const double* x, const double* gradient)
      : manifold_(manifold),
        x_(x),
        gradient_(gradient),
        moved_(static_cast<std::size_t>(manifold.ambient_size())),
        delta_(static_cast<std::size_t>(manifold.tangent_size())) {}

  /// Differences of three lengths, of which each is half the one before; their errors are even
  /// powers of the length (Richardson).
  double second(const Eigen::VectorXd& direction) {
    std::array<double, 3> found{};
    double length = kLongest;
    for (double& difference : found) {
      difference = (value(direction, length) + value(direction, -length)) / (length * length);
      length /= 2;
    }
    const double first = (4 * found[1] - found[0]) / 3, last = (4 * found[2] - found[1]) / 3;
    return (16 * last - first) / 15;
  }

 private:
  /// gᵀ((x ⊞ length direction) − x).
  double value(const Eigen::VectorXd& direction, double length) {
    for (std::size_t k = 0; k < delta_.size(); ++k)
      delta_[k] = length * direction[static_cast<Eigen::Index>(k)];
    if (!manifold_.plus(x_, delta_.data(), moved_.data()))
      return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    for (std::size_t k = 0; k < moved_.size(); ++k) sum += gradient_[k] * (moved_[k] - x_[k]);
    return sum;
  }

  const Manifold& manifold_;
  const double* x_;
  const double* gradient_;
  std::vector<double> moved_, delta_;
};

using Triplets = std::vector<Eigen::Triplet<double>>;

/// More active constraints are solved for by conjugate gradients.
constexpr std::size_t kMostDense = 128;
/// Shares of the largest diagonal entry below which directions of A H⁻¹ Aᵀ depend on others.
constexpr double kDependent = 1e-11;
/// ‖residual‖ / ‖right side‖ at which conjugate gradients end, and above which there is no
/// solution.
constexpr double kTolerance = 1e-14, kNoSolution = 1e-6;
/// Steps longer than this share of x leave a point that is no solution.
constexpr double kShortStep = 1e-6;
/// Share of the cost from which on a step takes all of it: the rows of a perfect fit.
constexpr double kAllOfCost = 0.999;
/// Relative error of terms that is rounding.
constexpr double kRounding = 1e3 * std::numeric_limits<double>::epsilon();

std::string text(double number) { return platform::formatted("%.3g", number); }

/// Throws if an instance's condition is not what it was traced for.
void require_branches(runtime::Engine& engine, const runtime::Model& model) {
  const auto branches = [](const runtime::Term& term) {
    return !term.topology->program.guards.empty();
  };
  runtime::Guards* const guards = engine.abilities().guards;
  if (guards == nullptr || std::ranges::none_of(model.terms, branches)) return;
  engine.cost();
  if (guards->failed_guards() == 0) return;
  throw SensitivityError(SensitivityError::Reason::unconverged,
                         "sensitivity: x is on another side of a branch than its residuals were "
                         "traced for; expected the parameters as a solve left them");
}

/// The Newton step at a point, and what it is compared with.
struct NewtonStep {
  double length, size;    ///< ‖step‖ and ‖x‖
  double decrease, cost;  ///< predicted decrease of the cost; the cost itself
  double rounding;        ///< cost of rows of the size of the rounding of their terms
  bool residuals_alone;   ///< the cost is that of residuals, without constraints that hold
};

/// True if a point with this step is a solution. Where x is large for another reason than what the
/// residuals say, such as an origin that lies far away, all steps are short: they count unless the
/// cost is only what the last step of a solve or rounding left of a perfect fit.
bool is_solution(const NewtonStep& step, double tolerance) {
  if (step.decrease <= tolerance * std::abs(step.cost)) return true;
  if (!(step.length <= kShortStep * (step.size + kShortStep))) return false;
  return !step.residuals_alone || step.decrease >= kAllOfCost * step.cost ||
         step.decrease <= step.rounding;
}

std::span<double> span_of(Vector& v) { return {v.data(), static_cast<std::size_t>(v.size())}; }

}  // namespace

Eigen::MatrixXd manifold_curvature(const Manifold& manifold, const double* x,
                                   const double* gradient) {
  const Eigen::Index t = manifold.tangent_size();
  AlongDirections along(manifold, x, gradient);
  Eigen::MatrixXd out(t, t);
  for (Eigen::Index i = 0; i < t; ++i) out(i, i) = along.second(Eigen::VectorXd::Unit(t, i));
  for (Eigen::Index i = 0; i < t; ++i)
    for (Eigen::Index j = 0; j < i; ++j)
      out(i, j) = out(j, i) =
          (along.second(Eigen::VectorXd::Unit(t, i) + Eigen::VectorXd::Unit(t, j)) - out(i, i) -
           out(j, j)) /
          2;
  return out;
}

/// Values that the constructor evaluates.
struct OptimalitySystem::Assembly {
  Assembly(const ProblemModel& m, std::span<const double> at, const SensitivityOptions& o)
      : model(m), options(o), space(*m.problem), x(at), session(open_session(m, o.solver)) {}

  bool second_order() const { return options.form == SensitivityForm::full; }

  const ProblemModel& model;
  const SensitivityOptions& options;
  TangentSpace space;
  std::span<const double> x;
  Session session;
  std::vector<double> bases;        // of the tangent spaces
  std::vector<std::uint8_t> fixed;  // by scalar: it has no part in the system
  Vector gradient, rows;            // by scalar; by row of the model
  std::vector<double> violations;   // c of active constraints
  double cost = 0;
  double terms = 0;  // cost of rows as large as their terms: of J and x by their absolute values
};

OptimalitySystem::OptimalitySystem(const ProblemModel& model, const NumberSources& sources,
                                   std::span<const double> x, const SensitivityOptions& options) {
  Assembly at(model, x, options);
  at.gradient.resize(static_cast<Eigen::Index>(model.model.scalars));
  at.rows.resize(static_cast<Eigen::Index>(model.model.rows));
  runtime::Engine& engine = at.session.engines->at(runtime::Pass::values, x);
  runtime::evaluate(
      engine, {.cost = &at.cost, .residuals = span_of(at.rows), .gradient = span_of(at.gradient)});
  if (!std::isfinite(at.cost) || !at.gradient.allFinite())
    throw Error(ErrorCode::NonFinite, "sensitivity: cost or gradient is not finite");
  require_branches(engine, model.model);
  if (!at.space.basis(x, at.bases))
    throw Error(ErrorCode::NonFinite, "sensitivity: a manifold has no tangent space at x");
  find_active_bounds(at);
  find_active_constraints(at, sources);
  make_basis(at);
  take_constraints(at);
  const SparseMatrix second = hessian(at);
  const Vector sizes =
      basis_.cwiseAbs().transpose() *
      Eigen::Map<const Vector>(x.data(), static_cast<Eigen::Index>(x.size())).cwiseAbs();
  at.terms = second.diagonal().cwiseAbs().dot(sizes.cwiseAbs2()) / 2;
  solver_.emplace(second, options.solver.threads);
  if (const auto& failure = solver_->failure()) {
    std::string where;
    if (failure->column < scalar_of_.size())
      where = " at " + scalar_text(model.problem->arrays(), scalar_of_[failure->column]);
    throw SensitivityError(SensitivityError::Reason::singular,
                           "sensitivity: the Hessian is singular or indefinite" + where +
                               " (scaled pivot " + text(failure->pivot) +
                               "); fix what no residual determines, add a residual for it, or "
                               "solve first: the Hessian may be indefinite where the cost has no "
                               "minimum");
  }
  prepare_multipliers();
  require_solution(at, options.convergence_tolerance);
}

/// Finds unknowns that stay, and numbers the others.
void OptimalitySystem::find_active_bounds(Assembly& at) {
  const TangentSpace& space = at.space;
  std::vector<double> tangent(space.size());
  space.project(at.bases, {at.gradient.data(), at.x.size()}, tangent);
  at.fixed.assign(at.x.size(), 0);
  std::vector<bool> stays(space.size(), false);
  for (std::uint32_t k = 0; k < at.x.size(); ++k) {
    const bool none = space.column(k) == TangentSpace::kNone;
    const bool active = !none && space.is_active(k, at.x, tangent);
    if (active) stays[space.column(k)] = true;
    active_bounds_ += active ? 1 : 0;
    at.fixed[k] = none || active ? 1 : 0;
  }
  coordinates_.assign(space.size(), TangentSpace::kNone);
  std::uint32_t next = 0;
  for (std::size_t column = 0; column < stays.size(); ++column)
    if (!stays[column]) coordinates_[column] = next++;
  scalar_of_.resize(next);
}

/// Finds constraints that hold with a multiplier.
void OptimalitySystem::find_active_constraints(Assembly& at, const NumberSources& sources) {
  if (sources.penalty_weight() == NumberSources::kOwn ||
      at.model.constraints == ConstraintTerms::none)
    return;
  weight_ = at.model.model.uniforms[sources.penalty_weight()];
  if (!(weight_ > 0))
    throw SensitivityError(SensitivityError::Reason::unconverged,
                           "sensitivity: the constraints have no multipliers; solve first");
  std::vector<std::pair<std::uint32_t, double>> active;  // rows and their violations
  for (std::size_t t = 0; t < at.model.topologies.size(); ++t) {
    const std::size_t topology = at.model.topologies[t];
    const BlockKind kind = at.model.problem->kind(topology);
    if (!is_constraint(kind)) continue;
    const ir::Batch& batch = *at.model.model.terms[t].batch;
    const std::uint32_t hidden = sources.hidden_data(topology), outputs = hidden / 2;
    const std::uint32_t shifts = batch.data_columns() - hidden;
    const auto each = static_cast<std::uint64_t>(batch.size()) * outputs;
    for (std::uint64_t at_row = 0; at_row < each; ++at_row) {
      const std::size_t i = at_row / outputs;
      const auto k = static_cast<std::uint32_t>(at_row % outputs);
      const auto row = static_cast<std::uint32_t>(batch.residual_row(i)) + k;
      if (kind == BlockKind::equality || at.rows[row] > 0)
        active.emplace_back(row, batch.data(i, shifts + k) - at.rows[row] / weight_);
    }
  }
  std::ranges::sort(active);
  for (const auto& [row, violation] : active) {
    active_rows_.push_back(row);
    at.violations.push_back(violation);
  }
}

void OptimalitySystem::make_basis(const Assembly& at) {
  Triplets entries;
  for (std::uint32_t k = 0; k < at.x.size(); ++k) {
    if (at.fixed[k] != 0 || at.space.block_of(k) != nullptr) continue;
    const std::uint32_t column = coordinate(at.space.column(k));
    scalar_of_[column] = k;
    entries.emplace_back(static_cast<int>(k), static_cast<int>(column), 1.0);
  }
  for (const TangentSpace::Block& block : at.space.blocks()) {
    for (std::uint32_t t = 0; t < block.tangent; ++t) {
      const std::uint32_t column = coordinate(block.column + t);
      scalar_of_[column] = block.offset;
      for (std::uint32_t k = 0; k < block.width; ++k)
        entries.emplace_back(static_cast<int>(block.offset + k), static_cast<int>(column),
                             at.bases[block.basis + std::size_t{k} * block.tangent + t]);
    }
  }
  basis_.resize(static_cast<Eigen::Index>(at.x.size()),
                static_cast<Eigen::Index>(scalar_of_.size()));
  basis_.setFromTriplets(entries.begin(), entries.end());
}

/// Lower triangle of PᵀHP and of what manifolds add, with all diagonal entries.
SparseMatrix OptimalitySystem::hessian(Assembly& at) const {
  runtime::Model pattern = at.model.model;
  pattern.constant = at.fixed;
  NormalEquations normal(pattern, at.second_order(), at.options.solver.threads);
  const runtime::Pass pass = at.second_order() ? runtime::Pass::hessian : runtime::Pass::jacobian;
  runtime::Engine& engine = at.session.engines->at(pass, at.x);
  if (at.second_order())
    normal.refresh_hessian(engine, false);
  else
    normal.refresh(engine);
  const auto free = static_cast<Eigen::Index>(normal.size());
  const Eigen::Map<const SparseMatrix> ambient(
      free, free, static_cast<Eigen::Index>(normal.values().size()), normal.starts().data(),
      normal.rows().data(), normal.values().data());
  if (at.space.blocks().empty()) return ambient;

  SparseMatrix select(free, basis_.rows());  // the free scalars
  select.reserve(Eigen::VectorXi::Ones(basis_.rows()));
  for (std::size_t k = 0; k < normal.free_scalars().size(); ++k)
    select.insert(static_cast<Eigen::Index>(k), normal.free_scalars()[k]) = 1;
  const SparseMatrix basis = select * basis_;
  const SparseMatrix both = ambient.selfadjointView<Eigen::Lower>();
  SparseMatrix full = basis.transpose() * SparseMatrix(both * basis);
  Triplets entries;
  for (Eigen::Index k = 0; k < full.cols(); ++k)
    entries.emplace_back(static_cast<int>(k), static_cast<int>(k), 0.0);
  for (const TangentSpace::Block& block : at.space.blocks()) {
    if (!at.second_order() || block.tangent == 0) continue;
    const Eigen::MatrixXd added = manifold_curvature(*block.manifold, at.x.data() + block.offset,
                                                     at.gradient.data() + block.offset);
    if (!added.allFinite())
      throw Error(ErrorCode::NonFinite, "sensitivity: a manifold refuses points near x");
    const auto first = static_cast<int>(coordinate(block.column));
    for (int i = 0; i < added.rows(); ++i)
      for (int j = 0; j < added.cols(); ++j)
        entries.emplace_back(first + i, first + j, added(i, j));
  }
  SparseMatrix more(full.rows(), full.cols());
  more.setFromTriplets(entries.begin(), entries.end());
  full += more;
  return SparseMatrix(full.triangularView<Eigen::Lower>());
}

void OptimalitySystem::take_constraints(Assembly& at) {
  gradients_.resize(static_cast<Eigen::Index>(active_rows_.size()), basis_.cols());
  if (active_rows_.empty()) return;
  runtime::Engine& engine = at.session.engines->at(runtime::Pass::jacobian, at.x);
  Triplets entries;
  std::vector<double> values;
  for (std::size_t t = 0; t < at.model.topologies.size(); ++t) {
    if (!is_constraint(at.model.problem->kind(at.model.topologies[t]))) continue;
    const runtime::Term& term = at.model.model.terms[t];
    const std::size_t outputs = term.topology->program.outputs.size();
    const std::uint32_t slots = term.batch->parameter_columns();
    values.resize(term.batch->size() * outputs * slots);
    engine.jacobian(t, values);
    for (std::size_t i = 0; i < term.batch->size(); ++i) {
      for (std::size_t k = 0; k < outputs; ++k) {
        const auto row = static_cast<std::uint32_t>(term.batch->residual_row(i) + k);
        const auto found = std::ranges::lower_bound(active_rows_, row);
        if (found == active_rows_.end() || *found != row) continue;
        for (std::uint32_t s = 0; s < slots; ++s) {
          const std::uint32_t scalar = term.batch->index(i, s);
          if (at.fixed[scalar] != 0) continue;
          entries.emplace_back(static_cast<int>(found - active_rows_.begin()),
                               static_cast<int>(scalar),
                               -values[(i * outputs + k) * slots + s] / weight_);
        }
      }
    }
  }
  SparseMatrix ambient(gradients_.rows(), basis_.rows());
  ambient.setFromTriplets(entries.begin(), entries.end());
  gradients_ = ambient * basis_;
}

void OptimalitySystem::prepare_multipliers() {
  const Eigen::Index count = gradients_.rows();
  if (count == 0 || active_rows_.size() > kMostDense) return;
  Eigen::MatrixXd complement(count, count);
  for (Eigen::Index k = 0; k < count; ++k)
    complement.col(k) = gradients_ * solver_->solve(Vector(gradients_.row(k).transpose()));
  dense_.emplace();
  dense_->setThreshold(kDependent);
  dense_->compute(complement);
}

/// y of A H⁻¹ Aᵀ y = right: of the shortest ones, or of those that conjugate gradients from 0 find.
Vector OptimalitySystem::multipliers(const Vector& right, bool needed) const {
  const auto product = [&](const Vector& p) -> Vector {
    return gradients_ * solver_->solve(Vector(gradients_.transpose() * p));
  };
  const double norm = right.norm();
  Vector y = Vector::Zero(right.size());
  if (norm == 0) return y;
  Vector residual = right;
  if (dense_) {
    y = dense_->solve(right);
    residual -= product(y);
  } else {
    Vector direction = residual;
    double squared = residual.squaredNorm();
    const Eigen::Index most = 10 * right.size();
    for (Eigen::Index k = 0; k < most && std::sqrt(squared) > kTolerance * norm; ++k) {
      const Vector q = product(direction);
      const double curvature = direction.dot(q);
      if (!(curvature > 0)) break;
      y += squared / curvature * direction;
      residual -= squared / curvature * q;
      const double next = residual.squaredNorm();
      direction = residual + next / squared * direction;
      squared = next;
    }
  }
  if (!needed || residual.norm() <= kNoSolution * norm) return y;
  throw SensitivityError(SensitivityError::Reason::infeasible,
                         "sensitivity: no change of the unknowns keeps the active constraints: "
                         "their gradients by the free unknowns depend on each other, and the data "
                         "would move one of them alone");
}

OptimalitySystem::Solution OptimalitySystem::solve(const Vector& b, const Vector& d,
                                                   bool needed) const {
  Solution out{.u = solver_->solve(b), .y = Vector::Zero(d.size())};
  if (d.size() == 0) return out;
  out.y = multipliers(gradients_ * out.u - d, needed);
  out.u -= solver_->solve(Vector(gradients_.transpose() * out.y));
  return out;
}

std::size_t OptimalitySystem::degrees_of_freedom() const {
  std::size_t coordinates = 0;
  for (Eigen::Index k = 0; k < basis_.cols(); ++k) coordinates += determined(k) ? 1 : 0;
  if (active_rows_.empty()) return coordinates;
  if (dense_) return coordinates - static_cast<std::size_t>(dense_->rank());
  return coordinates - std::min(coordinates, active_rows_.size());
}

void OptimalitySystem::require_solution(const Assembly& at, double tolerance) const {
  if (std::isinf(tolerance)) return;
  const Vector g = gather(at.gradient);
  const Eigen::Map<const Vector> c(at.violations.data(),
                                   static_cast<Eigen::Index>(at.violations.size()));
  // Violations at the level of rounding need not fit dependent constraints.
  const Solution step = solve(g, c, false);
  const bool energies = std::ranges::any_of(at.model.topologies, [&](std::size_t topology) {
    return at.model.problem->kind(topology) == BlockKind::energy;
  });
  NewtonStep newton{
      .length = step.u.norm(),
      .size = Eigen::Map<const Vector>(at.x.data(), static_cast<Eigen::Index>(at.x.size())).norm(),
      .decrease = std::abs(g.dot(step.u)) / 2,
      .cost = at.cost,
      .rounding = kRounding * kRounding * at.terms,
      .residuals_alone = !energies && active_rows_.empty()};
  for (std::size_t k = 0; k < at.violations.size(); ++k)
    newton.decrease += std::abs(at.violations[k] * weight_ * at.rows[active_rows_[k]]);
  if (is_solution(newton, tolerance)) return;
  throw SensitivityError(SensitivityError::Reason::unconverged,
                         "sensitivity: the parameters are no solution: a Newton step of length " +
                             text(newton.length) + " would change the cost of " + text(at.cost) +
                             " by " + text(newton.decrease) +
                             "; solve first, to smaller tolerances");
}

}  // namespace topograd
