// Components: each against a solve of its own, the decision, and failures that stay alone.
#include "../../../frontend/manifold.hpp"
#include "../../../frontend/quat.hpp"
#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/tile_ops.hpp"
#include "../../../solver/components/groups.hpp"
#include "../../../solver/components/lane_solver.hpp"
#include "../../../solver/model/model.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/solve_many.hpp"
#include "../../../solver/solve_watch.hpp"
#include "../../../solver/summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Random = std::mt19937_64;

double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}
double normal(Random& random, double deviation) {
  return std::normal_distribution<double>(0, deviation)(random);
}

/// Unknowns of one small problem, in blocks.
using Memory = std::deque<std::vector<double>>;

void add_decay(Problem& problem, const Parameters& p, Random& random, const Loss& loss, int points,
               double outliers) {
  const double a = uniform(random, 1, 4), b = uniform(random, 0.3, 2), c = uniform(random, -1, 1);
  for (int k = 0; k < points; ++k) {
    const double t = 0.15 * k;
    double y = a * std::exp(-b * t) + c + normal(random, 0.02);
    if (uniform(random, 0, 1) < outliers) y += uniform(random, 1, 5);
    problem.add_residual(p(0, 0) * exp(-p(0, 1) * t) + p(0, 2) - y, {.loss = loss});
  }
}

Parameters add_block(Problem& problem, Memory& memory, std::vector<double> start) {
  const int width = static_cast<int>(start.size());
  memory.push_back(std::move(start));
  return problem.add_parameters(memory.back(), width);
}

void add_curve(Problem& problem, Memory& memory, Random& random) {
  const Parameters p =
      add_block(problem, memory, {uniform(random, 0.5, 3), uniform(random, 0.2, 3), 0});
  add_decay(problem, p, random, {}, 24, 0);
}

void add_robust_curve(Problem& problem, Memory& memory, Random& random) {
  const Parameters p = add_block(problem, memory, {2, 1, 0});
  const Loss losses[] = {Loss::huber(0.1), Loss::cauchy(0.2), Loss::soft_l1(0.1), Loss::tukey(3)};
  const auto which = std::uniform_int_distribution<int>(0, 3)(random);
  add_decay(problem, p, random, losses[which], 30, 0.1);
}

void add_bounded_curve(Problem& problem, Memory& memory, Random& random) {
  const Parameters p = add_block(problem, memory, {2, 0.9, 0});
  problem.set_bounds(p, 0, 0, 0.5, uniform(random, 2.1, 5));
  problem.set_upper_bound(p, 0, 1, uniform(random, 1, 2));
  problem.set_lower_bound(p, 0, 2, -0.2);
  add_decay(problem, p, random, {}, 20, 0);
}

void add_valley(Problem& problem, Memory& memory, Random& random) {
  const Parameters x = add_block(problem, memory, {uniform(random, -2, 2)});
  const Parameters y = add_block(problem, memory, {uniform(random, -2, 2)});
  const double steep = uniform(random, 3, 12);
  problem.add_residual(steep * (y.scalar(0) - x.scalar(0) * x.scalar(0)));
  problem.add_residual(1.0 - x.scalar(0));
}

void add_circle(Problem& problem, Memory& memory, Random& random) {
  const double cx = normal(random, 1), cy = normal(random, 1), size = uniform(random, 1, 3);
  const Parameters c = add_block(
      problem, memory, {cx + uniform(random, -0.3, 0.3), cy + uniform(random, -0.3, 0.3)});
  const Parameters r = add_block(problem, memory, {size * uniform(random, 0.8, 1.2)});
  for (int k = 0; k < 12; ++k) {
    const double angle = 0.5 * k, x = cx + size * std::cos(angle) + normal(random, 0.05),
                 y = cy + size * std::sin(angle) + normal(random, 0.05);
    problem.add_residual(hypot(c(0, 0) - x, c(0, 1) - y) - r.scalar(0),
                         {.loss = Loss::cauchy(0.3)});
  }
}

/// Rotates and shifts points onto others.
void add_pose(Problem& problem, const Parameters& rotation, const Parameters& shift,
              std::size_t block, Random& random) {
  for (int k = 0; k < 6; ++k) {
    const Vec3 from{normal(random, 1), normal(random, 1), normal(random, 1)};
    const Vec3 to{normal(random, 1), normal(random, 1), normal(random, 1)};
    problem.add_residual(rotate(rotation.quat(block), from) + shift.vec3(block) - to);
  }
}

std::vector<double> random_rotation(Random& random) {
  const double q[4] = {1, normal(random, 0.3), normal(random, 0.3), normal(random, 0.3)};
  const double norm = std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  return {q[0] / norm, q[1] / norm, q[2] / norm, q[3] / norm};
}

void add_alignment(Problem& problem, Memory& memory, Random& random) {
  const Parameters rotation = add_block(problem, memory, random_rotation(random));
  const Parameters shift = add_block(problem, memory, {0, 0, 0});
  problem.set_manifold(rotation, Manifold::quaternion());
  add_pose(problem, rotation, shift, 0, random);
}

void add_weighted_line(Problem& problem, Memory& memory, Random& random) {
  const Parameters p = add_block(problem, memory, {1, -2, 0.5, 3});
  const Parameters q = add_block(problem, memory, {0, 0});
  for (int k = 0; k < 15; ++k) {
    const double t = 0.2 * k - 1, weight = uniform(random, 0.1, 5), y = normal(random, 2);
    Value sum = p(0, 0) + p(0, 1) * t + p(0, 2) * (t * t) + p(0, 3) * (t * t * t);
    sum = sum + q(0, 0) * std::cos(3 * t) + q(0, 1) * std::sin(3 * t);
    problem.add_residual(weight * (sum - y));
  }
}

/// The start has no value.
void add_nan(Problem& problem, Memory& memory, Random& random) {
  const Parameters x = add_block(problem, memory, {-uniform(random, 0.1, 2)});
  problem.add_residual(log(x.scalar(0)) - 1.0);
  problem.add_residual(x.scalar(0) - uniform(random, 0, 1));
}

/// A direction of the unknowns is not determined.
void add_singular(Problem& problem, Memory& memory, Random& random) {
  const Parameters p =
      add_block(problem, memory, {uniform(random, -1, 1), 2, uniform(random, 0, 1)});
  const Parameters q = add_block(problem, memory, {normal(random, 1)});
  for (int k = 0; k < 4; ++k) {
    problem.add_residual(exp(0.3 * (p(0, 0) + p(0, 1))) - uniform(random, 1, 4));
    problem.add_residual(p(0, 2) - q.scalar(0) - normal(random, 1));
    problem.add_residual(sin(q.scalar(0)) + 0.5 * q.scalar(0) - normal(random, 1));
  }
}

void add_held(Problem& problem, Memory& memory, Random& random) {
  const Parameters p = add_block(problem, memory, {2, uniform(random, 0.5, 1.5), 0.1});
  problem.set_constant(p, 0, 0b010);
  add_decay(problem, p, random, {}, 12, 0);
}

/// More unknowns than a dense Jacobian serves for.
void add_chain(Problem& problem, Memory& memory, Random& random) {
  const int size = std::uniform_int_distribution<int>(34, 60)(random);
  std::vector<double> start;
  for (int k = 0; k < size; ++k) start.push_back(normal(random, 1));
  memory.push_back(std::move(start));
  const Parameters x = problem.add_parameters(memory.back(), 1);
  for (std::size_t k = 0; k + 1 < x.size(); ++k) {
    problem.add_residual(x.scalar(k + 1) - sin(x.scalar(k)) - normal(random, 0.1));
    problem.add_residual(0.3 * (x.scalar(k) - normal(random, 1)));
  }
}

