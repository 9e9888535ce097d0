// The sparse factorisation by phases: plan, numeric factorisation and solve, by threads, and those
// of Eigen's SimplicialLDLT and, where it was built in, of CHOLMOD. On one thread, what a factor
// costs that admits negative pivots: of the same matrix, and of one with a third of its rows
// negated.
//
//   bench_factor MESH [REPEATS [THREADS...]]
//
// Matrices: JᵀJ + I of arap(MESH), smooth(MESH) and springs(100) at their starts.
#include "../api/formats/mesh/mesh.hpp"
#include "../runtime/cpu/factor/sparse_factor.hpp"
#include "../solver/evaluator.hpp"
#include "../tools/problems/arap.hpp"
#include "../tools/problems/smooth.hpp"
#include "../tools/problems/springs.hpp"

#include <Eigen/Core>
#include <Eigen/SparseCholesky>
#include <Eigen/SparseCore>
#ifdef TOPOGRAD_CHOLMOD
#include <Eigen/CholmodSupport>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <vector>

namespace topograd::bench {
namespace {

using SparseMatrix = Eigen::SparseMatrix<double>;

/// The shortest of `repeats` runs, in milliseconds.
template <class F>
double milliseconds(int repeats, const F& f) {
  double best = HUGE_VAL;
  for (int k = 0; k < repeats; ++k) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

SparseMatrix matrix_of(Problem& problem) {
  SolverOptions options;
  options.backend = Backend::cpu;
  SparseMatrix full = Evaluator(problem, options).jtj();
  SparseMatrix identity(full.rows(), full.cols());
  identity.setIdentity();
  full += identity;
  SparseMatrix lower = full.triangularView<Eigen::Lower>();
  lower.makeCompressed();
  return lower;
}

template <class Factor>
void measure_peer(const char* name, const SparseMatrix& lower, int repeats) {
  Factor factor;
  const double planning = milliseconds(1, [&] { factor.analyzePattern(lower); });
  const Eigen::VectorXd right = Eigen::VectorXd::Ones(lower.cols());
  Eigen::VectorXd x;
  const double numeric = milliseconds(repeats, [&] { factor.factorize(lower); });
  const double solving = milliseconds(repeats, [&] { x = factor.solve(right); });
  std::printf("  %s: plan %.2f ms, factor %.2f ms, solve %.2f ms\n", name, planning, numeric,
              solving);
}

/// Negates every third row, with the diagonal: [H Aᵀ; A −C] for a matrix [H Aᵀ; A C].
SparseMatrix quasidefinite(const SparseMatrix& lower) {
  SparseMatrix out = lower;
  double* const values = out.valuePtr();
  for (Eigen::Index c = 0; c < out.cols(); c += 3)
    for (int at = out.outerIndexPtr()[c]; at < out.outerIndexPtr()[c + 1]; ++at)
      if (out.innerIndexPtr()[at] % 3 == 0) values[at] = -values[at];
  return out;
}

/// Factors in turn, so that other work of the machine meets all of them.
void measure_signs(const runtime::FactorPlan& plan, const SparseMatrix& lower, int repeats) {
  const SparseMatrix indefinite = quasidefinite(lower);
  runtime::cpu::SparseFactor factor(plan, 1);
  const runtime::PivotRule any{.admitted = runtime::AdmittedPivots::nonzero};
  const auto time = [&](const SparseMatrix& matrix, const runtime::PivotRule& rule) {
    const std::span values(matrix.valuePtr(), static_cast<std::size_t>(matrix.nonZeros()));
    return milliseconds(1, [&] { factor.factor(values, rule); });
  };
  double strict = HUGE_VAL, admitted = HUGE_VAL, negative = HUGE_VAL;
  for (int k = 0; k < repeats; ++k) {
    strict = std::min(strict, time(lower, {}));
    admitted = std::min(admitted, time(lower, any));
    negative = std::min(negative, time(indefinite, any));
  }
  std::printf("  signs: none admitted %.2f ms, admitted %.2f ms, a third negative %.2f ms\n",
              strict, admitted, negative);
}

void measure(const char* name, const SparseMatrix& lower, int repeats,
             const std::vector<int>& threads) {
  const runtime::LowerPattern pattern{
      {lower.outerIndexPtr(), static_cast<std::size_t>(lower.cols()) + 1},
      {lower.innerIndexPtr(), static_cast<std::size_t>(lower.nonZeros())}};
  const std::span values(lower.valuePtr(), static_cast<std::size_t>(lower.nonZeros()));
  runtime::FactorPlan plan;
  const double planning = milliseconds(repeats, [&] { plan = runtime::make_factor_plan(pattern); });
  std::printf("%s: %td unknowns, %.2g entries, %.2g operations; plan %.2f ms\n", name, lower.cols(),
              plan.nonzeros, plan.operations, planning);
  for (const int count : threads) {
    runtime::cpu::SparseFactor factor(plan, count);
    Eigen::VectorXd right = Eigen::VectorXd::Ones(lower.cols()), x(lower.cols());
    const double numeric = milliseconds(repeats, [&] { factor.factor(values); });
    const double solving = milliseconds(repeats, [&] {
      factor.solve({right.data(), static_cast<std::size_t>(right.size())},
                   {x.data(), static_cast<std::size_t>(x.size())});
    });
    std::printf("  %d threads: factor %.2f ms, solve %.2f ms\n", count, numeric, solving);
  }
  measure_signs(plan, lower, repeats);
#ifdef TOPOGRAD_CHOLMOD
  measure_peer<Eigen::CholmodSupernodalLLT<SparseMatrix, Eigen::Lower>>("CHOLMOD", lower, repeats);
#endif
  if (plan.operations < 1e10)
    measure_peer<Eigen::SimplicialLDLT<SparseMatrix, Eigen::Lower>>("Eigen", lower,
                                                                    std::max(repeats / 4, 1));
}

}  // namespace
}  // namespace topograd::bench

int main(int argc, char** argv) {
  using namespace topograd;
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_factor MESH [REPEATS [THREADS...]]\n");
    return 2;
  }
  try {
    const int repeats = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 20;
    std::vector<int> threads;
    for (int k = 3; k < argc; ++k) threads.push_back(std::max(std::atoi(argv[k]), 1));
    if (threads.empty()) threads = {1, 2};
    const TriangleMesh mesh = read_mesh(argv[1]);
    bench::measure("arap", bench::matrix_of(problems::arap(mesh)->problem), repeats, threads);
    bench::measure("smooth", bench::matrix_of(problems::smooth(mesh)->problem), repeats, threads);
    bench::measure("springs", bench::matrix_of(problems::springs(100)->problem), repeats, threads);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
