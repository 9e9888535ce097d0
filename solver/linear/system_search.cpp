// Facts about a linear system for the decision, found on request, and construction of its solver.
#include "system_search.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/parallel.hpp"
#include "engine_steps.hpp"
#include "projected_step.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {

namespace {

/// The damped normal equations of a step from `x`, (JᵀJ + D / radius) δ = −Jᵀr with the diagonal D
/// of JᵀJ, for iterations that only count.
class FirstSystem {
 public:
  FirstSystem(const runtime::Model& model, runtime::Engine& engine, std::span<const double> x,
              double radius)
      : damping_(1 / radius), diagonal_(model.scalars), right_side_(model.scalars) {
    const auto is_free = [&](std::size_t k) {
      return model.constant.empty() || model.constant[k] == 0;
    };
    engine.set_point(x);
    engine.gradient(right_side_);
    for (std::size_t t = 0; t < model.terms.size(); ++t) read(model.terms[t], t, engine);
    for (std::size_t k = 0; k < diagonal_.size(); ++k)
      if (!is_free(k)) diagonal_[k] = right_side_[k] = 0;
  }

  /// Iterations of conjugate gradients, preconditioned by the diagonal, until the energy of the
  /// preconditioned residual has fallen to `tolerance`; `most` + 1 if it does not.
  int iterations(double tolerance, int most) const {
    const std::size_t n = diagonal_.size();
    std::vector<double> residual = right_side_, direction(n, 0), product(n);
    const auto energy = [&] {
      double sum = 0;
      for (std::size_t k = 0; k < n; ++k)
        if (diagonal_[k] > 0) sum += residual[k] * residual[k] / diagonal_[k];
      return sum;
    };
    const double start = energy();
    double now = start, before = 0;
    for (int k = 0;; ++k) {
      if (!(now > tolerance * tolerance * start)) return k;
      if (k == most) return most + 1;
      const double beta = before > 0 ? now / before : 0;
      for (std::size_t i = 0; i < n; ++i)
        direction[i] = diagonal_[i] > 0 ? residual[i] / diagonal_[i] + beta * direction[i] : 0.0;
      multiply(direction, product);
      const double curvature =
          std::inner_product(direction.begin(), direction.end(), product.begin(), 0.0);
      if (!(curvature > 0)) return most + 1;
      for (std::size_t i = 0; i < n; ++i) residual[i] -= now / curvature * product[i];
      before = now;
      now = energy();
    }
  }

 private:
  /// Instances of one term: values[(i * rows + row) * slots + slot], columns[i * slots + slot].
  struct Part {
    std::size_t rows, slots;
    std::vector<std::uint32_t> columns;
    std::vector<double> values;
  };

  void read(const runtime::Term& term, std::size_t number, runtime::Engine& engine) {
    const std::size_t size = term.batch->size(), slots = term.batch->parameter_columns();
    if (term.energy || size == 0 || slots == 0) return;
    Part part{.rows = term.topology->program.outputs.size(), .slots = slots};
    part.columns.resize(size * slots);
    part.values.resize(part.rows * part.columns.size());
    engine.jacobian(number, part.values);
    std::vector<std::uint32_t> column(size);
    for (std::size_t s = 0; s < slots; ++s) {
      term.batch->copy_index_column(static_cast<std::uint32_t>(s), 0, column);
      for (std::size_t i = 0; i < size; ++i) part.columns[i * slots + s] = column[i];
    }
    each_row(part, [&](std::span<const std::uint32_t> columns, std::span<const double> row) {
      for (std::size_t s = 0; s < row.size(); ++s) diagonal_[columns[s]] += row[s] * row[s];
    });
    parts_.push_back(std::move(part));
  }

  template <class Visit>
  static void each_row(const Part& part, const Visit& visit) {
    const std::span columns(part.columns);
    const std::span values(part.values);
    for (std::size_t i = 0; i < columns.size() / part.slots; ++i)
      for (std::size_t r = 0; r < part.rows; ++r)
        visit(columns.subspan(i * part.slots, part.slots),
              values.subspan((i * part.rows + r) * part.slots, part.slots));
  }

  void multiply(std::span<const double> p, std::span<double> out) const {
    for (std::size_t k = 0; k < p.size(); ++k) out[k] = damping_ * diagonal_[k] * p[k];
    for (const Part& part : parts_) {
      each_row(part, [&](std::span<const std::uint32_t> columns, std::span<const double> row) {
        double sum = 0;
        for (std::size_t s = 0; s < row.size(); ++s) sum += row[s] * p[columns[s]];
        for (std::size_t s = 0; s < row.size(); ++s) out[columns[s]] += row[s] * sum;
      });
    }
    for (std::size_t k = 0; k < p.size(); ++k)
      if (diagonal_[k] == 0) out[k] = 0;
  }

  double damping_;
  std::vector<double> diagonal_, right_side_;
  std::vector<Part> parts_;
};

}  // namespace

