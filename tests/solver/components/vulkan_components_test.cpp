// Components on a device, against those of the interpreter.
#include "../../../frontend/value/math.hpp"
#include "../../../ir/error.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/solve_many.hpp"
#include "../../../tools/problems/chains.hpp"
#include "../../support/validation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using VulkanComponents = test::VulkanTest;

SolverOptions options_of(Backend backend, Precision precision = Precision::f64) {
  SolverOptions options{.backend = backend, .precision = precision};
  options.components = Components::separate;
  options.function_tolerance = options.parameter_tolerance = 1e-13;
  options.max_iterations = 100;
  return options;
}

/// Copies of a problem with their data.
struct Copies {
  std::size_t count = 0;
  std::vector<double> starts;
  std::vector<std::vector<double>> data;
  ManyOptions many;
  std::function<std::vector<Value>(const One&)> f;
  std::function<std::vector<std::vector<Value>>(const One&)> blocks = {};  ///< instead of f

  Summary solve(std::vector<double>& x, const SolverOptions& options) const {
    ManyOptions with = many;
    for (const std::vector<double>& array : data) with.data.emplace_back(array);
    x = starts;
    return blocks ? solve_many(count, blocks, x, with, options)
                  : solve_many(count, f, x, with, options);
  }
};

/// Decays a exp(−b t) + c, each with its own times; `truth` gets a, b and c of each.
Copies decays(std::size_t count, double noise, std::vector<double>* truth = nullptr) {
  std::mt19937_64 random(3);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Copies out{.count = count, .data = {{}, {}}};
  for (std::size_t k = 0; k < count; ++k) {
    const double a = between(1, 4), b = between(0.3, 2), c = between(-1, 1);
    for (int i = 0; i < 20; ++i) {
      const double t = 0.5 * i + between(0, 0.1);
      out.data[0].push_back(t);
      out.data[1].push_back(a * std::exp(-b * t) + c + between(-noise, noise));
    }
    if (truth != nullptr) truth->insert(truth->end(), {a, b, c});
    out.starts.insert(out.starts.end(), {2, 1, 0});
  }
  out.f = [](const One& one) {
    std::vector<Value> rows;
    for (std::size_t i = 0; i < one.entries(0); ++i)
      rows.push_back(one.x(0) * exp(-one.x(1) * one.data(0, i)) + one.x(2) - one.data(1, i));
    return rows;
  };
  return out;
}

/// Terminations and costs of the interpreter, and its unknowns within `near`. Returns those of the
/// device.
std::vector<double> expect_same(const Copies& copies, const SolverOptions& on_device, double near) {
  std::vector<double> minima, lanes;
  const Summary device = copies.solve(minima, on_device);
  const Summary cpu = copies.solve(lanes, options_of(Backend::cpu));
  EXPECT_EQ(device.backend, "vulkan");
  EXPECT_GT(device.kernels_on_device, 0u);
  EXPECT_EQ(device.components.termination, cpu.components.termination) << device.message;
  for (std::size_t k = 0; k < cpu.components.initial_cost.size(); ++k) {
    const double expected = cpu.components.initial_cost[k];
    if (std::isnan(expected)) continue;
    EXPECT_NEAR(device.components.initial_cost.at(k), expected, 1e-5 * expected) << k;
  }
  std::size_t steps = 0;
  for (std::size_t k = 0; k < copies.count; ++k) {
    EXPECT_EQ(std::isnan(device.components.final_cost[k]),
              std::isnan(cpu.components.final_cost[k]));
    if (std::isnan(cpu.components.final_cost[k])) continue;
    EXPECT_NEAR(device.components.final_cost[k], cpu.components.final_cost[k],
                1e-9 * (1 + cpu.components.final_cost[k]))
        << k;
    steps += static_cast<std::size_t>(device.components.successful_steps[k]);
  }
  EXPECT_GT(steps, copies.count);
  for (std::size_t i = 0; i < minima.size(); ++i)
    EXPECT_NEAR(minima[i], lanes[i], near * std::max(1.0, std::fabs(lanes[i]))) << i;
  return minima;
}