/// Steps leave the domain of the residuals.
void add_domain(Problem& problem, Memory& memory, Random& random) {
  const Parameters x = add_block(problem, memory, {uniform(random, 5, 30)});
  const Parameters y = add_block(problem, memory, {uniform(random, 0.1, 2)});
  problem.add_residual(log(x.scalar(0)) - uniform(random, -3, 0));
  problem.add_residual(sqrt(y.scalar(0)) * x.scalar(0) - uniform(random, 0.1, 1));
}

using Adder = void (*)(Problem&, Memory&, Random&);
constexpr Adder kKinds[] = {add_curve,    add_robust_curve, add_bounded_curve, add_valley,
                            add_circle,   add_alignment,    add_weighted_line, add_nan,
                            add_singular, add_held,         add_chain,         add_domain};
constexpr std::size_t kKindCount = std::size(kKinds);

std::vector<double> numbers_of(const Memory& memory) {
  std::vector<double> all;
  for (const std::vector<double>& block : memory) all.insert(all.end(), block.begin(), block.end());
  return all;
}

SolverOptions on_cpu(Components components) {
  return {.backend = Backend::cpu, .components = components};
}

/// A problem of many parts, and the same parts alone.
struct Parts {
  Problem problem;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<std::uint64_t> seeds;

  void add(std::size_t kind, std::uint64_t seed) {
    Random random(seed);
    memory.push_back(std::make_unique<Memory>());
    seeds.push_back(seed);
    kKinds[kind](problem, *memory.back(), random);
  }
};

struct Alone {
  std::vector<double> x;
  Termination termination = Termination::FAILURE;
  int successful = 0, unsuccessful = 0;
  double cost = 0;
  std::string message;
};

Alone solve_alone(std::size_t kind, std::uint64_t seed, const SolverOptions& options) {
  Problem problem;
  Memory memory;
  Random random(seed);
  kKinds[kind](problem, memory, random);
  Alone out;
  try {
    const Summary summary = solve(problem, options);
    out.termination = summary.termination;
    out.successful = summary.num_successful_steps;
    out.unsuccessful = summary.num_unsuccessful_steps;
    out.cost = summary.final_cost;
    out.message = summary.message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NonFinite);
    out.message = error.what();
  }
  out.x = numbers_of(memory);
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 const std::string& which) {
  ASSERT_EQ(got.size(), expected.size()) << which;
  for (std::size_t k = 0; k < got.size(); ++k)
    EXPECT_NEAR(got[k], expected[k], 1e-9 * std::max(1.0, std::abs(expected[k])))
        << which << ", unknown " << k;
}

/// Alignments have arrays of their own here, of which few may be on manifolds.
std::size_t kind_of(std::size_t k) {
  const std::size_t kind = k % kKindCount;
  return kind == 5 && k >= 90 ? 0 : kind;
}

TEST(Components, EachEndsLikeItsOwnSolve) {
  constexpr std::size_t kCount = 2000;
  Parts parts;
  for (std::size_t k = 0; k < kCount; ++k) parts.add(kind_of(k), 1000 + k);
  const Summary summary = solve(parts.problem, on_cpu(Components::separate));
  const ComponentsSummary& all = summary.components;
  ASSERT_TRUE(all.separate);
  ASSERT_EQ(all.count, kCount);
  EXPECT_EQ(all.termination.size(), kCount);
  std::size_t converged = 0, other_steps = 0;
  double cost = 0;
  for (std::size_t k = 0; k < kCount; ++k) {
    const std::size_t kind = kind_of(k);
    const Alone alone = solve_alone(kind, parts.seeds[k], on_cpu(Components::together));
    const std::string which = "component " + std::to_string(k) + " of kind " +
                              std::to_string(kind) + ": " + alone.message;
    EXPECT_EQ(name(all.termination[k]), name(alone.termination)) << which;
    // Rounding decides where residuals vanish, and a solve of its own is confirmed by a step
    // without damping.
    if (all.successful_steps[k] != alone.successful ||
        all.unsuccessful_steps[k] != alone.unsuccessful)
      ++other_steps;
    expect_near(numbers_of(*parts.memory[k]), alone.x, which);
    converged += all.termination[k] == Termination::CONVERGENCE ? 1 : 0;
    cost += alone.cost;
    if (HasFailure()) FAIL() << "the first component that differs";
  }
  EXPECT_LE(other_steps, kCount / 15);
  EXPECT_NEAR(summary.final_cost, cost, 1e-9 * cost);
  EXPECT_EQ(summary.termination, Termination::FAILURE);  // the starts without a value
  EXPECT_GT(converged, kCount * 9 / 10);
  EXPECT_NE(summary.message.find(std::to_string(converged) + " of 2000 components converged"),
            std::string::npos)
      << summary.message;
}

// Columns that are nearly parallel take the step from the rows. It is 0 where a bound holds an
// unknown, however small its gradient is: x begins on its bound, and leaves it if its own minimum
// is inside. A lower bound and its mirror image take the same steps.
TEST(Components, StepsFromRowsLeaveUnknownsOnBounds) {
  constexpr std::size_t kCount = 40;
  for (const double apart : {1e-5, 1e-7, 1e-9}) {
    std::map<bool, std::vector<int>> steps;  // by where the minimum of x is
    for (const auto& [side, least] :         // of the bound where x may be, and its own minimum
         {std::pair(1.0, -0.5), {1.0, 0.5}, {-1.0, 0.5}, {-1.0, -0.5}}) {
      SCOPED_TRACE(testing::Message() << apart << " " << side << " " << least);
      Problem problem;
      Memory memory;
      for (std::size_t k = 0; k < kCount; ++k) {
        const double y = side * (3 + 0.1 * static_cast<double>(k));
        const Parameters p = add_block(problem, memory, {0, y, side * 2});
        if (side > 0)
          problem.set_lower_bound(p, 0, 0, 0);
        else
          problem.set_upper_bound(p, 0, 0, 0);
        problem.add_residual(p(0, 0) + p(0, 1) + p(0, 2) - 2 * side);
        problem.add_residual(apart * (p(0, 0) + p(0, 1) - p(0, 2) - side));
        problem.add_residual(1e-3 * (p(0, 0) - least));
      }
      const Summary summary = solve(problem, on_cpu(Components::separate));
      ASSERT_TRUE(summary.components.separate);
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
      const double x = side * least > 0 ? least : 0;
      const std::vector<int>& taken = summary.components.successful_steps;
      EXPECT_EQ(steps.try_emplace(x != 0, taken).first->second, taken);
      for (std::size_t k = 0; k < kCount; ++k) {
        EXPECT_NEAR(memory[k][0], x, std::abs(1e-6 * x)) << k;
        EXPECT_NEAR(memory[k][0] + memory[k][1] + memory[k][2], 2 * side, 1e-6) << k;
        EXPECT_TRUE(x != 0 || summary.components.unsuccessful_steps[k] == 0) << k;
      }
    }
  }
}

