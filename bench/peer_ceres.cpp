// Ceres as a peer: a separate library, which the command opens if it was built.
#include "../tools/command/peers/peer.hpp"
#include "peer_functors.hpp"
#include "peer_star.hpp"

#include <ceres/ceres.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace topograd::bench {
namespace {

using command::PeerInput;
using command::PeerReport;
using command::PeerTerm;

constexpr int kSteps = 5;
constexpr int kStepIterations = 100;

/// The library file of a linear algebra function, with links resolved.
std::string blas() {
  void* library = ::dlopen("libblas.so.3", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) library = ::dlopen("liblapack.so.3", RTLD_LAZY | RTLD_NOLOAD);
  void* function = library == nullptr ? nullptr : ::dlsym(library, "dgemm_");
  Dl_info info{};
  if (function == nullptr || ::dladdr(function, &info) == 0) return "unknown BLAS";
  const std::unique_ptr<char, decltype(&std::free)> path(::realpath(info.dli_fname, nullptr),
                                                         &std::free);
  return path ? path.get() : info.dli_fname;
}

/// Number of steps of a history, whose first entry is the start; may be empty.
int steps_of(std::size_t entries) { return entries == 0 ? 0 : static_cast<int>(entries) - 1; }

/// Converts a residual λ ≥ 0 to an energy: ½ ρ(λ²) = λ.
class Energy final : public ceres::LossFunction {
 public:
  void Evaluate(double square, double rho[3]) const override {
    const double root = std::sqrt(std::max(square, 1e-200));
    rho[0] = 2 * root;
    rho[1] = 1 / root;
    rho[2] = -0.5 / (root * root * root);
  }
};

/// A loss of the command.
class Robust final : public ceres::LossFunction {
 public:
  explicit Robust(const std::function<std::array<double, 3>(double)>& loss) : loss_(loss) {}
  void Evaluate(double square, double rho[3]) const override {
    const std::array<double, 3> values = loss_(square);
    std::copy(values.begin(), values.end(), rho);
  }