TEST_F(VulkanComponents, ExactDataGiveTheNumbersThatTheyWereMadeFrom) {
  TG_NEEDS(float64);
  std::vector<double> truth;
  const Copies copies = decays(300, 0, &truth);
  for (const Precision precision : {Precision::f64, Precision::mixed}) {
    const std::vector<double> x = expect_same(copies, options_of(Backend::vulkan, precision), 1e-9);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], truth[i], 1e-9) << i;
  }
}

/// y' = a − b y + c sin y by Euler's steps, which `one` hands out as rows of its own or as a block.
/// With `irregular`, one step reads a number of the program where others read data.
Copies simulations(std::size_t count, std::size_t steps, bool irregular, bool as_block,
                   std::vector<double>& truth) {
  constexpr double kStep = 0.02;
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  Copies out{.count = count, .data = {{}}};
  for (std::size_t k = 0; k < count; ++k) {
    const double a = 1 + 0.1 * normal(random), b = 0.8 + 0.1 * normal(random),
                 c = 0.3 + 0.1 * normal(random);
    double y = 0.3;
    for (std::size_t i = 0; i < steps; ++i) {
      y += kStep * (a * (1 + std::sin(0.1 * static_cast<double>(i))) - b * y + c * std::sin(3 * y));
      out.data[0].push_back(y);
    }
    truth.insert(truth.end(), {a, b, c});
    out.starts.insert(out.starts.end(), {0.8, 0.6, 0.1});
  }
  out.f = [=](const One& one) {
    std::vector<Value> rows;
    Value y = literal(0.3);
    for (std::size_t i = 0; i < steps; ++i) {
      const double drive = 1 + std::sin(0.1 * static_cast<double>(i));
      y = y + kStep * (one.x(0) * drive - one.x(1) * y + one.x(2) * sin(3.0 * y));
      rows.push_back(y - one.data(0, i));
      if (irregular && i == 40) rows.back() = y * 1e-3 - 1.0;
    }
    return rows;
  };
  if (as_block) {
    out.blocks = [rows = out.f](const One& one) {
      return std::vector<std::vector<Value>>{rows(one)};
    };
    out.f = nullptr;
  }
  return out;
}

/// Solves simulations on the device in both precisions, in less time than unrolled steps compile.
void expect_loops(std::size_t steps, bool irregular, bool as_block) {
  std::vector<double> truth;
  const Copies copies = simulations(40, steps, irregular, as_block, truth);
  for (const Precision precision : {Precision::f64, Precision::mixed}) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<double> x = expect_same(copies, options_of(Backend::vulkan, precision), 1e-6);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    for (std::size_t i = 0; i < x.size() && !irregular; ++i) EXPECT_NEAR(x[i], truth[i], 1e-6) << i;
  }
}

/// Loops of simulations are loops of the kernel, whose text has one step.
TEST_F(VulkanComponents, StepsOfSimulationsAreLoops) {
  TG_NEEDS(float64);
  for (const bool as_block : {false, true}) {
    expect_loops(400, false, as_block);
    expect_loops(45, true, as_block);
  }
}

/// The cost of decay k at x.
double cost_of_decay(const Copies& copies, const std::vector<double>& x, std::size_t k) {
  double cost = 0;
  for (std::size_t i = 20 * k; i < 20 * k + 20; ++i) {
    const double model = x[3 * k] * std::exp(-x[3 * k + 1] * copies.data[0][i]) + x[3 * k + 2];
    cost += std::pow(model - copies.data[1][i], 2) / 2;
  }
  return cost;
}

