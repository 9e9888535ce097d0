// Data of problems from array operations on the solving device.
#include "../support/validation.hpp"

#include "../../ir/error.hpp"
#include "../../ops/arrays.hpp"
#include "../../ops/tensors.hpp"
#include "../../ops/vulkan/backend.hpp"
#include "../../solver/evaluator.hpp"
#include "../../solver/solve.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace topograd {
namespace {

constexpr std::uint32_t kPoints = 700, kEdges = 1500;

/// Springs between points in random order, each with its own weight and length, and an anchor.
/// Weights are data of an array; lengths and the anchor's weight are not.
struct Springs {
  explicit Springs(bool lone = false) : x(kPoints) {
    for (std::size_t i = 0; i < kPoints; ++i)
      x[i] = 0.01 * static_cast<double>(i) + 0.3 * std::sin(7.0 * static_cast<double>(i));
    const Parameters points = problem.add_parameters(x);
    weights = problem.add_data(std::vector<double>(kEdges, 1.0));
    std::vector<std::uint32_t> ends;
    std::vector<double> lengths;
    for (std::uint32_t e = 0; e < kEdges; ++e) {
      ends.insert(ends.end(), {e * 577 % kPoints, (e * 577 + 1 + e % 5) % kPoints, e * 7 % kEdges});
      lengths.push_back(0.1 + 0.001 * e);
    }
    problem.add_residuals(kEdges,
                          [&](Element e) {
                            const Value d = e.scalar(points, 1) - e.scalar(points, 0);
                            return weights[e.index(2)] * (d - e.data(0));
                          },
                          {.indices = ends, .data = lengths});
    problem.add_residual(points.scalar(0) * 2.0);
    if (lone) problem.add_residual(points.scalar(1) * weights[3]);
  }

  Problem problem;
  Data weights;
  std::vector<double> x, more;
};

std::vector<float> numbers(std::size_t count, double shift) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(1.5 + std::sin(0.37 * static_cast<double>(i) + shift));
  return out;
}

/// The pipeline's result on the device, and on the host.
ops::Array<float> pipeline(const std::vector<float>& from, const ops::Device& device) {
  return map([](Value v) { return v * v + 0.5; }, ops::Array<float>(from).to(device));
}
std::vector<double> by_hand(const std::vector<float>& from) {
  std::vector<double> out;
  for (const float v : from) out.push_back(v * v + 0.5f);
  return out;
}

class ProblemData : public test::VulkanTest {
 protected:
  void SetUp() override {
    test::VulkanTest::SetUp();
    if (!device_) return;
    where_ = ops::Device::vulkan();
    core_ = ops::vulkan_device(where_.backend());
  }
  runtime::vulkan::Counters counters() const { return core_->counters(); }

  ops::Device where_;
  std::shared_ptr<runtime::vulkan::Device> core_;
};

TEST_F(ProblemData, ComesFromTheDeviceInAnyOrder) {
  if (!device_) return;
  const std::vector<SolverOptions> rows = [] {
    std::vector<SolverOptions> made(1, {.backend = Backend::vulkan});
    for (const Accumulation a :
         {Accumulation::gather_store, Accumulation::gather_recompute, Accumulation::atomic_cas}) {
      made.push_back(made[0]);
      made.back().accumulation = a;
      made.back().precision = Precision::f32;
    }
    made.push_back(made[0]);
    made.back().precision = Precision::mixed;
    made.push_back(made[0]);
    made.back().restrictions.max_storage_buffer_range = 8192;  // columns in several chunks
    return made;
  }();
  for (std::size_t k = 0; k < rows.size(); ++k) {
    SCOPED_TRACE(k);
    if (rows[k].precision != Precision::f32 && !test::tested_features().float64) continue;
    Springs springs, peer;
    const std::vector<float> from = numbers(kEdges, 0.1);
    ops::set(springs.problem, springs.weights, pipeline(from, where_));
    peer.problem.set(peer.weights, by_hand(from));
    Evaluator got(springs.problem, rows[k]), want(peer.problem, {.backend = Backend::cpu});
    for (const double shift : {0.1, 2.0}) {
      const std::vector<float> next = numbers(kEdges, shift);
      ops::set(springs.problem, springs.weights, pipeline(next, where_));
      peer.problem.set(peer.weights, by_hand(next));
      const double tolerance = rows[k].precision == Precision::f32 ? 1e-5 : 1e-12;
      EXPECT_NEAR(got.cost(), want.cost(), tolerance * want.cost());
      EXPECT_LE((got.gradient() - want.gradient()).norm(), tolerance * want.gradient().norm());
      EXPECT_LE((got.residuals() - want.residuals()).norm(), tolerance * want.residuals().norm());
    }
    EXPECT_EQ(got.backend(), "vulkan");
  }
}

