// Readable source of the kernels of a solve.
#include "solve_kernels.hpp"

#include <string>
#include <utility>

namespace topograd::command {

std::vector<NamedSource> kernels_of(const Problem& problem, const Summary& summary) {
  std::vector<std::string> passes = {"cost", "gradient"};
  switch (summary.step_method) {
    case Method::levenberg_marquardt:
    case Method::gauss_newton:
    case Method::dogleg:
      if (summary.linear_solver == LinearSolver::pcg) {
        passes.insert(passes.end(), {"jtjp", "blocks"});
      } else {
        passes.push_back("jacobian");
      }
      break;
    case Method::newton:
      passes.push_back(summary.linear_solver == LinearSolver::pcg ? "hvp" : "hessian");
      break;
    case Method::lbfgs:
    case Method::adam:
    case Method::adamw:
    case Method::sgd:
    case Method::augmented_lagrangian:
    case Method::barrier:
    case Method::automatic: break;
  }
  SourceOptions options{.precision = summary.precision};
  // The strategy's name comes first, then its reason.
  const std::string strategy =
      summary.accumulation.substr(0, summary.accumulation.find_first_of(" ,:"));
  if (!strategy.empty()) options.accumulation = codegen::parse_accumulation(strategy);
  std::vector<NamedSource> out;
  for (const std::string& pass : passes) {
    options.kernel = pass;
    // In mixed precision the linear solver runs in f32.
    const bool linear = pass == "jtjp" || pass == "blocks";
    if (summary.precision == Precision::mixed)
      options.precision = linear ? Precision::f32 : Precision::f64;
    for (NamedSource& source : sources(problem, options)) out.push_back(std::move(source));
  }
  return out;
}

}  // namespace topograd::command
