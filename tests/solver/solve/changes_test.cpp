// Callbacks that change the problem during its solve: each call is refused by name, and the
// parameters are the best point.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/covariance.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

/// A fit that needs several steps, and the objects that a callback may use.
struct Fit {
  std::vector<double> x{-1.2, 1}, more{1, 2, 3};
  std::optional<Problem> problem;
  Parameters unknowns;
  Residual residual;
  Data data;
  Uniform uniform;

  Fit() {
    problem.emplace();
    unknowns = problem->add_parameters(x);
    uniform = problem->add_uniform(1);
    data = problem->add_data(std::vector<double>{10.0});
    const Value a = unknowns[0], b = unknowns[1];
    residual = problem->add_residual(data[0] * (b - a * a));
    problem->add_residual(uniform.value() - a);
  }
};

SolverOptions calling(std::function<void(const IterationSummary&)> f, SolverOptions options = {}) {
  options.backend = Backend::cpu;
  options.callback = [f = std::move(f)](const IterationSummary& i) {
    f(i);
    return CallbackReturn::SOLVER_CONTINUE;
  };
  return options;
}

struct Change {
  const char* call;
  std::function<void(Fit&)> make;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> kAll = {
      {"add_parameters", [](Fit& f) { f.problem->add_parameters(f.more); }},
      {"add_data", [](Fit& f) { f.problem->add_data(f.more); }},
      {"add_uniform", [](Fit& f) { f.problem->add_uniform(2); }},
      {"set", [](Fit& f) { f.problem->set(f.data, std::vector<double>{2.0}); }},
      {"set", [](Fit& f) { f.problem->set(f.uniform, 2); }},
      {"add_residual", [](Fit& f) { f.problem->add_residual(f.unknowns[0]); }},
      {"add_residual", [](Fit& f) { f.problem->add_residual([&] { return f.unknowns[0]; }); }},
      {"add_residuals",
       [](Fit& f) { f.problem->add_residuals(2, [&](Element) { return f.unknowns[0]; }); }},
      {"add_energy", [](Fit& f) { f.problem->add_energy(f.unknowns[0]); }},
      {"add_energies",
       [](Fit& f) { f.problem->add_energies(2, [&](Element) { return f.unknowns[0]; }); }},
      {"remove", [](Fit& f) { f.problem->remove(f.residual); }},
      {"remove", [](Fit& f) { f.problem->remove(f.unknowns); }},
      {"set_loss", [](Fit& f) { f.problem->set_loss(f.residual, Loss::huber(1)); }},
      {"set_constant", [](Fit& f) { f.problem->set_constant(f.unknowns, 0); }},
      {"set_variable", [](Fit& f) { f.problem->set_variable(f.unknowns, 0); }},
      {"set_lower_bound", [](Fit& f) { f.problem->set_bounds(f.unknowns, 0, 0, 0, 1); }},
      {"set_manifold", [](Fit& f) { f.problem->set_manifold(f.unknowns, Manifold(nullptr)); }},
      {"Problem: move", [](Fit& f) { const Problem other = std::move(*f.problem); }},
      {"Problem: move", [](Fit& f) { *f.problem = Problem(); }},
      {"solve", [](Fit& f) { solve(*f.problem); }},
  };
  return kAll;
}

void expect_refused(const std::function<void()>& f, const std::string& begins) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_EQ(std::string(error.what()).rfind(begins, 0), 0u) << error.what();
  }
}

/// The step after which callbacks change something.
constexpr int kWhen = 6;

/// The point of the change, from a solve that stops there.
std::vector<double> point_of_change(Method method = Method::automatic) {
  Fit fit;
  const std::vector<double> start = fit.x;
  solve(*fit.problem,
        calling([](const IterationSummary&) {}, {.method = method, .max_iterations = kWhen}));
  if (method == Method::automatic) {
    EXPECT_NE(fit.x, start);
  }
  return fit.x;
}

TEST(Changes, AreRefusedWhereTheyAreMade) {
  const std::vector<double> expected = point_of_change();
  for (const Change& change : changes()) {
    SCOPED_TRACE(change.call);
    Fit fit;
    expect_refused(
        [&] {
          solve(*fit.problem, calling([&](const IterationSummary& i) {
            if (i.iteration == kWhen) change.make(fit);
          }));
        },
        std::string(change.call) + ": the problem is being solved");
    EXPECT_EQ(fit.x, expected);
    EXPECT_EQ(solve(*fit.problem, {.backend = Backend::cpu}).termination, Termination::CONVERGENCE);
  }
}

TEST(Changes, ThatAreCaughtDoNotDisturb) {
  Fit plain;
  const Summary expected = solve(*plain.problem, {.backend = Backend::cpu});
  Fit fit;
  const Summary summary = solve(*fit.problem, calling([&](const IterationSummary&) {
    for (const Change& change : changes()) {
      try {
        change.make(fit);
        ADD_FAILURE() << change.call;
      } catch (const Error&) {
      }
    }
  }));
  EXPECT_EQ(summary.num_iterations(), expected.num_iterations());
  EXPECT_EQ(fit.x, plain.x);
}