// Whatever is beside it, and in whatever order its kinds of residuals were first seen.
TEST(Components, PortableBitsAreThoseOfItsOwnSolve) {
  constexpr std::size_t kCount = 600;
  SolverOptions options = on_cpu(Components::separate);
  options.bits = codegen::Bits::portable;
  Parts parts;
  for (std::size_t k = kCount; k-- > 0;) parts.add(kind_of(k), 70'000 + k);
  const Summary summary = solve(parts.problem, options);
  const ComponentsSummary& all = summary.components;
  ASSERT_EQ(all.count, kCount);
  for (std::size_t c = 0; c < kCount; ++c) {
    const std::size_t kind = kind_of(kCount - 1 - c);
    const Alone alone = solve_alone(kind, parts.seeds[c], options);
    SCOPED_TRACE("component " + std::to_string(c) + " of kind " + std::to_string(kind));
    EXPECT_EQ(name(all.termination[c]), name(alone.termination));
    EXPECT_EQ(all.successful_steps[c], alone.successful);
    EXPECT_EQ(all.unsuccessful_steps[c], alone.unsuccessful);
    EXPECT_EQ(numbers_of(*parts.memory[c]), alone.x);
  }
}

TEST(Components, PosesOfOneArrayEndLikeTheirOwnSolves) {
  constexpr std::size_t kPoses = 150;
  std::vector<double> rotations, shifts(3 * kPoses, 0.0), alone_rotations, alone_shifts = shifts;
  Random starts(11);
  for (std::size_t k = 0; k < kPoses; ++k)
    for (const double v : random_rotation(starts)) rotations.push_back(v);
  alone_rotations = rotations;
  Problem problem;
  const Parameters q = problem.add_parameters(rotations, 4), p = problem.add_parameters(shifts, 3);
  problem.set_manifold(q, Manifold::quaternion());
  for (std::size_t k = 0; k < kPoses; ++k) {
    Random random(k);
    add_pose(problem, q, p, k, random);
  }
  const Summary summary = solve(problem, on_cpu(Components::automatic));
  ASSERT_TRUE(summary.components.separate) << summary.components.why;
  EXPECT_EQ(summary.components.groups, 1U);
  EXPECT_EQ(summary.components.largest, 6U);
  for (std::size_t k = 0; k < kPoses; ++k) {
    Problem one;
    const std::span<double> at(&alone_rotations[4 * k], 4), to(&alone_shifts[3 * k], 3);
    const Parameters rotation = one.add_parameters(at, 4), shift = one.add_parameters(to, 3);
    one.set_manifold(rotation, Manifold::quaternion());
    Random random(k);
    add_pose(one, rotation, shift, 0, random);
    const Summary expected = solve(one, on_cpu(Components::together));
    EXPECT_EQ(summary.components.termination[k], expected.termination) << k;
    EXPECT_NEAR(summary.components.final_cost[k], expected.final_cost, 1e-9 * expected.final_cost);
  }
  expect_near(rotations, alone_rotations, "rotations");
  expect_near(shifts, alone_shifts, "shifts");
}

/// Many curves beside one chain of this many unknowns.
struct Mixed {
  Problem problem;
  Memory memory;
  std::vector<double> chain;
  Parameters x;

  Mixed(std::size_t curves, std::size_t unknowns) : chain(unknowns, 1.0) {
    Random random(5);
    for (std::size_t k = 0; k < curves; ++k) add_curve(problem, memory, random);
    x = problem.add_parameters(chain, 1, "chain");
    for (std::size_t k = 0; k + 1 < unknowns; ++k)
      problem.add_residual(x.scalar(k + 1) - sin(x.scalar(k)) - 0.1);
    problem.add_residual(x.scalar(0) - 0.5);
  }
};

TEST(Components, AutomaticCountsThemAndTheirUnknowns) {
  const struct {
    std::size_t curves, chain;
    bool separate;
    std::string why;
  } rows[] = {
      {31, 64, true,
       "32 components of at most 64 unknowns; separate from 32 on, with up to 64 unknowns each"},
      {30, 64, false, "31 components of at most 64 unknowns; separate from 32 on"},
      {40, 65, false, "a component has more than 64 unknowns"},
  };
  for (const auto& row : rows) {
    Mixed mixed(row.curves, row.chain);
    const Summary summary = solve(mixed.problem, on_cpu(Components::automatic));
    EXPECT_EQ(summary.components.separate, row.separate) << row.why;
    EXPECT_EQ(summary.components.why, row.why);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    const std::string decision = row.separate ? "separate" : "together";
    EXPECT_NE(summary.full_report().find(decision + "\n  why: " + row.why), std::string::npos)
        << summary.full_report();
    EXPECT_NE(to_json(summary).find("\"solved\": \"" + decision), std::string::npos);
  }
}

/// A watch changes nothing; a callback, which may end the solve, asks for common steps.
TEST(Components, AWatchIsToldAndDecidesNothing) {
  Parts parts;
  for (std::size_t k = 0; k < 200; ++k) parts.add(0, k);
  std::size_t calls = 0, done = 0, count = 0, iterations = 0;
  const SolveWatch watch([&](const SolveProgress& progress) {
    ++calls;
    done = std::max(done, progress.components_done);
    count = progress.components;
    iterations += progress.iteration != nullptr ? 1 : 0;
  });
  SolverOptions options = on_cpu(Components::automatic);
  options.threads = 1;  // of several, the last one to end may find another telling
  EXPECT_TRUE(solve(parts.problem, options).components.separate);
  EXPECT_GE(calls, 1u);
  EXPECT_EQ(done, 200u);
  EXPECT_EQ(count, 200u);
  calls = 0;
  Parts one;
  one.add(0, 0);
  SolverOptions alone = options;
  alone.components = Components::separate;
  solve(one.problem, alone);
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(iterations, 0u);
  options.components = Components::together;
  const Summary together = solve(parts.problem, options);
  EXPECT_EQ(iterations, together.iterations.size());
  options.components = Components::automatic;
  options.callback = [](const IterationSummary&) { return CallbackReturn::SOLVER_CONTINUE; };
  EXPECT_FALSE(solve(parts.problem, options).components.separate);
}

TEST(Components, AWatchEndsThemAndDecidesNothing) {
  const auto asked = [](Components components, std::size_t steps) {
    Parts parts;
    for (std::size_t k = 0; k < 200; ++k) parts.add(0, k);
    std::atomic<std::size_t> left = steps;
    const SolveWatch watch({}, [&] { return left == 0 || --left == 0; });
    return solve(parts.problem, on_cpu(components));
  };
  const Summary whole = asked(Components::automatic, 1U << 30U);
  EXPECT_TRUE(whole.components.separate);
  EXPECT_EQ(whole.termination, Termination::CONVERGENCE) << whole.message;
  for (const Components components : {Components::automatic, Components::together}) {
    const Summary ended = asked(components, 2);
    EXPECT_EQ(ended.components.separate, components == Components::automatic);
    EXPECT_EQ(ended.termination, Termination::USER_SUCCESS) << ended.message;
    EXPECT_NE(ended.message.find("interrupted"), std::string::npos) << ended.message;
    EXPECT_LE(ended.final_cost, ended.initial_cost);
  }
}

TEST(Components, OneHugeBesideManySmall) {
  Mixed mixed(50, 300);
  const Summary summary = solve(mixed.problem, on_cpu(Components::separate));
  ASSERT_TRUE(summary.components.separate);
  EXPECT_EQ(summary.components.count, 51U);
  EXPECT_EQ(summary.components.groups, 2U);
  EXPECT_EQ(summary.components.largest, 300U);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  // Every residual of the chain can be 0.
  EXPECT_NEAR(mixed.chain[0], 0.5, 1e-8);
  for (std::size_t k = 0; k + 1 < mixed.chain.size(); ++k)
    EXPECT_NEAR(mixed.chain[k + 1], std::sin(mixed.chain[k]) + 0.1, 1e-8);
}

TEST(Components, OneWithoutAValueFailsAlone) {
  Parts parts;
  for (std::size_t k = 0; k < 40; ++k) parts.add(k == 17 ? 7 : 0, k);
  const std::vector<double> start = numbers_of(*parts.memory[17]);
  const Summary summary = solve(parts.problem, on_cpu(Components::automatic));
  ASSERT_TRUE(summary.components.separate) << summary.components.why;
  for (std::size_t k = 0; k < 40; ++k)
    EXPECT_EQ(summary.components.termination[k],
              k == 17 ? Termination::FAILURE : Termination::CONVERGENCE)
        << k;
  EXPECT_EQ(numbers_of(*parts.memory[17]), start);
  EXPECT_EQ(summary.termination, Termination::FAILURE);
  EXPECT_EQ(summary.message,
            "39 of 40 components converged; 1 ended with FAILURE: residuals or derivatives are not "
            "finite (the first is component 17)");
}

TEST(Components, SameBitsForAnyNumberOfThreads) {
  std::vector<std::vector<double>> results;
  for (const int threads : {1, 2}) {
    Parts parts;
    for (std::size_t k = 0; k < 300; ++k) parts.add(k % 5, k);
    SolverOptions options = on_cpu(Components::separate);
    options.threads = threads;
    solve(parts.problem, options);
    std::vector<double>& all = results.emplace_back();
    for (const auto& memory : parts.memory)
      for (const double v : numbers_of(*memory)) all.push_back(v);
  }
  EXPECT_EQ(results[0], results[1]);
}

// Numbers of the interpreter's lanes are f64: a smaller precision is for devices.
TEST(Components, AnyPrecisionIsF64OnTheCpu) {
  std::vector<std::vector<double>> results;
  const struct {
    Components components;
    Precision precision;
  } rows[] = {{Components::separate, Precision::f64},
              {Components::separate, Precision::mixed},
              {Components::separate, Precision::f32},
              {Components::automatic, Precision::f32}};
  for (const auto& row : rows) {
    Parts parts;
    for (std::size_t k = 0; k < 100; ++k) parts.add(k % 5, k);
    SolverOptions options = on_cpu(row.components);
    options.precision = row.precision;
    const Summary summary = solve(parts.problem, options);
    EXPECT_TRUE(summary.components.separate);
    EXPECT_EQ(summary.precision, Precision::f64);
    std::vector<double>& all = results.emplace_back();
    for (const auto& memory : parts.memory) {
      const std::vector<double> numbers = numbers_of(*memory);
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
  }
  for (const std::vector<double>& one : results) EXPECT_EQ(results[0], one);
}

/// One residual of a = p + q₀ + 3 q₁ in the second block leaves two directions open. Where units do
/// not matter, the unknowns of a block that can stand for each other move along the gradient, and
/// otherwise along that of unknowns with columns of norm 1.
TEST(Components, UndeterminedUnknownsMoveAlongTheirGradient) {
  for (const bool scale_free : {true, false}) {
    constexpr std::size_t kCount = 40;
    std::vector<double> p(kCount), q;
    Problem problem;
    const Parameters first = problem.add_parameters(p, 1);
    for (std::size_t k = 0; k < kCount; ++k)
      q.insert(q.end(), {0.04 * static_cast<double>(k), -0.2, 0.01 * static_cast<double>(k)});
    const std::vector<double> start = q;
    const Parameters second = problem.add_parameters(q, 3);
    for (std::size_t k = 0; k < kCount; ++k) {
      problem.add_residual(first.scalar(k) - second(k, 2));
      problem.add_residual(2.0 * second(k, 2) - 0.7);
      problem.add_residual(exp(0.3 * (second(k, 0) + 3.0 * second(k, 1))) - 2.0);
    }
    SolverOptions options = on_cpu(Components::separate);
    options.scale_free = scale_free;
    options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance = 1e-14;
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    for (std::size_t k = 0; k < kCount; ++k) {
      const double a = q[3 * k] - start[3 * k], b = q[3 * k + 1] - start[3 * k + 1];
      EXPECT_NEAR(q[3 * k] + 3 * q[3 * k + 1], std::log(2) / 0.3, 1e-6) << k;
      EXPECT_NEAR(scale_free ? b - 3 * a : 3 * b - a, 0, 1e-6) << k << ", " << scale_free;
    }
  }
}

/// The same of blocks of several unknowns, in which a residual reads sums with different weights.
TEST(Components, UndeterminedSumsMoveAlongTheirGradient) {
  constexpr std::size_t kCount = 20;
  for (const std::size_t width : {2, 3, 16}) {
    std::vector<double> q(width * kCount), weights;
    for (std::size_t k = 0; k < kCount; ++k) q[width * k] = 0.04 * static_cast<double>(k);
    for (std::size_t j = 0; j < width; ++j) weights.push_back(j % 2 == 0 ? 1 : 3);
    const std::vector<double> start = q;
    Problem problem;
    const Parameters p = problem.add_parameters(q, static_cast<int>(width));
    for (std::size_t k = 0; k < kCount; ++k) {
      Value sum = literal(0.0);
      for (std::size_t j = 0; j < width; ++j) sum = sum + weights[j] * p(k, static_cast<int>(j));
      problem.add_residual(exp(0.3 * sum) - 2.0);
    }
    EXPECT_EQ(solve(problem, on_cpu(Components::separate)).termination, Termination::CONVERGENCE);
    for (std::size_t k = 0; k < kCount; ++k) {
      const double first = q[width * k] - start[width * k];
      for (std::size_t j = 1; j < width; ++j)
        EXPECT_NEAR(q[width * k + j] - start[width * k + j], weights[j] * first, 1e-6) << k;
    }
  }
}

/// Chains of pairs whose columns are nearly parallel: the squares in JᵀJ say nothing about their
/// differences, which are 1. The largest chain whose rows are asked instead has 32 unknowns.
TEST(Components, TheLargestSmallOnesKnowTheirRows) {
  constexpr double kApart = 3e-9;
  for (const std::size_t size : {30, 32}) {
    std::vector<double> x(3 * size, 0.0);
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    for (std::size_t k = 0; k < x.size(); k += 2) {
      problem.add_residual(p.scalar(k) + p.scalar(k + 1) - 2.0);
      problem.add_residual(kApart * (p.scalar(k) - p.scalar(k + 1) - 1.0));
      if (k % size > 0)
        problem.add_residual(p.scalar(k) + p.scalar(k + 1) - p.scalar(k - 1) - p.scalar(k - 2));
    }
    SolverOptions options = on_cpu(Components::separate);
    options.initial_trust_region_radius = 1e16;
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.components.count, 3u);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    for (std::size_t k = 0; k < x.size(); k += 2) {
      EXPECT_NEAR(x[k], 1.5, 1e-5) << size << ", " << k;
      EXPECT_NEAR(x[k + 1], 0.5, 1e-5) << size << ", " << k;
    }
  }
}

/// Squares of residuals that underflow have neither a cost nor a gradient; those of derivatives
/// hide a gradient.
TEST(Components, SquaresThatUnderflowAreNoEnd) {
  for (const auto& [factor, offset] : {std::pair(1e-200, 0.0), {1e-170, 1.0}, {1.0, 0.0}}) {
    std::vector<double> x(5, 3.0);
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    for (std::size_t k = 0; k < x.size(); ++k)
      problem.add_residual(factor * (p.scalar(k) - 1.0) + offset);
    const Summary summary = solve(problem, on_cpu(Components::separate));
    EXPECT_EQ(summary.termination == Termination::CONVERGENCE, factor == 1) << summary.message;
    EXPECT_EQ(x[2] == 3, factor != 1);
  }
}

enum class Chain { plain, bounded, pairs };

/// Exponentials whose columns become small beside their first norms, in chains of this size or in
/// pairs that are nearly parallel, after four steps: the unknowns of the first chain.
std::vector<double> solve_chains(Chain kind, std::size_t size, std::size_t copies,
                                 Components components) {
  std::vector<double> x(copies * size, 3.0);
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double at = static_cast<double>(k % size) / static_cast<double>(size);
    const bool first = k % size == 0;
    if (kind != Chain::pairs) problem.add_residual(exp(p.scalar(k)) - 1.0 - 0.1 * at);
    if (kind == Chain::bounded) problem.set_bounds(p, k, 0, -100, 100);
    if (first) continue;
    const Value step = p.scalar(k) - p.scalar(k - 1);
    if (kind != Chain::pairs) {
      problem.add_residual(0.1 * step - at);
    } else {
      problem.add_residual(exp(p.scalar(k)) + exp(p.scalar(k - 1)) - 1.0 - 0.1 * at);
      problem.add_residual(3e-8 * (step - 1.0));
    }
  }
  SolverOptions options = on_cpu(components);
  options.linear_solver = LinearSolver::cholesky;
  options.initial_trust_region_radius = kind == Chain::pairs ? 1e16 : 1;
  options.max_iterations = 4;
  const Summary summary = solve(problem, options);
  EXPECT_EQ(summary.components.separate, components == Components::separate);
  x.resize(size);
  return x;
}