/// With the device's verdicts after at most so many steps: its minima, and a failure of problem 7.
void expect_own_verdicts(const Copies& copies, const std::vector<double>& truth,
                         Precision precision, int most) {
  const double near = precision == Precision::f64 ? 1e-9 : 1e-3;
  const bool ends = most > 2;
  SolverOptions options = options_of(Backend::vulkan, precision);
  options.max_iterations = most;
  ManySolver solver(3, {20, 20}, copies.f, {.checks_ends = false}, options);
  std::vector<double> x = copies.starts;
  const std::vector<std::span<const double>> data(copies.data.begin(), copies.data.end());
  const ComponentsSummary all = solver.solve(x, data).components;
  for (std::size_t k = 0; k < copies.count; ++k) {
    if (k == 7) {
      EXPECT_EQ(all.termination[k], Termination::FAILURE);
      continue;
    }
    EXPECT_EQ(all.termination[k], ends ? Termination::CONVERGENCE : Termination::NO_CONVERGENCE);
    EXPECT_LE(all.successful_steps[k] + all.unsuccessful_steps[k], most) << k;
    const double cost = cost_of_decay(copies, x, k);
    EXPECT_NEAR(all.final_cost[k], cost, near * (1e-3 + cost)) << k;
    for (std::size_t i = 3 * k; i < 3 * k + 3 && ends; ++i)
      EXPECT_NEAR(x[i], truth[i], near * std::max(1.0, std::fabs(truth[i]))) << i;
  }
}

TEST_F(VulkanComponents, VerdictsOfTheDeviceAlone) {
  TG_NEEDS(float64);
  std::vector<double> truth;
  Copies copies = decays(300, 0, &truth);
  copies.starts[3 * 7] = std::numeric_limits<double>::quiet_NaN();
  for (const Precision precision : {Precision::f64, Precision::mixed})
    for (const int most : {100, 2}) expect_own_verdicts(copies, truth, precision, most);
}

/// A device in float32 without a step leaves the numbers of the start as they are.
TEST_F(VulkanComponents, StartsThatAreMinimaStay) {
  TG_NEEDS(float64);
  std::vector<double> x, y;
  for (int k = 0; k < 64; ++k) {
    x.push_back(0.1 * k);
    y.push_back(0.1 * k);
  }
  const std::vector<double> start = x;
  ManySolver solver(
      1, {1}, [](const One& one) { return std::vector<Value>{one.x(0) - one.data(0)}; },
      {.checks_ends = false}, options_of(Backend::vulkan, Precision::mixed));
  const Summary summary = solver.solve(x, std::array{std::span<const double>(y)});
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_EQ(summary.num_successful_steps, 0);
  EXPECT_EQ(x, start);
}

TEST_F(VulkanComponents, SummariesCountWhatIsSent) {
  TG_NEEDS(float64);
  const Copies copies = decays(64, 0.02);
  std::vector<double> x;
  const Summary summary = copies.solve(x, options_of(Backend::vulkan));
  const std::uint64_t numbers = 8 * (3 + 2 * 20) * copies.count;
  EXPECT_GE(summary.bytes_up, numbers);
  EXPECT_LE(summary.bytes_up, 4 * numbers);
  EXPECT_GE(summary.readbacks, 1u);
  EXPECT_LE(summary.readbacks, summary.submissions);
  EXPECT_EQ(summary.why.find("by the interpreter:"), std::string::npos) << summary.why;
}

/// Near a minimum whose cost is not 0, rounding of the cost hides the last digits of the unknowns.
TEST_F(VulkanComponents, NoiseBoundsAndLosses) {
  TG_NEEDS(float64);
  Copies copies = decays(100, 0.02);
  expect_same(copies, options_of(Backend::vulkan), 1e-6);
  expect_same(copies, options_of(Backend::vulkan, Precision::mixed), 1e-6);
  copies.many.loss = Loss::cauchy(0.1);
  expect_same(copies, options_of(Backend::vulkan), 1e-6);
  copies.many.lower = {0.5, 0, -0.3};
  copies.many.upper = {2.2, 1.2, 10};
  expect_same(copies, options_of(Backend::vulkan), 1e-6);
}

TEST_F(VulkanComponents, StartsWithoutAValueFailAlone) {
  TG_NEEDS(float64);
  Copies copies{.count = 70, .data = {{}}};
  for (std::size_t k = 0; k < copies.count; ++k) {
    copies.starts.push_back(k % 7 == 3 ? -1 : 1);
    copies.data[0].push_back(0.01 * static_cast<double>(k));
  }
  copies.f = [](const One& one) {
    return std::vector<Value>{log(one.x(0)) - one.data(0), 0.1 * (one.x(0) - 2.0)};
  };
  expect_same(copies, options_of(Backend::vulkan), 1e-6);
}