 private:
  const std::function<std::array<double, 3>(double)>& loss_;
};

void add_star(ceres::Problem& problem, const std::vector<double*>& blocks, bool closed) {
  using Function = ceres::DynamicAutoDiffCostFunction<Star, 6>;
  auto function = std::make_unique<Function>(new Star{blocks.size() - 1, closed});
  for (std::size_t k = 0; k < blocks.size(); ++k) function->AddParameterBlock(3);
  function->SetNumResiduals(1);
  problem.AddResidualBlock(function.release(), new Energy, blocks);
}

/// Poses are blocks of 6: that of the frame, and in a rig that of the sensor.
template <int Model, int... Poses>
ceres::CostFunction* colmap_observation(const double* seen) {
  using Observed = ColmapObservation<Model>;
  return new ceres::AutoDiffCostFunction<Observed, 2, Poses..., Observed::kSize, 3>(
      new Observed{{seen[0], seen[1]}});
}
template <int... Poses>
constexpr auto kColmapObservations = []<int... k>(std::integer_sequence<int, k...>) {
  return std::array{&colmap_observation<k, Poses...>...};
}
(std::make_integer_sequence<int, std::size(ColmapObservation<0>::kSizes)>());

/// Adds the residual blocks of one kind.
void add_term(ceres::Problem& problem, const PeerTerm& term, std::vector<double>& x) {
  const std::size_t width = term.width, count = term.blocks.size() / width;
  for (std::size_t k = 0; k < count; ++k) {
    const double* n = term.numbers.data() + k * numbers_of(term.kind);
    const auto block = [&](std::size_t i) { return &x[3 * term.blocks[k * width + i]]; };
    const auto loss = [&] { return term.loss ? new Robust(term.loss) : nullptr; };
    using ceres::AutoDiffCostFunction;
    switch (term.kind) {
      case PeerTerm::Kind::spring:
        problem.AddResidualBlock(new AutoDiffCostFunction<Spring, 1, 3, 3>(new Spring{n[0]}),
                                 nullptr, block(0), block(1));
        break;
      case PeerTerm::Kind::target:
        problem.AddResidualBlock(
            new AutoDiffCostFunction<Target, 3, 3>(new Target{n[0], {n[1], n[2], n[3]}}), nullptr,
            block(0));
        break;
      case PeerTerm::Kind::arap_edge:
        problem.AddResidualBlock(
            new AutoDiffCostFunction<ArapEdge, 3, 3, 3, 3>(new ArapEdge{{n[0], n[1], n[2]}}),
            nullptr, block(0), block(1), block(2));
        break;
      case PeerTerm::Kind::smoothing:
        problem.AddResidualBlock(new AutoDiffCostFunction<Smoothing, 3, 3, 3, 3, 3>(new Smoothing),
                                 nullptr, block(0), block(1), block(2), block(3));
        break;
      case PeerTerm::Kind::observation:
        problem.AddResidualBlock(
            new AutoDiffCostFunction<Observation, 2, 9, 3>(new Observation{{n[0], n[1]}}), loss(),
            block(0), block(1));
        break;
      case PeerTerm::Kind::colmap_observation:
        problem.AddResidualBlock(kColmapObservations<6>[static_cast<std::size_t>(n[0])](n + 1),
                                 loss(), block(0), block(1), block(2));
        break;
      case PeerTerm::Kind::colmap_rig_observation:
        problem.AddResidualBlock(kColmapObservations<6, 6>[static_cast<std::size_t>(n[0])](n + 1),
                                 loss(), block(0), block(1), block(2), block(3));
        break;
      case PeerTerm::Kind::colmap_prior:
        problem.AddResidualBlock(new AutoDiffCostFunction<ColmapPrior, 3, 6>(new ColmapPrior{n}),
                                 loss(), block(0));
        break;
      case PeerTerm::Kind::colmap_rig_prior:
        problem.AddResidualBlock(new AutoDiffCostFunction<ColmapPrior, 3, 6, 6>(new ColmapPrior{n}),
                                 loss(), block(0), block(1));
        break;
      case PeerTerm::Kind::star: {
        std::vector<double*> blocks;
        for (std::size_t i = 0; i < width; ++i) blocks.push_back(block(i));
        add_star(problem, blocks, n[0] != 0);
        break;
      }
      case PeerTerm::Kind::planar_edge:
        problem.AddResidualBlock(new AutoDiffCostFunction<PlanarEdge, 3, 3, 3>(new PlanarEdge{n}),
                                 loss(), block(0), block(1));
        break;
      case PeerTerm::Kind::spatial_edge:
        problem.AddResidualBlock(
            new AutoDiffCostFunction<SpatialEdge, 6, 3, 4, 3, 4>(new SpatialEdge{n}), loss(),
            block(0), block(1), block(2), block(3));
        for (const std::size_t i : {1, 3})
          if (!problem.HasManifold(block(i)))
            problem.SetManifold(block(i), new ceres::QuaternionManifold);
        break;
    }
  }
}

/// Holds the numbers of x that `constant` marks.
void hold(ceres::Problem& problem, const std::vector<std::uint8_t>& constant,
          const std::vector<double>& x) {
  std::vector<double*> blocks;
  problem.GetParameterBlocks(&blocks);
  for (double* block : blocks) {
    const auto first = static_cast<std::size_t>(block - x.data());
    const int size = problem.ParameterBlockSize(block);
    std::vector<int> held;
    for (int k = 0; k < size; ++k)
      if (constant[first + static_cast<std::size_t>(k)] != 0) held.push_back(k);
    if (std::cmp_equal(held.size(), size)) {
      problem.SetParameterBlockConstant(block);
    } else if (!held.empty()) {
      problem.SetManifold(block, new ceres::SubsetManifold(size, held));
    }
  }
}

ceres::Solver::Summary solve(ceres::Problem& problem, int threads, int steps, int iterations) {
  ceres::Solver::Options options;
  options.num_threads = threads;
  options.linear_solver_type = ceres::CGNR;
  options.max_num_iterations = steps;
  options.min_linear_solver_iterations = options.max_linear_solver_iterations = iterations;
  options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance = 0;
  options.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  return summary;
}

double mean_us(double seconds, int count) { return count > 0 ? seconds / count * 1e6 : 0; }

double microseconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Uses Problem::Evaluate; the better of two times, because the first finds the structure.
void evaluate(ceres::Problem& problem, const PeerInput& input, PeerReport& report) {
  ceres::Problem::EvaluateOptions options;
  options.num_threads = input.threads;
  std::vector<double> residuals, gradient;
  ceres::CRSMatrix jacobian;
  double cost = 0;
  const auto with_jacobian = [&] {
    problem.Evaluate(options, &cost, &residuals, nullptr, &jacobian);
  };
  const auto with_gradient = [&] { problem.Evaluate(options, &cost, nullptr, &gradient, nullptr); };
  report.evaluate_jacobian_us =
      std::min(microseconds_of(with_jacobian), microseconds_of(with_jacobian));
  report.gradient_us = std::min(microseconds_of(with_gradient), microseconds_of(with_gradient));
  report.initial_cost = cost;
}

ceres::LinearSolverType type_of(command::PeerSolve::Linear linear) {
  switch (linear) {
    case command::PeerSolve::Linear::sparse: return ceres::SPARSE_NORMAL_CHOLESKY;
    case command::PeerSolve::Linear::schur: return ceres::SPARSE_SCHUR;
    case command::PeerSolve::Linear::conjugate_gradients: return ceres::CGNR;
    case command::PeerSolve::Linear::dense: return ceres::DENSE_QR;
  }
  return ceres::SPARSE_NORMAL_CHOLESKY;
}

void minimize(ceres::Problem& problem, const PeerInput& input, PeerReport& report) {
  const command::PeerSolve& asked = input.solve;
  ceres::Solver::Options options;
  options.num_threads = input.threads;
  options.linear_solver_type = type_of(asked.linear);
  options.trust_region_strategy_type = asked.dogleg ? ceres::DOGLEG : ceres::LEVENBERG_MARQUARDT;
  options.max_num_iterations = asked.max_iterations;
  options.max_linear_solver_iterations = asked.max_linear_iterations;
  options.function_tolerance = asked.function_tolerance;
  options.gradient_tolerance = asked.gradient_tolerance;
  options.parameter_tolerance = asked.parameter_tolerance;
  options.max_solver_time_in_seconds = asked.time_limit_s;
  options.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  report.solve_s = microseconds_of([&] { ceres::Solve(options, &problem, &summary); }) * 1e-6;
  report.initial_cost = summary.initial_cost;
  report.final_cost = summary.final_cost;
  report.iterations = steps_of(summary.iterations.size());
  report.linear_solver = ceres::LinearSolverTypeToString(summary.linear_solver_type_used);
  report.termination = ceres::TerminationTypeToString(summary.termination_type);
  report.message = summary.message;
}

/// All residuals as one block.
class Rows final : public ceres::CostFunction {
 public:
  Rows(const command::PeerFunctions& functions, std::size_t unknowns) : functions_(functions) {
    set_num_residuals(static_cast<int>(functions.rows));
    mutable_parameter_block_sizes()->push_back(static_cast<int>(unknowns));
  }
  bool Evaluate(const double* const* x, double* r, double** jacobians) const override {
    return functions_.least_squares(*x, r, jacobians == nullptr ? nullptr : jacobians[0]);
  }