/// The damping of a small system keeps the norms of the start, and the largest of these have 32
/// unknowns. Steps of pairs are taken from the rows.
TEST(Components, TheLargestSmallOnesTakeTheStepsOfTheirOwnSolves) {
  for (const std::size_t size : {30, 31, 32, 33, 34}) {
    for (const Chain kind : {Chain::plain, Chain::bounded, Chain::pairs}) {
      if (kind == Chain::pairs && size > 32) continue;  // their rows are not asked
      expect_near(solve_chains(kind, size, 3, Components::separate),
                  solve_chains(kind, size, 1, Components::together),
                  std::to_string(size) + ", kind " + std::to_string(static_cast<int>(kind)));
    }
  }
}

TEST(Components, NumbersOfLanesAreWhole) {
  for (const int unknowns : {1, 2, 3, 5, 8, 13, 21, 34}) {
    std::vector<double> x(static_cast<std::size_t>(unknowns) * 40, 1.0);
    Problem problem;
    const Parameters p = problem.add_parameters(x, unknowns);
    for (int k = 0; k < 40; ++k) {
      Value sum = literal(0.0);
      for (int j = 0; j < unknowns; ++j) sum = sum + p(k, j);
      problem.add_residual(sum - 1.0);
    }
    const ProblemModel model = make_model("test", problem);
    ComponentSearch search(model.model);
    const ComponentGroups groups = search.groups();
    ASSERT_EQ(groups.groups.size(), 1u);
    const SolverOptions options;
    const LaneProgram program(groups.groups[0], options, {}, {});
    for (const std::size_t count : {1u, 40u, 100'000u}) {
      const std::size_t lanes = program.lanes(count);
      EXPECT_GT(lanes, 0u);
      EXPECT_EQ(lanes % runtime::cpu::kLanes, 0u) << unknowns << ", " << count;
    }
  }
}

/// Two states by Heun's steps, with rows at each step, and one at the end with data from the last
/// to the first: 30 simulations of `steps` steps.
void add_simulations(Problem& problem, const Parameters& p, int steps, bool at_end) {
  Random random(11);
  for (int k = 0; k < 30; ++k) {
    const Value a = p(k, 0), b = p(k, 1), shared = exp(0.1 * a);
    Value u = literal(1.0), v = a * 0.2;
    std::vector<Value> rows;
    for (int i = 0; i < steps; ++i) {
      const Value du = v - b * sin(u), dv = shared - a * u;
      const Value u1 = u + 0.01 * du, v1 = v + 0.01 * dv;
      u = u + 0.005 * (du + v1 - b * sin(u1));
      v = v + 0.005 * (dv + shared - a * u1);
      const double measured = std::cos(0.01 * (steps - i)) + normal(random, 0.05);
      if (!at_end) rows.push_back(u - v * 0.1 - measured);
    }
    if (at_end) rows = {u - 0.3, v - 0.2, 0.1 * (a - 1.0)};
    problem.add_residual(rows);
  }
}

TEST(Components, StepsOfSimulationsAreStoredOnce) {
  for (const bool at_end : {false, true}) {
    std::vector<double> found[2];
    double costs[2];
    for (const Components components : {Components::together, Components::separate}) {
      const auto which = static_cast<std::size_t>(components == Components::separate);
      found[which].assign(60, 0.9);
      Problem problem;
      add_simulations(problem, problem.add_parameters(found[which], 2), 150, at_end);
      SolverOptions options = on_cpu(components);
      options.max_iterations = 200;
      const Summary summary = solve(problem, options);
      EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
      costs[which] = summary.final_cost;
    }
    EXPECT_NEAR(costs[1], costs[0], 1e-8 * costs[0]);
    for (std::size_t i = 0; i < 60; ++i) EXPECT_NEAR(found[1][i], found[0][i], 1e-3) << i;

    std::size_t nodes[2];
    for (const int times : {1, 2}) {
      std::vector<double> x(60, 0.9);
      Problem problem;
      add_simulations(problem, problem.add_parameters(x, 2), 150 * times, at_end);
      const ProblemModel model = make_model("test", problem);
      ComponentSearch search(model.model);
      const ComponentGroups groups = search.groups();
      ASSERT_EQ(groups.groups.size(), 1u);
      const LaneKernel kernel(groups.groups[0].kernels.at(0), codegen::Bits::native);
      EXPECT_TRUE(kernel.is_rolled());
      nodes[times - 1] = 0;
      for (const LanePart& part : kernel.parts()) nodes[times - 1] += part.program.nodes.size();
    }
    EXPECT_LT(nodes[1], nodes[0] + 10) << at_end;
  }
}

/// Keeps the results of lanes by component.
struct LaneEnds final : ComponentSink {
  explicit LaneEnds(std::size_t count) : results(count), x(count) {}
  void finish(const ComponentGroup& /*group*/, std::size_t component, std::span<const double> at,
              const ComponentResult& result) override {
    results.at(component) = result;
    x.at(component).assign(at.begin(), at.end());
  }
  std::vector<ComponentResult> results;
  std::vector<std::vector<double>> x;
};

/// Minima of a device in f64 keep the verdict that they claim, without a step. One that claims it
/// elsewhere, with the cost there or another one, goes on to the minimum, and so does one in f32.
TEST(Components, MinimaOfADeviceInF64NeedNoStep) {
  constexpr std::size_t kCount = 4;
  std::vector<double> start(2 * kCount, 1.0);
  Problem problem;
  const Parameters p = problem.add_parameters(start, 2);
  for (std::size_t k = 0; k < kCount; ++k)
    for (const double t : {0.0, 1.0, 2.0, 3.0})
      problem.add_residual(p(k, 0) * exp(p(k, 1) * (0.3 * t)) - (t + 0.1 * t * t + 1.0));
  const ProblemModel model = make_model("test", problem);
  ComponentSearch search(model.model);
  const ComponentGroups groups = search.groups();
  ASSERT_EQ(groups.groups.size(), 1u);
  SolverOptions options = on_cpu(Components::separate);
  options.function_tolerance = 1e-10;
  const LaneProgram program(groups.groups[0], options, {}, {});
  LaneSolver solver(program, program.lanes(kCount), false);
  const auto run = [&](const DeviceMinima* minima) {
    LaneEnds ends(kCount);
    solver.run(0, kCount, start, LaneSolver::Clock::now(), ends, minima);
    return ends;
  };
  const LaneEnds own = run(nullptr);
  ASSERT_GT(own.results[0].successful, 2);

  DeviceMinima minima{.x = {},
                      .initial_cost = std::vector(kCount, own.results[0].initial_cost),
                      .final_cost = std::vector(kCount, own.results[0].final_cost),
                      .end = std::vector(kCount, End::cost_change),
                      .accepted = std::vector<std::int32_t>(kCount, 7),
                      .rejected = std::vector<std::int32_t>(kCount, 1)};
  for (std::size_t k = 0; k < kCount; ++k)
    minima.x.insert(minima.x.end(), own.x[k].begin(), own.x[k].end());
  // 1 is a little beside the minimum, with a cost that belongs to another point; 2 is at the start,
  // as if that were the minimum; 3 was ended by no rule.
  minima.x[2] *= 1 + 1e-4;
  std::copy_n(start.begin() + 4, 2, minima.x.begin() + 4);
  minima.final_cost[2] = own.results[0].initial_cost;
  minima.end[3] = End::none;
  const LaneEnds ends = run(&minima);
  EXPECT_EQ(ends.results[0].end, End::cost_change);
  EXPECT_EQ(ends.results[0].successful, 7);
  EXPECT_EQ(ends.results[0].unsuccessful, 1);
  EXPECT_EQ(ends.x[0], own.x[0]);
  for (const std::size_t k : {1u, 2u, 3u})
    EXPECT_GT(ends.results[k].successful + ends.results[k].unsuccessful, 8) << k;
  for (std::size_t k = 0; k < kCount; ++k) {
    EXPECT_EQ(termination(ends.results[k].end), Termination::CONVERGENCE) << k;
    EXPECT_NEAR(ends.results[k].final_cost, own.results[k].final_cost,
                1e-9 * own.results[k].final_cost);
    for (std::size_t s = 0; s < 2; ++s) EXPECT_NEAR(ends.x[k][s], own.x[k][s], 1e-5) << k;
  }

  minima.precision = Precision::mixed;
  EXPECT_GT(run(&minima).results[0].successful + run(&minima).results[0].unsuccessful, 8);
}

/// A loop of two unknowns is stored once for one row, too.
TEST(Components, StepsOfSimulationsWithOneRowAreStoredOnce) {
  std::vector<double> x(80, 0.9);
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  for (int k = 0; k < 40; ++k) {
    Value u = literal(1.0);
    for (int i = 0; i < 100; ++i) u = u + 0.01 * (p(k, 0) - p(k, 1) * sin(u));
    problem.add_residual(u - 0.3);
  }
  const ProblemModel model = make_model("test", problem);
  ComponentSearch search(model.model);
  const ComponentGroups groups = search.groups();
  ASSERT_EQ(groups.groups.size(), 1u);
  EXPECT_TRUE(LaneKernel(groups.groups[0].kernels.at(0), codegen::Bits::native).is_rolled());
}

/// e^(a / 10), which is computed before the loop of a simulation, has no tangent by b.
TEST(Components, SimulationsHandOnTangentsThatMove) {
  std::vector<double> x(60, 0.9);
  Problem problem;
  add_simulations(problem, problem.add_parameters(x, 2), 150, true);
  const ProblemModel model = make_model("test", problem);
  ComponentSearch search(model.model);
  const ComponentGroups groups = search.groups();
  ASSERT_EQ(groups.groups.size(), 1u);
  const LaneKernel kernel(groups.groups[0].kernels.at(0), codegen::Bits::native);
  ASSERT_EQ(kernel.parts().size(), 3u);
  EXPECT_LT(kernel.parts()[0].outputs.size(), kernel.carried());
}

/// The structure of a component does not depend on whether the unknown after it is fixed.
TEST(Components, FixedNeighboursMakeNoGroup) {
  std::vector<double> x(60, 3.0);
  Problem problem;
  const Parameters p = problem.add_parameters(x, 1);
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (k % 3 == 2)
      problem.set_constant(p, k);
    else
      problem.add_residual(square(p.scalar(k)) - 2.0);
  }
  const ProblemModel model = make_model("test", problem);
  ComponentSearch search(model.model);
  EXPECT_EQ(search.groups().groups.size(), 1u);
}