TEST_F(ProblemData, PassesNoByteThroughTheHost) {
  if (!device_) return;
  for (const Precision precision : precisions()) {
    Springs springs;
    Evaluator evaluator(springs.problem, {.backend = Backend::vulkan, .precision = precision});
    const auto set = [&](double shift) {
      ops::Array<float> made = pipeline(numbers(kEdges, shift), where_);
      where_.synchronise();
      const runtime::vulkan::Counters before = counters();
      ops::set(springs.problem, springs.weights, made);
      evaluator.gradient();
      return counters() - before;
    };
    evaluator.gradient();
    set(1);  // the indices of the weights are uploaded once
    const std::uint64_t element = precision == Precision::f64 ? 8 : 4;
    const runtime::vulkan::Counters used = set(2);
    EXPECT_LE(used.bytes_up, kPoints * element);         // x
    EXPECT_LE(used.bytes_down, kPoints * element + 64);  // the gradient
    // The host's version uploads them twice: by instance and in the order of sums.
    const runtime::vulkan::Counters before = counters();
    springs.problem.set(springs.weights, by_hand(numbers(kEdges, 3)));
    evaluator.gradient();
    EXPECT_GE((counters() - before).bytes_up, 2 * kEdges * element);
  }
}

TEST_F(ProblemData, SolvesFromTensors) {
  if (!device_) return;
  TG_NEEDS(float64);
  Springs springs, peer;
  const std::vector<float> from = numbers(kEdges, 0.3);
  const ops::Tensor weights = ops::exp(
      -ops::tensor(ops::Array<float>(from).to(where_), {static_cast<std::int64_t>(kEdges)}));
  where_.synchronise();
  const ops::BackendCounters before = where_.backend().counters();
  ops::set(springs.problem, springs.weights, weights);
  const Summary got = solve(springs.problem, {.backend = Backend::vulkan});
  EXPECT_EQ((where_.backend().counters() - before).bytes_down, 0u);
  EXPECT_EQ(got.backend, "vulkan");

  std::vector<double> read;
  for (const float w : ops::array_of<float>(weights).read()) read.push_back(w);
  peer.problem.set(peer.weights, read);
  const Summary want = solve(peer.problem, {.backend = Backend::cpu});
  EXPECT_NEAR(got.final_cost, want.final_cost, 1e-9 * want.initial_cost);
  for (std::size_t i = 0; i < kPoints; ++i) EXPECT_NEAR(springs.x[i], peer.x[i], 1e-6) << i;
}

/// A change of a problem after its weights came from the device.
struct Change {
  const char* name;
  std::function<void(Springs&)> make;
};

TEST_F(ProblemData, ComesToTheHostWhereItIsNeeded) {
  if (!device_) return;
  TG_NEEDS(float64);
  const Change changes[] = {
      {"none", [](Springs&) {}},
      {"another residual with a weight",
       [](Springs& s) {
         s.more = s.x;
         Parameters y = s.problem.add_parameters(s.more);  // of another array
         s.problem.add_residual(y.scalar(2) * s.weights[5]);
       }},
      {"the host's numbers",
       [](Springs& s) { s.problem.set(s.weights, by_hand(numbers(kEdges, 5))); }},
  };
  for (const Change& change : changes) {
    for (const Backend backend : {Backend::cpu, Backend::vulkan}) {
      for (const bool lone : {false, true}) {
        SCOPED_TRACE(std::string(change.name) + (lone ? ", lone" : ""));
        Springs springs(lone), peer(lone);
        const std::vector<float> from = numbers(kEdges, 0.7);
        peer.problem.set(peer.weights, by_hand(from));
        ops::set(springs.problem, springs.weights, pipeline(from, where_));
        Evaluator got(springs.problem, {.backend = backend});
        Evaluator want(peer.problem, {.backend = Backend::cpu});
        EXPECT_LE((got.gradient() - want.gradient()).norm(), 1e-12 * want.gradient().norm());
        change.make(springs);
        change.make(peer);
        EXPECT_NEAR(got.cost(), want.cost(), 1e-12 * want.cost());
        EXPECT_LE((got.gradient() - want.gradient()).norm(), 1e-12 * want.gradient().norm());
      }
    }
  }
}

TEST_F(ProblemData, IsWhatTheArrayWasThen) {
  if (!device_) return;
  TG_NEEDS(float64);
  Springs springs, peer;
  const std::vector<float> from = numbers(kEdges + 3, 0.2);
  ops::Array<float> made = pipeline(from, where_);
  ops::set(springs.problem, springs.weights, made.slice(3, kEdges));
  std::vector<double> then = by_hand(from);
  then.erase(then.begin(), then.begin() + 3);
  peer.problem.set(peer.weights, then);
  made.write()[7] = 100;
  Evaluator got(springs.problem, {.backend = Backend::vulkan});
  Evaluator want(peer.problem, {.backend = Backend::cpu});
  EXPECT_LE((got.gradient() - want.gradient()).norm(), 1e-12 * want.gradient().norm());
}

TEST_F(ProblemData, SizesThatDoNotFitAreRefused) {
  if (!device_) return;
  Springs springs;
  for (const bool placed : {false, true}) {
    ops::Array<float> few = ops::Array<float>::full(4, 1);
    if (placed) few.to(where_);
    try {
      ops::set(springs.problem, springs.weights, few);
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Shape);
      EXPECT_STREQ(error.what(), "set: expected 1500 numbers, got 4");
    }
  }
}

}  // namespace
}  // namespace topograd
