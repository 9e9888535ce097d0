// The way from `topograd` to topograd-distributed.
#include "distributed.hpp"

#include "../../../solver/model/model.hpp"
#include "../../../solver/plan/decide.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace topograd::command {
namespace {

DistributedSolver* solver_of_program = nullptr;

/// Engines on CPUs move blocks on manifolds in steps by pcg.
bool moves_blocks(const SolverOptions& options, Method method, const Problem& problem) {
  return method != Method::lbfgs && options.linear_solver == LinearSolver::pcg &&
         options.precision == Precision::f64 && options.backend != Backend::vulkan &&
         engines_know_manifolds(problem);
}

}  // namespace

bool can_divide(const SolverOptions& options, const Problem& problem, const ShareGroup& shares) {
  const bool energies =
      std::ranges::count(shares.gather(problem.energy_count() > 0 ? "1" : "0"), "1") > 0;
  const Method method = options.method != Method::automatic ? options.method
                        : energies                          ? Method::lbfgs
                                                            : Method::levenberg_marquardt;
  const bool damped = method == Method::levenberg_marquardt || method == Method::gauss_newton;
  const bool checks = options.domain != DomainPolicy::mathematical || options.cross_check != 0;
  const auto fixed = std::ranges::count(problem.constant_mask(), 1);
  const std::uint64_t unknowns = problem.parameter_count() - static_cast<std::uint64_t>(fixed);
  const bool steps =
      method == Method::lbfgs || (damped && !energies && iterates_anyway(options, unknowns));
  return steps && !checks && problem.constraint_count() == 0 &&
         (!problem.has_manifolds() || moves_blocks(options, method, problem));
}

DistributedSolver* distributed_solver() { return solver_of_program; }
void set_distributed_solver(DistributedSolver* solver) { solver_of_program = solver; }

SplitArguments split_arguments(int argc, char** argv) {
  SplitArguments out;
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string_view("--"));
  out.command.assign(argv, dashes);
  out.command.push_back(nullptr);
  if (dashes != end) out.petsc.assign(dashes + 1, end);
  return out;
}

void run_distributed_program(int argc, char** argv) {
  const SplitArguments arguments = split_arguments(argc, argv);
  const auto last = arguments.command.end() - 1;
  const bool asked =
      std::find(arguments.command.begin(), last, std::string_view("--distributed")) != last;
  const bool check =
      argc > 2 && std::string_view(argv[1]) == "check" && std::string_view(argv[2]) == "scaling";
  if (!asked && !check) return;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  execv((here.parent_path() / "topograd-distributed").c_str(), argv);
}

}  // namespace topograd::command
