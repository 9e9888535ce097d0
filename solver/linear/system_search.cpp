// Facts about a linear system for the decision, found on request, and construction of its solver.
#include "system_search.hpp"

#include "../../ir/error.hpp"
#include "factor_step.hpp"
#include "projected_step.hpp"
#include "schur_step.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace topograd {

namespace {

/// Nine of ten blocks have at least SystemFacts::share.
constexpr std::size_t kOneInSo = 10;

/// By scalar, the number of its block; kFixed for fixed scalars.
constexpr std::uint32_t kFixed = ~std::uint32_t{0};
std::vector<std::uint32_t> blocks_of(const runtime::Model& model) {
  std::vector<std::uint32_t> out(model.scalars, kFixed);
  std::uint32_t block = 0;
  for (const runtime::ParameterArray& array : model.arrays)
    for (std::uint64_t b = 0, k = array.offset; b < array.blocks; ++b, ++block)
      for (const std::uint64_t end = k + array.width; k < end; ++k)
        if (model.constant.empty() || model.constant[k] == 0) out[k] = block;
  return out;
}

/// Squares of the Jacobian by block: all of them, and those of instances that read no other one.
struct Curvature {
  std::vector<double> all, alone;
};

void add_curvature(const runtime::Term& term, std::span<const double> jacobian,
                   std::span<const std::uint32_t> block_of, Curvature& out) {
  const std::size_t size = term.batch->size(), slots = term.batch->parameter_columns();
  const std::size_t rows = term.topology->program.outputs.size();
  std::vector<std::uint32_t> column(size), blocks(size * slots);
  for (std::size_t s = 0; s < slots; ++s) {
    term.batch->copy_index_column(static_cast<std::uint32_t>(s), 0, column);
    for (std::size_t i = 0; i < size; ++i) blocks[i * slots + s] = block_of[column[i]];
  }
  for (std::size_t i = 0; i < size; ++i) {
    const std::span its = std::span(blocks).subspan(i * slots, slots);
    std::uint32_t one = kFixed;
    bool alone = true;
    for (const std::uint32_t b : its) {
      alone = alone && (b == kFixed || one == kFixed || b == one);
      if (b != kFixed) one = b;
    }
    for (std::size_t k = 0; k < rows * slots; ++k) {
      const std::uint32_t b = its[k % slots];
      if (b == kFixed) continue;
      const double square = jacobian[i * rows * slots + k] * jacobian[i * rows * slots + k];
      out.all[b] += square;
      if (alone) out.alone[b] += square;
    }
  }
}

/// SystemFacts::share.
double tied_share(const runtime::Model& model, runtime::Engine& engine, std::span<const double> x) {
  const std::vector<std::uint32_t> block_of = blocks_of(model);
  std::uint64_t blocks = 0;
  for (const runtime::ParameterArray& array : model.arrays) blocks += array.blocks;
  Curvature sums{std::vector<double>(blocks), std::vector<double>(blocks)};
  engine.set_point(x);
  std::vector<double> jacobian;
  for (std::size_t t = 0; t < model.terms.size(); ++t) {
    const runtime::Term& term = model.terms[t];
    if (term.energy || term.batch->size() == 0) continue;
    jacobian.resize(term.batch->size() * term.topology->program.outputs.size() *
                    term.batch->parameter_columns());
    engine.jacobian(t, jacobian);
    add_curvature(term, jacobian, block_of, sums);
  }
  std::vector<double> shares;
  for (std::size_t b = 0; b < blocks; ++b)
    if (sums.all[b] > 0) shares.push_back(sums.alone[b] / sums.all[b]);
  if (shares.empty()) return 0;
  const auto at = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / kOneInSo);
  std::ranges::nth_element(shares, at);
  return *at;
}

}  // namespace

std::optional<SchurIteration> schur_iteration(const SolverOptions& options) {
  if (!iterates_on_schur(options)) return std::nullopt;
  return SchurIteration{.tolerance = options.linear_tolerance,
                        .max_iterations = options.max_linear_iterations,
                        .eta = options.eta,
                        .energy_norm = options.scale_free};
}

int threads_of(const SolverOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
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
        factor_ = std::make_unique<CholeskyStep>(model_, LinearSolver::cholesky, options_.threads,
                                                 EliminationHint{}, std::nullopt, std::nullopt,
                                                 options_.factor);
        facts.factor = {factor_->factor_entries(), factor_->factor_flops()};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::Unsupported) throw;
        constexpr double kBeyond = std::numeric_limits<double>::infinity();
        facts.factor = {kBeyond, kBeyond};
      }
      return;
    case Fact::share: facts.share = tied_share(model_, engine_, x_); return;
    case Fact::device_factor: facts.device_factor = runtime::factorize(engine_, true); return;
    case Fact::none:
    case Fact::device:
    case Fact::scheduler:
    case Fact::system: return;  // other functions find these
  }
}

std::unique_ptr<StepSolver> SystemSearch::make(const LinearChoice& choice) {
  const bool factors = choice.by_engine && choice.kind == LinearSolver::cholesky;
  if (!factors && choice.system.device_factor) runtime::factorize(engine_, false);
  if (choice.kind == LinearSolver::pcg) {
    if (!model_.lower.empty()) return std::make_unique<ProjectedPcgStep>();
    return std::make_unique<PcgStep>(choice.forcing);
  }
  if (factors) return std::make_unique<FactorStep>(model_, options_.threads);
  if (choice.by_engine)
    return std::make_unique<SchurStep>(model_, std::move(*elimination_), options_.threads, hint_,
                                       schur_iteration(options_));
  if (factor_) return std::move(factor_);
  // An elimination that was found to pay is searched again when the model changes, and may not pay
  // then.
  const bool may_end = choice.reason == LinearReason::elimination;
  return std::make_unique<CholeskyStep>(model_, may_end ? LinearSolver::automatic : choice.kind,
                                        options_.threads, hint_, schur_iteration(options_),
                                        std::move(elimination_), options_.factor);
}

}  // namespace topograd
