// warm_up(): the next solve compiles nothing, and has not started; declared kernels are used.
#include "../../support/paths.hpp"
#include "../../support/validation.hpp"

#include "../../../frontend/value/math.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/device/kernels/kernel_cache.hpp"
#include "../../../solver/evaluator.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace topograd {
namespace {

constexpr std::uint32_t kPoints = 200;

/// A chain of links with a length; `number` in its expression gives each test its own kernels.
struct Chain {
  explicit Chain(int number, std::uint32_t points = kPoints) : x(std::size_t{2} * points) {
    for (std::uint32_t k = 0; k < points; ++k) {
      x[2 * k] = 0.9 * k;
      x[2 * k + 1] = 0.01 * std::sin(0.3 * k);
    }
    p = problem.add_parameters(x, 2);
    for (std::uint32_t k = 0; k + 1 < points; ++k) {
      const Value apart = norm(p.vec2(k) - p.vec2(k + 1));
      const double factor = 1 + 0.125 * number;
      problem.add_residual(apart * literal(factor) - 0.91 * factor);
    }
    // Each point has an anchor, so that conjugate gradients end soon.
    for (std::uint32_t k = 0; k < points; ++k)
      problem.add_residual(Vec2{p.vec2(k).x - 0.9 * k - 0.1, p.vec2(k).y - 0.05});
  }
  Chain(const Chain&) = delete;