TEST(Components, ASmallRegionIsAnEnd) {
  for (const Components components : {Components::together, Components::separate}) {
    Parts parts;
    for (std::size_t k = 0; k < 40; ++k) parts.add(3, k);
    SolverOptions options = on_cpu(components);
    options.scale_free = false;
    options.min_trust_region_radius = 1e8;
    const Summary summary = solve(parts.problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_LE(summary.num_iterations(), 0) << summary.message;
  }
}

/// The first step in b leads to a plateau of cost ½, where its column has vanished. From where b
/// began there is only a minimum of cost 2, so the plateau is the end.
Summary solve_with_a_plateau(std::vector<double>& x, const SolverOptions& options) {
  Problem problem;
  const Parameters u = problem.add_parameters(x);
  const Value a = u[0], b = u[1];
  problem.add_residual(10.0 * (a - 1.0));
  problem.add_residual(1.5 - 0.5 * tanh(b - 20.0));
  problem.add_residual(a * b * exp(-square(b)) + (1.0 - a) * (1.0 - 0.001 * b));
  return solve(problem, options);
}

TEST(Components, TheFirstOfTwoEndsMayBeTheBetterOne) {
  for (const auto& [components, by_gradient] : {std::pair(Components::together, false),
                                                {Components::separate, false},
                                                {Components::separate, true}}) {
    std::vector<double> x = {0, 0.1};
    SolverOptions options = on_cpu(components);
    if (by_gradient) {  // second derivatives are not asked then
      options.absolute_gradient_tolerance = 1e-10;
      options.function_tolerance = 0;
    }
    const Summary summary = solve_with_a_plateau(x, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_NEAR(summary.final_cost, 0.5, 1e-9);
    EXPECT_NEAR(x[0], 1, 1e-6);
    EXPECT_GT(x[1], 50);
    EXPECT_GT(summary.num_iterations(), 4);  // it has gone on from there
  }
}

// From the plateau, where the column of b has vanished, b goes back to its start and on to the
// lower end. That one is a saddle in c, which is left as any other.
TEST(Components, TheBetterOfTwoEndsIsLeftIfItIsASaddle) {
  for (const Components components : {Components::together, Components::separate}) {
    std::vector<double> x = {0, 0.1, 0};
    Problem problem;
    const Parameters u = problem.add_parameters(x);
    const Value a = u[0], b = u[1], c = u[2];
    problem.add_residual(10.0 * (a - 1.0));
    problem.add_residual(0.5 + 0.5 * tanh(b - 20.0));
    problem.add_residual(a * b * exp(-square(b)) + (1.0 - a) * (1.0 - 0.001 * b));
    problem.add_residual(1e-3 * (square(c) - exp(-square(b))));
    SolverOptions options = on_cpu(components);
    options.function_tolerance = 1e-14;
    const Summary summary = solve(problem, options);
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_NEAR(x[1], 0, 1e-6);
    EXPECT_NEAR(std::abs(x[2]), 1, 1e-6);
    EXPECT_NEAR(summary.final_cost, 0, 1e-12);
  }
}

// Wherever it comes, a limit leaves the best point so far.
TEST(Components, LimitsLeaveTheBetterOfTwoEnds) {
  for (const Components components : {Components::together, Components::separate}) {
    double before = std::numeric_limits<double>::infinity();
    for (int most = 1; most < 20; ++most) {
      std::vector<double> x = {0, 0.1};
      SolverOptions options = on_cpu(components);
      options.max_iterations = most;
      const Summary summary = solve_with_a_plateau(x, options);
      EXPECT_LE(summary.final_cost, before * (1 + 1e-12)) << most;
      before = summary.final_cost;
    }
    EXPECT_NEAR(before, 0.5, 1e-9);
  }
}

TEST(Components, WhatTheyDoNotKnowIsRefusedByName) {
  const auto message = [](const SolverOptions& options, bool energy, bool constraint = false) {
    Parts parts;
    for (std::size_t k = 0; k < 40; ++k) parts.add(0, k);
    std::vector<double> y = {1};
    const Parameters p = parts.problem.add_parameters(y, 1);
    if (energy) parts.problem.add_energy(square(p.scalar(0)));
    if (constraint) parts.problem.add_equality(p.scalar(0) - 1.0);
    try {
      solve(parts.problem, options);
      return std::string("no error");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Unsupported);
      return std::string(error.what());
    }
  };
  const std::string begin = "solve: components separate does not know ",
                    end = "; use components automatic or together";
  SolverOptions options = on_cpu(Components::separate);
  options.linear_solver = LinearSolver::pcg;
  EXPECT_EQ(message(options, false), begin + "linear_solver pcg" + end);
  options = on_cpu(Components::separate);
  options.method = Method::dogleg;
  EXPECT_EQ(message(options, false), begin + "method dogleg" + end);
  options = on_cpu(Components::separate);
  options.method = Method::lbfgs;
  EXPECT_EQ(message(options, true), begin + "method lbfgs" + end);
  options = on_cpu(Components::separate);
  EXPECT_EQ(message(options, false, true), begin + "constraints" + end);
  // Automatic goes together instead.
  options.components = Components::automatic;
  EXPECT_EQ(message(options, true), "no error");
}

TEST(Components, WhatTheirResidualsReadMayBeRefusedByName) {
  const auto message = [](bool fixed, bool manifold, double tolerance) {
    Parts parts;
    for (std::size_t k = 0; k < 40; ++k) parts.add(0, k);
    std::vector<double> y = {1}, q = {1, 0, 0, 0};
    const Parameters p = parts.problem.add_parameters(y, 1), r = parts.problem.add_parameters(q, 4);
    if (fixed) parts.problem.set_constant(p, 0);
    if (manifold) parts.problem.set_manifold(r, Manifold::quaternion());
    parts.problem.add_residual(p.scalar(0) - 3.0);
    parts.problem.add_residual(r.quat(0).x - 0.1);
    SolverOptions options = on_cpu(Components::separate);
    options.absolute_gradient_tolerance = tolerance;
    try {
      solve(parts.problem, options);
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message(false, true, 0), "no error");
  EXPECT_EQ(message(false, false, 1e-6), "no error");
  EXPECT_NE(message(true, true, 0).find("residuals read no free unknown"), std::string::npos);
  EXPECT_NE(message(false, true, 1e-6).find("manifolds with tolerances"), std::string::npos);
}

TEST(Components, LimitsAreEachComponents) {
  Parts parts;
  for (std::size_t k = 0; k < 50; ++k) parts.add(3, k);
  SolverOptions options = on_cpu(Components::automatic);
  options.max_iterations = 2;
  const Summary summary = solve(parts.problem, options);
  ASSERT_TRUE(summary.components.separate);
  for (std::size_t k = 0; k < 50; ++k)
    EXPECT_LE(summary.components.successful_steps[k] + summary.components.unsuccessful_steps[k], 2);
  EXPECT_EQ(summary.termination, Termination::NO_CONVERGENCE);
  EXPECT_GT(summary.num_iterations(), 50);
}

// Whatever an end asks for beyond it, and however many steps were refused.
TEST(Components, NoLimitIsPassed) {
  constexpr std::size_t kCount = 300;
  for (int most = 1; most < 40; ++most) {
    Parts parts;
    for (std::size_t k = 0; k < kCount; ++k) parts.add(kind_of(k), 5000 + k);
    SolverOptions options = on_cpu(Components::separate);
    options.max_iterations = most;
    const Summary summary = solve(parts.problem, options);
    for (std::size_t k = 0; k < kCount; ++k) {
      const ComponentsSummary& all = summary.components;
      ASSERT_LE(all.successful_steps[k] + all.unsuccessful_steps[k], most) << k;
    }
  }
}

/// A trend in powers of the year, whose columns depend on each other nearly: steps without damping
/// contradict verdicts, but not beyond the limit of steps.
TEST(Components, ContradictedVerdictsKeepTheLimit) {
  const auto steps = [](int most) {
    std::vector<double> x(4, 1.0);
    Problem problem;
    const Parameters p = problem.add_parameters(x, 1);
    for (int year = 1990; year < 2020; ++year) {
      const double t = (year - 2005) / 15.0;
      Value sum = -(3 + 2 * t - 5 * t * t + t * t * t + 0.3 * std::sin(12.9898 * year));
      for (std::size_t k = 0; k < x.size(); ++k) sum = sum + p[k] * std::pow(year, k);
      problem.add_residual(sum);
    }
    SolverOptions options = on_cpu(Components::separate);
    options.max_iterations = most;
    const Summary summary = solve(problem, options);
    return summary.components.successful_steps.at(0) + summary.components.unsuccessful_steps.at(0);
  };
  const int all = steps(200);
  ASSERT_LT(all, 200);
  for (int most = 1; most <= all; ++most) EXPECT_EQ(steps(most), most);
}

std::vector<Value> rows_of_line(const One& one) {
  std::vector<Value> rows;
  for (std::size_t i = 0; i < one.entries(0); ++i)
    rows.push_back(one.x(0) + one.x(1) * one.data(0, i) - one.data(1, i));
  return rows;
}

/// Lines y = a + b t, whose (JᵀJ)⁻¹ is known.
TEST(SolveMany, FitsLinesWithTheirCovariances) {
  constexpr std::size_t kCount = 500, kPoints = 9;
  Random random(3);
  std::vector<double> starts(2 * kCount), t, y;
  for (std::size_t k = 0; k < kCount; ++k) {
    for (std::size_t i = 0; i < kPoints; ++i) {
      t.push_back(uniform(random, -2, 2));
      y.push_back(normal(random, 1));
    }
  }
  SolverOptions options;
  options.component_covariances = true;
  options.function_tolerance = 1e-15;
  const Summary summary = solve_many(kCount, rows_of_line, starts, {.data = {t, y}}, options);
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  ASSERT_EQ(summary.components.covariance.size(), 4 * kCount);
  for (std::size_t k = 0; k < kCount; ++k) {
    double n = kPoints, st = 0, stt = 0, sy = 0, sty = 0;
    for (std::size_t i = k * kPoints; i < (k + 1) * kPoints; ++i) {
      st += t[i];
      stt += t[i] * t[i];
      sy += y[i];
      sty += t[i] * y[i];
    }
    const double determinant = n * stt - st * st;
    EXPECT_NEAR(starts[2 * k], (stt * sy - st * sty) / determinant, 1e-7);
    EXPECT_NEAR(starts[2 * k + 1], (n * sty - st * sy) / determinant, 1e-7);
    const double* const c = &summary.components.covariance[4 * k];
    EXPECT_NEAR(c[0], stt / determinant, 1e-9);
    EXPECT_NEAR(c[1], -st / determinant, 1e-9);
    EXPECT_NEAR(c[3], n / determinant, 1e-9);
  }
}

/// Squares in JᵀJ lose what their inverse needs: lines over times far from 0, to 1e-7 of them.
TEST(SolveMany, CovariancesOfTimesFarAway) {
  constexpr std::size_t kCount = 64, kPoints = 7;
  Random random(5);
  std::vector<double> starts(2 * kCount), t, y;
  for (std::size_t k = 0; k < kCount * kPoints; ++k) {
    t.push_back(1e8 + std::round(uniform(random, -20, 20)));
    y.push_back(normal(random, 1));
  }
  SolverOptions options;
  options.component_covariances = true;
  const Summary summary = solve_many(kCount, rows_of_line, starts, {.data = {t, y}}, options);
  for (std::size_t k = 0; k < kCount; ++k) {
    long double mean = 0, squares = 0;
    for (std::size_t i = k * kPoints; i < (k + 1) * kPoints; ++i) mean += t[i] / (1.0L * kPoints);
    for (std::size_t i = k * kPoints; i < (k + 1) * kPoints; ++i)
      squares += (t[i] - mean) * (t[i] - mean);
    const auto slope = static_cast<double>(1 / squares);
    const auto offset = static_cast<double>(1.0L / kPoints + mean * mean / squares);
    const double* const c = &summary.components.covariance[4 * k];
    EXPECT_NEAR(c[0], offset, 1e-6 * offset) << k;
    EXPECT_NEAR(c[3], slope, 1e-6 * slope) << k;
  }
}

/// One unknown, on which the residual of every second problem does not depend.
TEST(SolveMany, CovariancesOfOneUnknown) {
  constexpr std::size_t kCount = 40;
  std::vector<double> starts(kCount, 1.0), factors;
  for (std::size_t k = 0; k < kCount; ++k) factors.push_back(k % 2 == 0 ? 0.0 : 0.25);
  SolverOptions options;
  options.component_covariances = true;
  const Summary summary = solve_many(
      kCount, [](const One& one) { return std::vector<Value>{one.x(0) * one.data(0) - 2.0}; },
      starts, {.data = {factors}}, options);
  ASSERT_EQ(summary.components.covariance.size(), kCount);
  for (std::size_t k = 0; k < kCount; ++k)
    EXPECT_EQ(summary.components.covariance[k],
              k % 2 == 0 ? std::numeric_limits<double>::infinity() : 16.0)
        << k;
}

/// Two unknowns of which only the sum is known have no covariance.
TEST(SolveMany, CovariancesOfASumAreInfinite) {
  constexpr std::size_t kCount = 10;
  std::vector<double> starts(2 * kCount, 1.0), factors;
  for (std::size_t k = 0; k < kCount; ++k) factors.push_back(0.1 + static_cast<double>(k));
  SolverOptions options;
  options.component_covariances = true;
  const Summary summary = solve_many(
      kCount,
      [](const One& one) {
        const Value sum = one.x(0) + one.x(1);
        return std::vector<Value>{one.data(0) * sum - 2.0, sum, 0.3 * sum - one.data(0)};
      },
      starts, {.data = {factors}}, options);
  ASSERT_EQ(summary.components.covariance.size(), 4 * kCount);
  for (const double c : summary.components.covariance)
    EXPECT_EQ(c, std::numeric_limits<double>::infinity());
}

TEST(Positions, OfEqualStepsHaveNoList) {
  for (const std::vector<std::uint32_t>& list :
       std::initializer_list<std::vector<std::uint32_t>>{{3, 5, 7, 9}, {4}, {6, 6, 6}}) {
    const Positions positions = Positions::of(list);
    EXPECT_TRUE(positions.list.empty());
    for (std::size_t k = 0; k < list.size(); ++k) EXPECT_EQ(positions.at(k), list[k]);
  }
  for (const std::vector<std::uint32_t>& list :
       std::initializer_list<std::vector<std::uint32_t>>{{3, 5, 8}, {5, 3, 1}}) {
    const Positions positions = Positions::of(list);
    for (std::size_t k = 0; k < list.size(); ++k) EXPECT_EQ(positions.at(k), list[k]);
  }
}

TEST(SolveMany, PortableBitsAreThoseOfComponents) {
  constexpr std::size_t kCount = 70, kPoints = 9;
  Random random(4);
  std::vector<double> y, together, starts(2 * kCount, 0.5);
  for (std::size_t k = 0; k < kCount * kPoints; ++k) y.push_back(uniform(random, -1, 1));
  together = starts;
  SolverOptions options = on_cpu(Components::automatic);
  options.bits = codegen::Bits::portable;
  solve_many(
      kCount,
      [&](const One& one) {
        std::vector<Value> rows;
        for (std::size_t i = 0; i < kPoints; ++i)
          rows.push_back(one.x(0) * sin(one.x(1) * (0.3 * static_cast<double>(i))) -
                         one.data(0, i));
        rows.push_back(0.1 * one.x(1));
        return rows;
      },
      starts, {.data = {y}}, options);
  Problem problem;
  const Parameters x = problem.add_parameters(together, 2);
  problem.add_residual(0.1 * x(0, 1));  // this kind of residual comes first
  for (std::size_t k = 0; k < kCount; ++k) {
    for (std::size_t i = 0; i < kPoints; ++i)
      problem.add_residual(x(k, 0) * sin(x(k, 1) * (0.3 * static_cast<double>(i))) -
                           y[k * kPoints + i]);
    if (k > 0) problem.add_residual(0.1 * x(k, 1));
  }
  options.components = Components::separate;
  solve(problem, options);
  EXPECT_EQ(std::vector(starts.begin() + 2, starts.end()),
            std::vector(together.begin() + 2, together.end()));
  options.components = Components::automatic;
  EXPECT_FALSE(solve(problem, options).components.separate);
}

TEST(SolveMany, BoundsLossesAndNumbersOfAllProblems) {
  // min ½ρ(x − y) within [0, 1]: the nearest point.
  std::vector<double> x(100, 0.5), y;
  for (std::size_t k = 0; k < 100; ++k) y.push_back(0.05 * static_cast<double>(k) - 2);
  const Summary summary = solve_many(
      100, [](const One& one) { return std::vector<Value>{3.0 * (one.x(0) - one.data(0))}; }, x,
      {.data = {y}, .loss = Loss::huber(0.5), .lower = {0}, .upper = {1}});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  for (std::size_t k = 0; k < 100; ++k) EXPECT_NEAR(x[k], std::clamp(y[k], 0.0, 1.0), 1e-6) << k;
}

TEST(SolveMany, SolverTakesOtherNumbersAndCounts) {
  const auto line = [](const One& one) {
    std::vector<Value> rows;
    for (std::size_t i = 0; i < one.entries(0); ++i)
      rows.push_back(one.x(0) + one.x(1) * one.data(0, i) - one.data(1, i));
    return rows;
  };
  ManySolver solver(2, {3, 3}, line, {.lower = {-5, -5}, .upper = {5, 5}});
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> number(-1, 1);
  for (const std::size_t count : {40, 3, 700}) {
    std::vector<double> t(3 * count), y(3 * count), x(2 * count), once(2 * count);
    for (double& v : t) v = number(random);
    for (double& v : y) v = number(random);
    const std::array<std::span<const double>, 2> data = {t, y};
    const Summary again = solver.solve(x, data);
    solve_many(count, line, once, {.data = {t, y}, .lower = {-5, -5}, .upper = {5, 5}});
    EXPECT_EQ(again.components.count, count);
    EXPECT_EQ(again.components.final_cost.size(), count);
    EXPECT_EQ(x, once);
  }
  std::vector<double> starts(2), few(2);
  EXPECT_THROW(solver.solve(starts, std::array{std::span<const double>(few)}), Error);
  EXPECT_THROW(
      solver.solve(starts, std::array{std::span<const double>(few), std::span<const double>(few)}),
      Error);
  EXPECT_THROW(solver.solve(std::span(starts).first(1)), Error);
  EXPECT_THROW(ManySolver(0, {}, [](const One&) { return literal(1) - 1.0; }), Error);
}

TEST(SolveMany, RefusesWhatDoesNotFit) {
  const auto message = [](std::size_t count, std::vector<double> starts, const ManyOptions& many) {
    try {
      solve_many(
          count, [](const One& one) { return std::vector<Value>{one.x(0) - 1.0}; }, starts, many);
      return std::string("no error");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message(0, {1}, {}), "solve_many: expected at least one problem for 0 problems, got 0");
  EXPECT_EQ(message(3, {1, 2}, {}), "solve_many: expected as many starts for 3 problems, got 2");
  const std::vector<double> numbers = {1, 2, 3};
  EXPECT_EQ(message(2, {1, 2}, {.data = {numbers}}),
            "solve_many: expected as many numbers in array 0 of the data for 2 problems, got 3");
  EXPECT_EQ(message(2, {1, 2}, {.lower = {1.5}}),
            "solve_many: unknown 0 of problem 0 starts at 1.000000, outside its bounds [1.500000, "
            "inf]");
}

// At 0 the derivative of a square root is not finite, but the cost is.
TEST(Components, CostsCountWhereDerivativesAreNotFinite) {
  std::vector<double> x = {0, 0, 4};
  Problem problem;
  const Parameters u = problem.add_parameters(x, 1);
  const double to[] = {5, 0.5, 1};
  for (std::uint32_t k = 0; k < 3; ++k) problem.add_residual(sqrt(u.scalar(k)) - to[k]);
  const Summary summary = solve(problem, on_cpu(Components::separate));
  EXPECT_EQ(summary.termination, Termination::FAILURE);
  EXPECT_EQ(summary.initial_cost, (25 + 0.25 + 1) / 2);
  EXPECT_NEAR(summary.final_cost, (25 + 0.25) / 2, 1e-9);
}

}  // namespace
}  // namespace topograd