TEST_F(VulkanComponents, LimitsAreEachComponents) {
  TG_NEEDS(float64);
  const Copies copies = decays(64, 0.02);
  SolverOptions options = options_of(Backend::vulkan);
  options.max_iterations = 2;
  std::vector<double> x;
  const Summary summary = copies.solve(x, options);
  for (std::size_t k = 0; k < copies.count; ++k) {
    EXPECT_EQ(summary.components.termination[k], Termination::NO_CONVERGENCE);
    EXPECT_EQ(summary.components.successful_steps[k] + summary.components.unsuccessful_steps[k], 2);
  }
}

TEST_F(VulkanComponents, SeveralStructuresOfOneProblem) {
  TG_NEEDS(float64);
  const auto solved = [](Backend backend, std::vector<double>& x, std::vector<double>& y) {
    x.assign(120, 0.5);
    y.assign(40, 3);
    Problem problem;
    const Parameters p = problem.add_parameters(x, 3), q = problem.add_parameters(y, 1);
    for (std::size_t k = 0; k < p.size(); ++k) {
      const double turn = 0.1 * static_cast<double>(k);
      problem.add_residual(10.0 * (p(k, 1) - square(p(k, 0))));
      problem.add_residual({1.0 - p(k, 0), p(k, 2) - std::sin(turn)});
    }
    for (std::size_t k = 0; k < q.size(); ++k)
      problem.add_residual(square(q.scalar(k)) - 0.1 * static_cast<double>(k + 1));
    // With a coordinate that is fixed.
    std::vector<double> z(80, 2);
    const Parameters r = problem.add_parameters(z, 2);
    for (std::size_t k = 0; k < r.size(); ++k) {
      problem.set_constant(r, k, 0b10);
      problem.add_residual(r(k, 0) * r(k, 1) - static_cast<double>(k));
    }
    const Summary summary = solve(problem, options_of(backend));
    EXPECT_EQ(summary.components.groups, 3u);
    for (std::size_t k = 0; k < r.size(); ++k) {
      EXPECT_NEAR(z[2 * k], static_cast<double>(k) / 2, 1e-9) << k;
      EXPECT_EQ(z[2 * k + 1], 2) << k;
    }
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  };
  std::vector<double> x[2], y[2];
  solved(Backend::vulkan, x[0], y[0]);
  solved(Backend::cpu, x[1], y[1]);
  for (std::size_t i = 0; i < x[0].size(); ++i) EXPECT_NEAR(x[0][i], x[1][i], 1e-9) << i;
  for (std::size_t i = 0; i < y[0].size(); ++i) {
    EXPECT_NEAR(y[0][i], y[1][i], 1e-9) << i;
    EXPECT_NEAR(y[0][i], std::sqrt(0.1 * static_cast<double>(i + 1)), 1e-9) << i;
  }
}

Copies chains(std::size_t count, std::size_t unknowns) {
  problems::Chains made = problems::make_chains(count, unknowns);
  Copies out{.count = count, .data = {std::move(made.data)}};
  out.starts = std::move(made.starts);
  out.f = problems::chain_rows;
  return out;
}

TEST_F(VulkanComponents, WorkgroupsMinimiseLargeOnes) {
  TG_NEEDS(float64);
  for (const std::size_t unknowns : {17u, 40u}) {
    Copies copies = chains(40, unknowns);
    for (const Precision precision : {Precision::f64, Precision::mixed}) {
      std::vector<double> x;
      const Summary summary = copies.solve(x, options_of(Backend::vulkan, precision));
      EXPECT_EQ(summary.why.find("does not know"), std::string::npos) << summary.why;
      expect_same(copies, options_of(Backend::vulkan, precision), 1e-6);
    }
    copies.many.loss = Loss::huber(0.2);
    copies.many.lower.assign(unknowns, -0.4);
    copies.many.upper.assign(unknowns, 0.3);
    copies.many.upper[3] = 10;
    expect_same(copies, options_of(Backend::vulkan), 1e-6);
  }
}