  std::vector<double> x;
  Problem problem;
  Parameters p;
};

struct Row {
  const char* name;
  SolverOptions options;
  std::function<void(Chain&)> change = [](Chain&) {};
  std::uint32_t points = kPoints;
};

class WarmUpVulkan : public test::VulkanTest {
 protected:
  void SetUp() override {
    platform::set_environment("TOPOGRAD_CACHE_DIR", folder_.path().string());
    runtime::vulkan::release_devices();  // they have the cache of earlier tests
    VulkanTest::SetUp();
  }
  test::TemporaryDir folder_;
};

SolverOptions on_device(Method method, LinearSolver linear = LinearSolver::automatic) {
  SolverOptions options{.backend = Backend::vulkan};
  options.method = method;
  options.linear_solver = linear;
  options.preconditioner = Preconditioner::block_jacobi;  // the other one is planned in the solve
  options.max_iterations = 6;
  return options;
}

/// Solves that record different lists.
std::vector<Row> solves() {
  const auto fixed = [](Chain& chain) {  // enough for kernels without them
    for (std::uint32_t k = 0; k < 15'000; k += 2) chain.problem.set_constant(chain.p, k);
  };
  std::vector<Row> rows = {
      {"levenberg_marquardt, pcg", on_device(Method::levenberg_marquardt, LinearSolver::pcg)},
      {"levenberg_marquardt, cholesky",
       on_device(Method::levenberg_marquardt, LinearSolver::cholesky)},
      {"dogleg", on_device(Method::dogleg)},
      {"lbfgs", on_device(Method::lbfgs)},
      {"newton", on_device(Method::newton, LinearSolver::pcg)},
      {"newton, cholesky", on_device(Method::newton, LinearSolver::cholesky)},
      {"adam", on_device(Method::adam)},
      {"many constants", on_device(Method::levenberg_marquardt, LinearSolver::pcg), fixed, 15'000},
      {"mixed", on_device(Method::levenberg_marquardt, LinearSolver::pcg)},
  };
  rows.back().options.precision = Precision::mixed;
  rows.push_back({"schur", on_device(Method::levenberg_marquardt, LinearSolver::schur)});
  rows.push_back({"within a box", on_device(Method::levenberg_marquardt, LinearSolver::pcg),
                  [](Chain& chain) { chain.problem.set_bounds(chain.p, 0, 0, -1e3, 1e3); }});
  return rows;
}

/// Compares what lists use with what was declared: last before them, and at all.
class Declarations {
 public:
  Declarations() { runtime::vulkan::set_recording_watch(&watch_); }
  ~Declarations() { runtime::vulkan::set_recording_watch(nullptr); }
  Declarations(const Declarations&) = delete;
  Declarations& operator=(const Declarations&) = delete;

  /// "LIST: KERNEL" for kernels that were not declared last before their list.
  std::set<std::string> missing;
  /// Kernels that were declared; those that lists use.
  std::set<std::string> declared, used;

 private:
  using KernelJob = runtime::vulkan::KernelJob;

  std::set<const KernelJob*> last_;
  std::string list_;
  runtime::vulkan::RecordingWatch watch_ = {
      .declared =
          [this](const auto& jobs) {
            last_.clear();
            for (const auto& job : jobs) {
              last_.insert(job.get());
              declared.insert(job->get().source.name);
            }
          },
      .recording = [this](std::string_view list) { list_ = list; },
      .used =
          [this](KernelJob& job) {
            const std::string& name = job.get().source.name;
            used.insert(name);
            if (!last_.contains(&job)) missing.insert(list_ + ": " + name);
          }};
};

TEST_F(WarmUpVulkan, TheSolveCompilesNothing) {
  if (!device_) return;
  std::vector<Row> rows = solves();
  const bool wide = device_->info().features.float64;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    Row& row = rows[k];
    SCOPED_TRACE(row.name);
    if (!wide && row.options.precision == Precision::mixed) continue;
    if (!wide) row.options.precision = Precision::f32;
    Chain chain(static_cast<int>(k) + 2, row.points);
    row.change(chain);
    int calls = 0;
    row.options.callback = [&](const IterationSummary&) {
      ++calls;
      return CallbackReturn::SOLVER_CONTINUE;
    };
    const std::vector<double> before = chain.x;
    const WarmUp made = warm_up(chain.problem, row.options);
    EXPECT_EQ(made.backend, "vulkan");
    EXPECT_GT(made.shaders_compiled, 0u);
    EXPECT_GT(made.device_bytes, 0u);
    EXPECT_EQ(chain.x, before);
    EXPECT_EQ(calls, 0);
    if (!device_->info().software()) {
      EXPECT_EQ(made.kernels_on_device, 0u);
    }
    const Summary summary = solve(chain.problem, row.options);
    EXPECT_EQ(summary.backend, "vulkan");
    EXPECT_EQ(summary.shaders_compiled, 0u);
    EXPECT_GT(summary.num_successful_steps, 0);
    EXPECT_GT(calls, 0);
  }
}

TEST_F(WarmUpVulkan, ListsUseWhatWasDeclaredForThem) {
  if (!device_) return;
  const bool wide = device_->info().features.float64;
  std::vector<Row> rows = solves();
  rows.push_back({"two_level", on_device(Method::levenberg_marquardt, LinearSolver::pcg)});
  rows.back().options.preconditioner = Preconditioner::two_level;
  rows.push_back({"assembled", on_device(Method::levenberg_marquardt, LinearSolver::pcg)});
  rows.back().options.normal_matrix = NormalMatrix::assembled;
  std::set<std::string> declared, used;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    Row& row = rows[k];
    SCOPED_TRACE(row.name);
    if (!wide && row.options.precision == Precision::mixed) continue;
    if (!wide) row.options.precision = Precision::f32;
    Chain chain(static_cast<int>(k) + 40, row.points);
    row.change(chain);
    Declarations seen;
    solve(chain.problem, row.options);
    Evaluator evaluator(chain.problem, row.options);
    const std::vector<double> p(chain.x.size(), 0.5);
    evaluator.cost();
    evaluator.jacobian();
    evaluator.jtjp(p);
    evaluator.hvp(p);
    EXPECT_EQ(seen.missing, std::set<std::string>());
    // A factor of the complement takes over after steps with many iterations only.
    if (row.options.linear_solver == LinearSolver::schur)
      std::erase_if(seen.declared,
                    [](const std::string& name) { return name.starts_with("vector_front_"); });
    std::vector<std::string> unused;
    std::ranges::set_difference(seen.declared, seen.used, std::back_inserter(unused));
    // The device takes no step that the host or steps in f32 have solved for.
    EXPECT_LE(unused.size(), 4u) << ::testing::PrintToString(unused);
    if (row.options.precision == Precision::mixed) continue;
    declared.merge(seen.declared);
    used.merge(seen.used);
  }
  EXPECT_EQ(declared, used);
}

TEST_F(WarmUpVulkan, WithoutItTheSolveCompiles) {
  if (!device_) return;
  SolverOptions options = on_device(Method::levenberg_marquardt, LinearSolver::pcg);
  if (!device_->info().features.float64) options.precision = Precision::f32;
  Chain cold(20);
  EXPECT_GT(solve(cold.problem, options).shaders_compiled, 0u);
  // A Solver uses what it has warmed up, and changes of numbers need nothing new.
  Chain chain(21);
  Solver solver(chain.problem, options);
  EXPECT_GT(solver.warm_up().shaders_compiled, 0u);
  EXPECT_EQ(solver.warm_up().shaders_compiled, 0u);
  const Summary first = solver.solve();
  EXPECT_EQ(first.shaders_compiled, 0u);
  for (double& x : chain.x) x *= 1.5;
  EXPECT_EQ(solver.solve().shaders_compiled, 0u);
}

TEST_F(WarmUpVulkan, TheCpuHasNothingToCompile) {
  Chain chain(3, 20);
  for (const Backend backend : {Backend::cpu, Backend::automatic}) {
    const WarmUp made = warm_up(chain.problem, {.backend = backend});
    EXPECT_EQ(made.backend, "cpu");
    EXPECT_EQ(made.shaders_compiled + made.shader_cache_hits, 0u);
    EXPECT_FALSE(made.why.empty());
  }
}

}  // namespace
}  // namespace topograd