 private:
  const command::PeerFunctions& functions_;
};

class Objective final : public ceres::FirstOrderFunction {
 public:
  Objective(const command::PeerFunctions& functions, std::size_t unknowns)
      : functions_(functions), unknowns_(static_cast<int>(unknowns)) {}
  int NumParameters() const override { return unknowns_; }
  bool Evaluate(const double* x, double* cost, double* gradient) const override {
    return functions_.objective(x, cost, gradient);
  }

 private:
  const command::PeerFunctions& functions_;
  int unknowns_;
};

void minimize_objective(const PeerInput& input, std::vector<double>& x, PeerReport& report) {
  const command::PeerSolve& asked = input.solve;
  ceres::GradientProblemSolver::Options options;
  options.max_num_iterations = asked.max_iterations;
  options.function_tolerance = asked.function_tolerance;
  options.gradient_tolerance = asked.gradient_tolerance;
  options.parameter_tolerance = asked.parameter_tolerance;
  options.max_solver_time_in_seconds = asked.time_limit_s;
  options.logging_type = ceres::SILENT;
  const ceres::GradientProblem problem(new Objective(input.functions, x.size()));
  ceres::GradientProblemSolver::Summary summary;
  report.solve_s =
      microseconds_of([&] { ceres::Solve(options, problem, x.data(), &summary); }) * 1e-6;
  report.initial_cost = summary.initial_cost;
  report.final_cost = summary.final_cost;
  report.iterations = steps_of(summary.iterations.size());
  report.linear_solver = "LBFGS";
  report.termination = ceres::TerminationTypeToString(summary.termination_type);
  report.message = summary.message;
}

void minimize_functions(const PeerInput& input, PeerReport& report) {
  report.x = input.x;
  if (input.functions.objective) return minimize_objective(input, report.x, report);
  ceres::Problem problem;
  problem.AddResidualBlock(new Rows(input.functions, report.x.size()), nullptr, report.x.data());
  minimize(problem, input, report);
}

void run(const PeerInput& input, PeerReport& report) {
  report.name = "Ceres";
  report.version = CERES_VERSION_STRING;
  report.libraries = blas();
  if (input.terms.empty()) return minimize_functions(input, report);
  std::vector<double> x = input.x;
  ceres::Problem problem;
  report.build_s = microseconds_of([&] {
                     for (const PeerTerm& term : input.terms) add_term(problem, term, x);
                     if (!input.constant.empty()) hold(problem, input.constant, x);
                   }) *
                   1e-6;
  if (input.minimize) return minimize(problem, input, report);
  if (!input.evaluate) return;
  evaluate(problem, input, report);
  const ceres::Solver::Summary s = solve(problem, input.threads, kSteps, 1);
  report.residual_us = mean_us(s.residual_evaluation_time_in_seconds, s.num_residual_evaluations);
  report.jacobian_us = mean_us(s.jacobian_evaluation_time_in_seconds, s.num_jacobian_evaluations);
  if (!input.step) return;
  std::copy(input.x.begin(), input.x.end(), x.begin());
  const ceres::Solver::Summary one = solve(problem, input.threads, 1, kStepIterations);
  report.step100_us =
      mean_us(one.linear_solver_time_in_seconds, one.num_linear_solves) +
      mean_us(one.jacobian_evaluation_time_in_seconds, one.num_jacobian_evaluations) +
      mean_us(one.residual_evaluation_time_in_seconds, one.num_residual_evaluations);
}

}  // namespace
}  // namespace topograd::bench

extern "C" void topograd_run_peer(const topograd::command::PeerInput& input,
                                  topograd::command::PeerReport& report) {
  topograd::bench::run(input, report);
}
