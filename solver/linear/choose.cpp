// Which linear solver a problem gets.
#include "choose.hpp"

#include "cholesky.hpp"
#include "factorization.hpp"
#include "schur_step.hpp"

#include <algorithm>
#include <cstdio>

namespace topograd {
namespace {

std::string rounded(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", number);
  return text;
}

/// Multiplications and additions of one product with JᵀJ by a stored Jacobian; with energies as if
/// they were rows.
double product_flops(const runtime::Model& model, bool with_energies = false) {
  double entries = 0;
  for (const runtime::Term& term : model.terms) {
    if (term.energy && !with_energies) continue;
    entries += static_cast<double>(term.batch->size()) *
               static_cast<double>(term.topology->program.outputs.size()) *
               static_cast<double>(term.batch->parameter_columns());
  }
  return 4 * entries;
}

/// Conjugate gradients for a mesh, whose blocks lie up to `reach` residuals apart.
LinearChoice iterate_on_mesh(const Elimination& mesh, const std::string& why) {
  return {std::make_unique<PcgStep>(ForcingSequence::eisenstat_walker),
          why + "; a mesh, up to " + std::to_string(mesh.reach) +
              " residuals wide: solved as exactly as the gradient falls"};
}

/// Of a factor, at a guess that takes no look at its pattern: the blocks as many steps from one end
/// separate the rest, and a separator fills up.
double least_flops(const Elimination& mesh) {
  const double separator = static_cast<double>(mesh.kept) / static_cast<double>(mesh.reach);
  return 4 * separator * separator * separator;
}

/// A residual whose unknowns all meet in JᵀJ, where a factor of that part alone takes more than
/// conjugate gradients do.
struct WideResidual {
  double unknowns = 0, flops = 0;
  bool is_wide = false;
};
WideResidual widest_residual(const runtime::Model& model, bool with_energies = false) {
  WideResidual out;
  for (const runtime::Term& term : model.terms) {
    if ((term.energy && !with_energies) || term.batch->size() == 0) continue;
    out.unknowns = std::max(out.unknowns, static_cast<double>(term.batch->parameter_columns()));
  }
  out.flops = out.unknowns * out.unknowns * out.unknowns / 3;
  out.is_wide =
      out.flops > kCheapPart && out.flops > kProductsOfStep * product_flops(model, with_energies);
  return out;
}

LinearChoice choose_by_factor(const runtime::Model& model, const SolverOptions& options,
                              const std::string& size) {
  Elimination elimination = find_elimination(model);
  const bool wide = elimination.remains_wide();
  if (elimination.pays()) {
    auto by_blocks = std::make_unique<CholeskyStep>(model, std::move(elimination), options.threads);
    std::string why = size + ": " + by_blocks->elimination();
    return {std::move(by_blocks), std::move(why)};
  }
  const double most = kProductsOfStep * product_flops(model);
  if (wide && least_flops(elimination) > most) return iterate_on_mesh(elimination, size);
  if (!factor_cost_is_known())
    return wide ? iterate_on_mesh(elimination, size)
                : LinearChoice{std::make_unique<PcgStep>(), size};
  auto factored = std::make_unique<CholeskyStep>(model);
  const double entries = factored->factor_entries(), flops = factored->factor_flops();
  const std::string cost = size + ": a factor has " + rounded(entries) + " entries and takes " +
                           rounded(flops) + " operations";
  if (wide && flops > most) return iterate_on_mesh(elimination, cost);
  if (entries > kLargestFactor || flops > kDearestFactor)
    return {std::make_unique<PcgStep>(), cost + ", too many"};
  return {std::move(factored), cost};
}

std::uint64_t slots_of_residuals(const runtime::Model& model) {
  std::uint64_t slots = 0;
  for (const runtime::Term& term : model.terms)
    slots += term.energy ? 0 : term.batch->size() * term.batch->parameter_columns();
  return slots;
}

/// On a device, where its engine can; `why` then or else says so.
std::unique_ptr<SchurStep> eliminate(const runtime::Model& model, Elimination elimination,
                                     const SolverOptions& options, runtime::Engine& engine,
                                     std::string& why, const EliminationHint& hint = {}) {
  auto step = std::make_unique<SchurStep>(model, std::move(elimination), options.threads, hint,
                                          schur_iteration(options));
  runtime::EliminationUse use = step->begin(engine);
  why = std::move(use.note);
  if (!use.possible) step = nullptr;
  return step;
}

LinearChoice choose_on_device(const runtime::Model& model, const SolverOptions& options,
                              std::uint64_t unknowns, runtime::Engine& engine) {
  std::string why = "the data are on the device";
  if (unknowns < kLeastEliminated || slots_of_residuals(model) > kMostSlotsSearched)
    return {std::make_unique<PcgStep>(), std::move(why)};
  Elimination elimination = find_elimination(model);
  if (elimination.remains_wide()) return iterate_on_mesh(elimination, why);
  if (elimination.eliminated < elimination.kept)
    return {std::make_unique<PcgStep>(), std::move(why)};
  std::string note;
  if (auto step = eliminate(model, std::move(elimination), options, engine, note))
    return {std::move(step), why + "; " + note};
  return {std::make_unique<PcgStep>(), why + "; no elimination: " + note};
}

}  // namespace

NewtonChoice choose_newton_solver(const runtime::Model& model, const SolverOptions& options) {
  if (options.linear_solver == LinearSolver::pcg)
    return {LinearSolver::pcg, "on products with the Hessian"};
  const std::string factor = "of projected Hessians, on the host";
  if (options.linear_solver != LinearSolver::automatic) return {LinearSolver::cholesky, factor};
  const std::uint64_t unknowns =
      model.scalars -
      static_cast<std::uint64_t>(std::count(model.constant.begin(), model.constant.end(), 1));
  if (unknowns <= kLargestFactorised) return {LinearSolver::cholesky, factor};
  const std::string size = std::to_string(unknowns) + " unknowns";
  std::uint64_t slots = 0;
  for (const runtime::Term& term : model.terms)
    slots += term.batch->size() * term.batch->parameter_columns();
  if (slots > kMostSlotsSearched || widest_residual(model, true).is_wide)
    return {LinearSolver::pcg, size + ": on products with the Hessian"};
  const Elimination mesh = find_elimination(model, {}, true);
  if (!mesh.remains_wide()) return {LinearSolver::cholesky, size + ": " + factor};
  return {LinearSolver::pcg, size + ", a mesh up to " + std::to_string(mesh.reach) +
                                 " terms wide: on products with the Hessian"};
}

std::optional<SchurIteration> schur_iteration(const SolverOptions& options) {
  if (options.linear_solver != LinearSolver::schur ||
      options.preconditioner != Preconditioner::block_jacobi)
    return std::nullopt;
  return SchurIteration{.tolerance = options.linear_tolerance,
                        .max_iterations = options.max_linear_iterations,
                        .eta = options.eta,
                        .energy_norm = options.scale_free};
}

LinearChoice choose_linear_solver(const runtime::Model& model, const SolverOptions& options,
                                  runtime::Backend backend, runtime::Engine& engine,
                                  const EliminationHint& hint) {
  // dense is for the host's steps (host/host_step.hpp); with nothing to solve it comes here.
  const std::uint64_t unknowns =
      model.scalars -
      static_cast<std::uint64_t>(std::count(model.constant.begin(), model.constant.end(), 1));
  const bool on_device = backend != runtime::Backend::cpu;
  const std::string size = std::to_string(unknowns) + " unknowns";
  if (unknowns == 0) return {std::make_unique<PcgStep>(), "nothing to solve"};
  if (options.linear_solver == LinearSolver::pcg) return {std::make_unique<PcgStep>(), "asked for"};
  if (options.linear_solver == LinearSolver::automatic &&
      options.preconditioner != Preconditioner::automatic)
    return {std::make_unique<PcgStep>(), "its preconditioner is asked for"};
  const LinearSolver solver = options.linear_solver == LinearSolver::automatic && !hint.empty()
                                  ? LinearSolver::schur
                                  : options.linear_solver;
  const std::string order = hint.empty() ? "" : " in the order given";
  std::string elimination;
  if (on_device && solver == LinearSolver::schur) {
    auto asked =
        eliminate(model, find_elimination(model, hint), options, engine, elimination, hint);
    if (asked) return {std::move(asked), "asked for" + order + "; on the device, " + elimination};
    elimination = " (not on the device: " + elimination + ")";
  }
  if (solver != LinearSolver::automatic) {
    auto asked = std::make_unique<CholeskyStep>(model, solver, options.threads, hint,
                                                schur_iteration(options));
    const bool by_blocks = asked->kind() == LinearSolver::schur;
    std::string why = "asked for" + (by_blocks ? order : std::string());
    if (on_device) why += "; Jacobian and gradient are read back at each accepted point";
    if (by_blocks) why += "; " + asked->elimination() + elimination;
    return {std::move(asked), std::move(why)};
  }
  if (on_device && unknowns <= kLargestReadBack && model.rows * unknowns <= kLargestJacobian) {
    return {std::make_unique<CholeskyStep>(model),
            size + ": fewer than iterations are worth; the Jacobian is read back"};
  }
  if (const WideResidual wide = widest_residual(model); wide.is_wide) {
    return {std::make_unique<PcgStep>(), size + ": a residual reads " + rounded(wide.unknowns) +
                                             ", whose part of a factor takes " +
                                             rounded(wide.flops) + " operations"};
  }
  if (on_device) return choose_on_device(model, options, unknowns, engine);
  if (unknowns <= kLargestFactorised) return {std::make_unique<CholeskyStep>(model), size};
  if (unknowns > kLargestAnalysed) return {std::make_unique<PcgStep>(), size};
  return choose_by_factor(model, options, size);
}

}  // namespace topograd