/// The device's own verdicts and steps, which the host does not mend.
TEST_F(VulkanComponents, WorkgroupsTakeTheStepsOfTheInterpreter) {
  TG_NEEDS(float64);
  const Copies copies = chains(40, 40);
  const std::vector<std::span<const double>> data(copies.data.begin(), copies.data.end());
  for (const int most : {100, 1}) {
    SolverOptions options = options_of(Backend::vulkan);
    options.max_iterations = most;
    ManySolver on_device(40, {81}, copies.f, {.checks_ends = false}, options);
    options.backend = Backend::cpu;
    ManySolver on_cpu(40, {81}, copies.f, {}, options);
    std::vector<double> minima = copies.starts, x = copies.starts;
    const ComponentsSummary device = on_device.solve(minima, data).components;
    const ComponentsSummary cpu = on_cpu.solve(x, data).components;
    for (std::size_t k = 0; k < copies.count; ++k) {
      EXPECT_EQ(device.termination[k],
                most == 1 ? Termination::NO_CONVERGENCE : Termination::CONVERGENCE);
      EXPECT_NEAR(device.initial_cost[k], cpu.initial_cost[k], 1e-12 * cpu.initial_cost[k]);
      EXPECT_NEAR(device.final_cost[k], cpu.final_cost[k], 1e-12 * cpu.final_cost[k]) << k;
      if (most == 1) {
        EXPECT_EQ(device.successful_steps[k], cpu.successful_steps[k]) << k;
      }
    }
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(minima[i], x[i], 1e-5) << i;
  }
}

/// Blocks of one kernel over other unknowns, with fixed coordinates, and several rows in a block.
TEST_F(VulkanComponents, WorkgroupsReadUnknownsByTables) {
  TG_NEEDS(float64);
  constexpr std::size_t kPoints = 12, kCount = 40;
  const auto solved = [&](Backend backend) {
    std::vector<double> x(kCount * kPoints * 2);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double turn = 2 * 3.14159 * static_cast<double>(i / 2 % kPoints) / kPoints;
      x[i] = (i % 2 == 0 ? std::cos(turn) : std::sin(turn)) + 0.1 * std::sin(1.7 * double(i));
    }
    Problem problem;
    const Parameters p = problem.add_parameters(x, 2);
    for (std::size_t k = 0; k < kCount; ++k) {
      const auto point = [&](std::size_t i) { return p.vec2(k * kPoints + i % kPoints); };
      problem.set_constant(p, k * kPoints);
      for (std::size_t i = 0; i < kPoints; ++i) {
        problem.add_residual(norm(point(i + 1) - point(i)) - 0.5);
        const Vec2 bend = point(i) + point(i + 2) - 2.0 * point(i + 1);
        problem.add_residual({bend.x, bend.y});
      }
    }
    const Summary summary = solve(problem, options_of(backend));
    EXPECT_EQ(summary.components.groups, 1u);
    EXPECT_EQ(summary.components.largest, 2 * (kPoints - 1));
    EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
    EXPECT_EQ(summary.why.find("does not know"), std::string::npos) << summary.why;
    return std::pair(summary.components.final_cost, x);
  };
  const auto [minima, x] = solved(Backend::vulkan);
  const auto [lanes, y] = solved(Backend::cpu);
  for (std::size_t k = 0; k < kCount; ++k) EXPECT_NEAR(minima[k], lanes[k], 1e-9) << k;
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-5) << i;
}

/// A device without float64, and numbers in f32: the device works in f32, and the interpreter goes
/// on.
TEST_F(VulkanComponents, WithoutFloat64) {
  const Copies copies = decays(100, 0.02);
  SolverOptions options = options_of(Backend::vulkan);
  options.restrictions.mask = "intel_no_f64";
  for (const Precision precision : {Precision::f64, Precision::mixed, Precision::f32}) {
    options.precision = precision;
    expect_same(copies, options, 1e-6);
  }
}

TEST_F(VulkanComponents, SharedMemoryIsALimit) {
  const Copies copies = chains(40, 45);
  SolverOptions options = options_of(Backend::vulkan, Precision::mixed);
  options.restrictions.shared_memory_bytes = 9'900;
  std::vector<double> x;
  try {
    copies.solve(x, options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "solve: backend vulkan does not know components of 45 unknowns in 9900 bytes of "
              "shared memory: it expects 9920; use backend cpu");
  }
}

