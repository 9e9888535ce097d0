// Stored Jacobians as a listed system, and sweeps on its device.
#include "listed_steps.hpp"

#include "../../../ir/error.hpp"

namespace topograd::runtime::cpu {
namespace {

/// Sweeps on the device; sums over chunks and the coarse space are the host's.
class ListedSweeps final : public CgSweeps<double> {
 public:
  ListedSweeps(ListedSolver& solver, StepPreconditioner<double>::CoarsePart coarse)
      : solver_(solver), coarse_(coarse) {}

  ResidualProducts start() override { return precondition(solver_.update({})); }
  ResidualProducts follow(double alpha) override { return precondition(solver_.update(alpha)); }
  void turn(double beta) override { beta_ = beta; }
  double multiply() override { return pairwise_sum(solver_.product(beta_, correction_)); }
  void move(double) override {
    throw Error(ErrorCode::Internal, "listed sweeps: nothing follows negative curvature");
  }

 private:
  ResidualProducts precondition(const ListedSolver::Residual& sums) {
    ResidualProducts out{pairwise_sum(sums.rr), pairwise_sum(sums.rz)};
    if (coarse_.space == nullptr) return out;
    out.rz += coarse_.space->solve(sums.restricted);
    correction_ = coarse_.space->solution();
    return out;
  }

  ListedSolver& solver_;
  StepPreconditioner<double>::CoarsePart coarse_;
  std::optional<double> beta_;          // of the next direction
  std::span<const double> correction_;  // of z
};

/// Wide blocks are preconditioned by their diagonals alone.
std::vector<ListedSystem::Blocks> blocks_of(const BlockLayout& layout) {
  std::vector<ListedSystem::Blocks> out;
  layout.for_runs(0, layout.blocks(), [&](const BlockLayout::Block& block, std::uint32_t count) {
    const bool wide = block.width > kWidestDenseBlock;
    out.push_back({.first = block.first,
                   .packed = block.packed,
                   .count = std::uint64_t{count} * (wide ? block.width : 1),
                   .width = wide ? 1 : block.width});
  });
  return out;
}

}  // namespace

bool ListedSteps::fits(std::span<const LinearTerm<double>> terms,
                       const StepSystem<double>& system) {
  ListedSystem listed{.scalars = system.layout.scalars(),
                      .chunks = {},
                      .blocks = blocks_of(system.layout),
                      .terms = {}};
  for (const SumRanges::Range& range : system.sums.of_scalars()) listed.chunks.push_back(range);
  for (const LinearTerm<double>& term : terms) {
    std::optional<ListedTerm> one = term.listed(system.layout);
    if (!one) return false;
    listed.terms.push_back(std::move(*one));
  }
  try {
    return solver_->follow(listed);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Unsupported && error.code() != ErrorCode::OutOfDeviceMemory)
      throw;
    return false;
  }
}

bool ListedSteps::prepare(std::span<const LinearTerm<double>> terms,
                          const StepSystem<double>& system) {
  if (state_ == State::unknown) {
    state_ = fits(terms, system) ? State::fits : State::refused;
    columns_are_there_ = false;
    coarse_version_ = 0;
  }
  if (state_ == State::refused) return false;
  if (!std::exchange(columns_are_there_, true)) {
    for (std::size_t k = 0; k < terms.size(); ++k) {
      const std::span<const Column<double>> columns = terms[k].columns();
      for (std::size_t c = 0; c < columns.size(); ++c) solver_->set_column(k, c, columns[c]);
    }
  }
  solver_->set_damping({system.damping, system.layout.scalars()}, system.fixed);
  return true;
}

void ListedSteps::set(const CoarsePlan& plan, std::span<const double> vectors,
                      std::uint64_t version) {
  if (std::exchange(coarse_version_, version) == version) return;
  solver_->set_coarse(ListedCoarse{plan.functions, plan.starts, plan.scalars, plan.homes, vectors});
}

CgReport ListedSteps::solve(StepPreconditioner<double>& preconditioner,
                            std::span<const double> right_side, std::span<double> x,
                            const CgOptions& options) {
  const StepPreconditioner<double>::CoarsePart coarse = preconditioner.coarse();
  if (coarse.space != nullptr)
    set(*coarse.plan, coarse.space->vectors(), coarse.space->version());
  else if (std::exchange(coarse_version_, 0) != 0)
    solver_->set_coarse({});
  solver_->begin(right_side, preconditioner.inverse_blocks());
  ListedSweeps sweeps(*solver_, coarse);
  const CgReport report = conjugate_gradients(sweeps, options);
  solver_->solution(x);
  return report;
}

}  // namespace topograd::runtime::cpu