std::optional<SchurIteration> schur_iteration(const SolverOptions& options) {
  if (!iterates_on_schur(options)) return std::nullopt;
  return SchurIteration{.tolerance = options.linear_tolerance,
                        .max_iterations = options.max_linear_iterations,
                        .eta = options.eta,
                        .energy_norm = options.scale_free};
}

int threads_of(const SolverOptions& options) {
  // Decisions that no machine makes in another way count on a usual one.
  constexpr int kThreadsOfPortableBits = 8;
  if (options.bits == Bits::portable) return kThreadsOfPortableBits;
  if (options.threads > 0) return options.threads;
  return ir::pool_threads();
}

SystemFacts SystemSearch::facts() const {
  SystemFacts out{
      .unknowns = model_.scalars - static_cast<std::uint64_t>(std::count(model_.constant.begin(),
                                                                         model_.constant.end(), 1)),
      .rows = model_.rows,
      .hinted = !hint_.empty(),
      .threads = threads_of(options_)};
  for (const runtime::Term& term : model_.terms) {
    const std::uint64_t columns = term.batch->parameter_columns();
    if (term.batch->size() == 0) continue;
    out.slots += term.batch->size() * columns;
    out.widest = std::max(out.widest, columns);
  }
  out.work = step_work(model_);
  out.work.penalties = penalties_;
  return out;
}

void SystemSearch::find(Fact fact, SystemFacts& facts) {
  switch (fact) {
    case Fact::elimination:
      // A hint is for steps by the Schur complement.
      elimination_ =
          find_elimination(model_, takes_energies(options_.method) ? EliminationHint{} : hint_);
      facts.elimination = {.blocks = elimination_->blocks.size(),
                           .eliminated = elimination_->eliminated,
                           .kept = elimination_->kept,
                           .reach = elimination_->reach,
                           .pays = elimination_->pays(),
                           .remains_wide = elimination_->remains_wide()};
      return;
    case Fact::device_elimination:
      facts.on_device = runtime::eliminate(engine_, eliminated_scalars(model_, *elimination_));
      return;
    case Fact::factor:
      try {
        factor_ = std::make_unique<DirectStep>(model_, LinearSolver::cholesky, work_of(options_),
                                               EliminationHint{}, std::nullopt, std::nullopt,
                                               options_.factor);
        facts.factor = {factor_->factor_entries(), factor_->factor_flops()};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Unsupported) throw;
        constexpr double kBeyond = std::numeric_limits<double>::infinity();
        facts.factor = {kBeyond, kBeyond};
      }
      return;
    case Fact::iterations: {
      const int most = iterations_to_try(facts);
      const FirstSystem system(model_, engine_, x_, options_.initial_trust_region_radius);
      facts.iterations = {.most = most, .count = system.iterations(kTriedTolerance, most)};
      return;
    }
    case Fact::device_factor: facts.device_factor = runtime::factorize(engine_, true); return;
    case Fact::none:
    case Fact::device:
    case Fact::scheduler:
    case Fact::system: return;  // other functions find these
  }
}

namespace {

constexpr auto solvers_of(LinearForm form) {
  return std::ranges::count(rows_of(LinearSolver{}), form, &LinearSolverRow::form);
}
// make() has one solver for each of these.
static_assert(solvers_of(LinearForm::products) == 1 && solvers_of(LinearForm::factor) == 1 &&
              solvers_of(LinearForm::elimination) == 1);

}  // namespace

std::unique_ptr<StepSolver> SystemSearch::make(const LinearChoice& choice) {
  const LinearForm form = form_of(choice.kind);
  const bool factors = choice.by_engine && form == LinearForm::factor;
  if (!factors && choice.system.device_factor) runtime::factorize(engine_, false);
  switch (form) {
    case LinearForm::products:
      if (!model_.lower.empty()) return std::make_unique<ProjectedPcgStep>();
      return std::make_unique<PcgStep>(model_, choice.forcing, work_of(options_));
    case LinearForm::factor:
      if (factors) return std::make_unique<FactorStep>(model_, work_of(options_));
      break;
    case LinearForm::elimination:
      if (choice.by_engine)
        return std::make_unique<SchurStep>(model_, work_of(options_), hint_,
                                           schur_iteration(options_));
      break;
    case LinearForm::jacobian:
    case LinearForm::undecided:
      throw Error(ErrorCode::Internal,
                  "solve: no engine makes steps by " + std::string(name(choice.kind)));
  }
  if (factor_) return std::move(factor_);
  // An elimination that was found to pay is searched again when the model changes, and may not pay
  // then.
  const bool may_end = choice.reason == LinearReason::elimination;
  return std::make_unique<DirectStep>(model_, may_end ? LinearSolver::automatic : choice.kind,
                                      work_of(options_), hint_, schur_iteration(options_),
                                      std::move(elimination_), options_.factor);
}

}  // namespace topograd
