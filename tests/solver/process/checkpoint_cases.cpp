// Solves that are interrupted and resumed.
#include "checkpoint_cases.hpp"

#include "../../../frontend/manifold.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../solver/solve.hpp"
#include "../../../tools/problems/arap.hpp"
#include "../../../tools/problems/bundle.hpp"
#include "../../../tools/problems/developable.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/paths.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <utility>

namespace topograd::test {
namespace {

/// A problem that a generator of the command made: a struct with `problem`.
template <class Made>
class Generated final : public Checkpointed {
 public:
  explicit Generated(std::unique_ptr<Made> made) : made_(std::move(made)) {}
  Problem& problem() override { return made_->problem; }

 private:
  std::unique_ptr<Made> made_;
};
template <class Make>
std::function<std::unique_ptr<Checkpointed>()> generated(Make make) {
  return [make] {
    auto made = make();
    return std::make_unique<Generated<typename decltype(made)::element_type>>(std::move(made));
  };
}

/// A chain of Rosenbrock's valleys; the first unknown is fixed.
struct Chain {
  std::vector<double> x;
  Problem problem;
};
std::unique_ptr<Chain> chain(int size, bool bounded, const Loss& loss = {}) {
  auto out = std::make_unique<Chain>();
  for (int k = 0; k < size; ++k) out->x.push_back(k % 2 == 0 ? -1.2 : 1 + 0.01 * k);
  const Parameters x = out->problem.add_parameters(out->x);
  for (std::size_t k = 0; k + 1 < out->x.size(); ++k) {
    out->problem.add_residual({10 * (x[k + 1] - x[k] * x[k])}, {.loss = loss});
    out->problem.add_residual({1.0 - x[k]});
  }
  out->problem.set_constant(x, 0);
  for (std::size_t k = 1; bounded && k < out->x.size(); k += 3)
    out->problem.set_bounds(x, k, 0, -1.5, 1.5);
  return out;
}

/// Unit quaternions around a loop, each with its distance from the next.
std::unique_ptr<Chain> turns() {
  auto out = std::make_unique<Chain>();
  constexpr std::size_t kTurns = 30;
  for (std::size_t k = 0; k < kTurns; ++k) {
    const double a = 0.9 * std::sin(static_cast<double>(k)), b = 0.4 * std::cos(3.0 * k);
    const double n = std::sqrt(1 + a * a + b * b);
    out->x.insert(out->x.end(), {1 / n, a / n, b / n, 0});
  }
  const Parameters q = out->problem.add_parameters(out->x, 4);
  for (std::size_t k = 0; k < kTurns; ++k) {
    const std::size_t next = (k + 1) % kTurns;
    const double wanted = 0.1 * std::sin(2.0 * k);
    const Value w =
        q(k, 0) * q(next, 0) + q(k, 1) * q(next, 1) + q(k, 2) * q(next, 2) + q(k, 3) * q(next, 3);
    out->problem.add_residual({w - std::cos(wanted), q(k, 1) - q(next, 1) * q(next, 0) - wanted,
                               q(k, 3) - 0.2 * q(next, 2)});
  }
  out->problem.set_constant(q, 0);
  out->problem.set_manifold(q, Manifold::quaternion());
  return out;
}

}  // namespace

std::vector<double> Checkpointed::x() {
  std::vector<double> out(problem().parameter_count());
  problem().read_x(out);
  return out;
}

std::vector<CheckpointCase> checkpoint_cases() {
  using LS = LinearSolver;
  const auto springs = generated([] { return problems::springs(9); });
  const auto bundle = generated([] {
    return problems::bundle({.cameras = 5, .points = 60, .observations = 200, .noise = 0.5});
  });
  const auto arap = generated([] { return problems::arap(problems::icosphere(2)); });
  const auto valley = generated([] { return chain(12, false); });
  const auto boxed = generated([] { return chain(40, true); });
  const auto long_valley = generated([] { return chain(40, false); });
  const auto robust = generated([] { return chain(40, false, Loss::cauchy(2)); });
  const auto quaternions = generated([] { return turns(); });
  const auto energies = generated([] {
    problems::TriangleMesh mesh = problems::icosphere(1);
    problems::perturb(mesh.positions, 0.05, 1);
    return problems::multi(mesh);
  });
  std::vector<CheckpointCase> rows = {
      {"pcg", springs, {.linear_solver = LS::pcg}},
      {"pcg, f32", springs, {.precision = Precision::f32, .linear_solver = LS::pcg}},
      {"pcg, mixed", bundle, {.precision = Precision::mixed, .linear_solver = LS::pcg}},
      {"two levels", arap, {.linear_solver = LS::pcg, .preconditioner = Preconditioner::two_level}},
      {"two levels when they pay", arap, {.linear_solver = LS::pcg}},
      {"two levels, mixed",
       arap,
       {.precision = Precision::mixed,
        .linear_solver = LS::pcg,
        .preconditioner = Preconditioner::two_level}},
      {"assembled matrix",
       arap,
       {.linear_solver = LS::pcg, .normal_matrix = NormalMatrix::assembled}},
      {"loose systems",
       springs,
       {.method = Method::gauss_newton,
        .linear_solver = LS::pcg,
        .forcing_sequence = ForcingSequence::eisenstat_walker}},
      {"cholesky", springs, {.linear_solver = LS::cholesky}},
      {"schur", bundle, {.linear_solver = LS::schur}},
      {"schur, mixed", bundle, {.precision = Precision::mixed, .linear_solver = LS::schur}},
      {"dense", valley, {.linear_solver = LS::dense}, false},
      {"Ceres' units", long_valley, {.linear_solver = LS::cholesky, .scale_free = false}},
      {"dogleg", long_valley, {.method = Method::dogleg}, false},
      {"subspace dogleg",
       valley,
       {.method = Method::dogleg, .dogleg_type = DoglegType::subspace},
       false},
      {"nonmonotonic", long_valley, {.linear_solver = LS::pcg, .use_nonmonotonic_steps = true}},
      {"a robust loss", robust, {.linear_solver = LS::pcg}},
      {"bounds", boxed, {.linear_solver = LS::pcg}},
      {"bounds on the host", boxed, {.linear_solver = LS::cholesky}, false},
      {"manifolds", quaternions, {.linear_solver = LS::pcg}},
      {"manifolds on the host", quaternions, {.linear_solver = LS::cholesky}, false},
      {"lbfgs", long_valley, {.method = Method::lbfgs}},
      {"lbfgs, f32", long_valley, {.precision = Precision::f32, .method = Method::lbfgs}},
      {"lbfgs with bounds", boxed, {.method = Method::lbfgs}, false},
      {"lbfgs on manifolds", quaternions, {.method = Method::lbfgs}, false},
      {"lbfgs of energies", energies, {.method = Method::lbfgs}},
      {"newton", energies, {.method = Method::newton}},
      {"newton by products", long_valley, {.method = Method::newton, .linear_solver = LS::pcg}},
      {"adam", long_valley, {.method = Method::adam, .first_order = {.learning_rate = 0.05}}},
      {"adamw", long_valley, {.method = Method::adamw, .first_order = {.learning_rate = 0.05}}},
      {"momentum",
       long_valley,
       {.method = Method::sgd, .first_order = {.learning_rate = 1e-4, .momentum = 0.9}}},
      {"adam, f32",
       long_valley,
       {.precision = Precision::f32,
        .method = Method::adam,
        .first_order = {.learning_rate = 0.05}}},
  };
  for (CheckpointCase& row : rows) {
    row.options.deterministic = true;
    row.options.max_iterations = 24;
  }
  return rows;
}

std::string first_difference(const Summary& a, const std::vector<double>& x, const Summary& b,
                             const std::vector<double>& y) {
  const auto same = [](double p, double q) {
    return std::bit_cast<std::uint64_t>(p) == std::bit_cast<std::uint64_t>(q);
  };
  if (a.iterations.size() != b.iterations.size())
    return "steps: " + std::to_string(a.iterations.size()) + ", " +
           std::to_string(b.iterations.size());
  for (std::size_t k = 0; k < a.iterations.size(); ++k) {
    const IterationSummary &i = a.iterations[k], &j = b.iterations[k];
    const std::string step = " of step " + std::to_string(k);
    if (!same(i.cost, j.cost)) return "cost" + step;
    if (!same(i.cost_change, j.cost_change)) return "cost change" + step;
    if (!same(i.gradient_norm, j.gradient_norm)) return "gradient" + step;
    if (!same(i.gradient_max_norm, j.gradient_max_norm)) return "largest gradient" + step;
    if (!same(i.step_norm, j.step_norm)) return "length" + step;
    if (!same(i.relative_decrease, j.relative_decrease)) return "gain" + step;
    if (!same(i.trust_region_radius, j.trust_region_radius)) return "radius" + step;
    if (i.step_is_successful != j.step_is_successful) return "success" + step;
    if (i.linear_iterations != j.linear_iterations) return "linear iterations" + step;
    if (i.evaluations != j.evaluations) return "evaluations" + step;
  }
  for (std::size_t k = 0; k < x.size(); ++k)
    if (!same(x[k], y[k])) return "x[" + std::to_string(k) + "]";
  if (!same(a.initial_cost, b.initial_cost)) return "initial cost";
  if (!same(a.final_cost, b.final_cost)) return "final cost";
  if (a.num_successful_steps != b.num_successful_steps) return "successful steps";
  if (a.num_unsuccessful_steps != b.num_unsuccessful_steps) return "unsuccessful steps";
  if (a.num_linear_iterations != b.num_linear_iterations) return "linear iterations";
  if (a.num_escapes != b.num_escapes) return "escapes";
  if (a.preconditioner_note != b.preconditioner_note)
    return "preconditioner: " + a.preconditioner_note + ", " + b.preconditioner_note;
  if (a.termination != b.termination || a.message != b.message)
    return "end: " + a.message + ", " + b.message;
  return "";
}

void expect_resumes(const CheckpointCase& row, Backend backend) {
  SCOPED_TRACE(row.name);
  SolverOptions options = row.options;
  options.backend = backend;
  const auto whole = row.make();
  const Summary all = solve(whole->problem(), options);
  const std::vector<double> x = whole->x();
  const int last = all.num_iterations();
  ASSERT_GT(last, 2) << "nothing to interrupt: " << all.message;

  const TemporaryDir folder;
  const std::string path = folder.path() / "state";
  std::set<int> stops = {last / 2 + 1};
  if (backend == Backend::cpu) stops.insert({1, last / 3 + 1, last - 1, last});
  for (const int stop : stops) {
    SCOPED_TRACE("after step " + std::to_string(stop));
    SolverOptions first = options;
    first.max_iterations = stop;
    first.checkpoint = {.file = path, .every_seconds = 0};
    const auto begun = row.make();
    solve(begun->problem(), first);
    SolverOptions second = options;
    second.resume = path;
    const auto resumed = row.make();
    const Summary rest = solve(resumed->problem(), second);
    EXPECT_EQ(rest.resumed_step, stop);
    EXPECT_EQ(first_difference(all, x, rest, resumed->x()), "");
  }
}

}  // namespace topograd::test