TEST_F(VulkanComponents, LargeOnesAreRefusedByName) {
  std::vector<double> x(65 * 40, 1);
  const auto sum = [](const One& one) {
    std::vector<Value> rows;
    for (std::size_t i = 0; i < one.size(); ++i) rows.push_back(one.x(i) - 1.0);
    return rows;
  };
  try {
    solve_many(40, sum, x, {}, options_of(Backend::vulkan));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "solve: backend vulkan does not know components of more than 64 unknowns; use "
              "backend cpu");
  }
}

/// One of 70 unknowns beside many of three: each has the answer that it has alone.
TEST_F(VulkanComponents, LargeOnesStayBesideSmallOnes) {
  TG_NEEDS(float64);
  std::vector<double> small(3 * 50, 0.5), large(70, 1);
  Problem problem;
  const Parameters p = problem.add_parameters(small, 3), q = problem.add_parameters(large, 1);
  for (std::size_t k = 0; k < p.size(); ++k) {
    problem.add_residual({10.0 * (p(k, 1) - square(p(k, 0))), 1.0 - p(k, 0)});
    problem.add_residual(p(k, 2) * p(k, 0) - 0.1 * static_cast<double>(k));
  }
  for (std::size_t k = 0; k + 1 < q.size(); ++k)
    problem.add_residual(q.scalar(k + 1) - q.scalar(k) - 1.0);
  problem.add_residual(q.scalar(0) - 3.0);
  const Summary summary = solve(problem, options_of(Backend::vulkan));
  EXPECT_EQ(summary.termination, Termination::CONVERGENCE) << summary.message;
  EXPECT_EQ(summary.backend, "vulkan");
  EXPECT_NE(summary.why.find("1 of 51 are solved for by the interpreter: the device does not know "
                             "components of more than 64 unknowns"),
            std::string::npos)
      << summary.why;
  for (std::size_t k = 0; k < p.size(); ++k) {
    EXPECT_NEAR(small[3 * k + 1], 1, 1e-9) << k;
    EXPECT_NEAR(small[3 * k + 2], 0.1 * static_cast<double>(k), 1e-9) << k;
  }
  for (std::size_t k = 0; k < q.size(); ++k)
    EXPECT_NEAR(large[k], 3 + static_cast<double>(k), 1e-9);
}

/// With loose tolerances every further step moves the unknowns: after a device in f64 none is
/// taken. Rules that the device does not have make a few solves longer.
TEST_F(VulkanComponents, DevicesInF64EndWhereTheInterpreterEnds) {
  TG_NEEDS(float64);
  const Copies copies = decays(100, 1e-2);
  SolverOptions device = options_of(Backend::vulkan), cpu = options_of(Backend::cpu);
  device.function_tolerance = cpu.function_tolerance = 1e-4;
  std::vector<double> minima, lanes;
  const Summary on_device = copies.solve(minima, device), on_cpu = copies.solve(lanes, cpu);
  EXPECT_TRUE(on_device.on_device);
  std::size_t same = 0;
  for (std::size_t k = 0; k < copies.count; ++k) {
    bool near = true;
    for (std::size_t i = 3 * k; i < 3 * k + 3; ++i)
      near &= std::fabs(minima[i] - lanes[i]) <= 1e-9 * std::max(1.0, std::fabs(lanes[i]));
    same +=
        near && on_device.components.successful_steps[k] == on_cpu.components.successful_steps[k]
            ? 1
            : 0;
  }
  EXPECT_GE(same, 90u);
}

TEST_F(VulkanComponents, SolverMinimisesAgain) {
  TG_NEEDS(float64);
  const Copies copies = decays(50, 1e-3), more = decays(90, 1e-3);
  ManySolver solver(3, {20, 20}, copies.f, {}, options_of(Backend::vulkan));
  for (const Copies* of : {&copies, &more, &copies}) {
    std::vector<double> once, x = of->starts;
    of->solve(once, options_of(Backend::vulkan));
    const Summary summary =
        solver.solve(x, std::array<std::span<const double>, 2>{of->data[0], of->data[1]});
    EXPECT_TRUE(summary.on_device);
    EXPECT_EQ(summary.submissions, 1u);
    EXPECT_EQ(x, once);
  }
}

}  // namespace
}  // namespace topograd