TEST(Changes, OfASolverInItsOwnCallback) {
  const std::vector<double> expected = point_of_change();
  Fit fit;
  std::optional<Solver> solver;
  solver.emplace(*fit.problem, calling([&](const IterationSummary& i) {
    if (i.iteration == kWhen) solver->solve();
  }));
  expect_refused([&] { solver->solve(); }, "solve: the problem is being solved");
  EXPECT_EQ(fit.x, expected);
}

TEST(Changes, TheEndOfASolverInItsOwnCallback) {
  const std::vector<double> expected = point_of_change();
  for (const bool by_move : {false, true}) {
    Fit fit;
    std::optional<Solver> solver;
    solver.emplace(*fit.problem, calling([&](const IterationSummary& i) {
      if (i.iteration != kWhen) return;
      if (by_move) *solver = Solver(*fit.problem);
      if (!by_move) solver.reset();
    }));
    expect_refused([&] { solver->solve(); }, "solve: the Solver ended inside of a callback");
    EXPECT_EQ(fit.x, expected);
  }
}

TEST(Changes, TheEndOfTheProblemInACallback) {
  const Method methods[] = {Method::levenberg_marquardt, Method::dogleg, Method::lbfgs,
                            Method::newton, Method::adam};
  for (const Method method : methods) {
    SCOPED_TRACE(name(method));
    Fit fit;
    std::vector<double> at_end;
    expect_refused(
        [&] {
          solve(*fit.problem, calling(
                                  [&](const IterationSummary& i) {
                                    if (i.iteration != kWhen) return;
                                    fit.problem.reset();
                                    at_end = std::exchange(fit.x, std::vector<double>{7, 7});
                                  },
                                  {.method = method}));
        },
        "solve: the problem ended inside of a callback");
    EXPECT_EQ(fit.x, (std::vector<double>{7, 7}));  // memory that may be freed is not written
    EXPECT_EQ(at_end, point_of_change(method));
  }
}

/// A residual on the host that changes the problem while it is evaluated.
class Meddler final : public HostResidual {
 public:
  explicit Meddler(Fit& fit) : fit_(fit) {}
  int rows() const override { return 1; }
  bool evaluate(const double* const* blocks, double* residuals, double** jacobians) const override {
    if (++calls_ > 2) fit_.problem->add_parameters(fit_.more);
    residuals[0] = blocks[0][0] - 0.5;
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = 1;
    return true;
  }

 private:
  Fit& fit_;
  mutable int calls_ = 0;
};

TEST(Changes, FromAResidualOnTheHost) {
  Fit fit;
  fit.problem->add_residual(std::make_shared<Meddler>(fit), {fit.unknowns.block(0)});
  expect_refused([&] { solve(*fit.problem, {.backend = Backend::cpu}); },
                 "add_parameters: the problem is being solved");
}

TEST(Changes, AProblemThatMovedToAnothersPlaceIsSolved) {
  Fit fit;
  Solver solver(*fit.problem, {.backend = Backend::cpu});
  solver.solve();
  std::vector<double> y{3};
  Problem next;
  next.add_residual(next.add_parameters(y)[0] - 5);
  *fit.problem = std::move(next);
  EXPECT_EQ(solver.solve().termination, Termination::CONVERGENCE);
  EXPECT_NEAR(y[0], 5, 1e-6);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Changes, TheEndOfAProblemIsNoticedByWhatWorksOnIt) {
  const SolverOptions cpu{.backend = Backend::cpu};
  Fit fit;
  Solver solver(*fit.problem, cpu);
  Evaluator evaluator(*fit.problem, cpu);
  solver.solve();
  evaluator.cost();
  const Covariance covariance(*fit.problem, {.solver = cpu});
  Async<Eigen::VectorXd> begun = evaluator.gradient_async(fit.x);
  fit.problem.reset();
  EXPECT_EQ(error_of([&] { solver.solve(); }),
            "solver: its Problem has ended; expected it to live longer");
  EXPECT_EQ(error_of([&] { solver.warm_up(); }),
            "solver: its Problem has ended; expected it to live longer");
  EXPECT_EQ(error_of([&] { evaluator.cost(); }),
            "evaluator: its Problem has ended; expected it to live longer");
  EXPECT_EQ(error_of([&] { evaluator.hvp_async(fit.x, fit.x); }),
            "evaluator: its Problem has ended; expected it to live longer");
  EXPECT_EQ(begun.get().size(), 2);
  EXPECT_GT(covariance.block({fit.unknowns, 0}, {fit.unknowns, 0})(0, 0), 0);
}

TEST(Changes, AnotherProblemMayMoveToThePlaceOfTheFirst) {
  Fit fit, other;
  other.problem->set(other.uniform, 3);
  Evaluator evaluator(*fit.problem, {.backend = Backend::cpu});
  evaluator.cost();
  const double expected = Evaluator(*other.problem, {.backend = Backend::cpu}).cost();
  *fit.problem = std::move(*other.problem);
  EXPECT_EQ(evaluator.cost(), expected);
}

}  // namespace
}  // namespace topograd
