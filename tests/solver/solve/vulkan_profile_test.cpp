// Times of kernels on a device: they add up, every dispatch is counted, and no list takes times
// unasked.
#include <gtest/gtest.h>

#include "../../../runtime/device/device.hpp"
#include "../../../solver/solve.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "../../../tools/problems/springs.hpp"
#include "../../support/validation.hpp"

namespace topograd {
namespace {

using runtime::KernelTime;
using runtime::Profile;
using runtime::TimedWork;

class VulkanProfile : public test::VulkanTest {
 protected:
  void SetUp() override {
    test::VulkanTest::SetUp();
    if (!device_->features().timestamps) GTEST_SKIP() << "no timestamps";
    options_ = {.backend = Backend::vulkan,
                .precision = device_->features().float64 ? Precision::f64 : Precision::f32,
                .linear_solver = LinearSolver::pcg,
                .max_iterations = 3,
                .max_linear_iterations = 20,
                .preconditioner = Preconditioner::block_jacobi,
                .deterministic = true,
                .profile = true};
  }

  SolverOptions options_;
};

std::uint64_t calls_of(const Summary& summary, std::string_view name) {
  std::uint64_t calls = 0;
  for (const KernelTime& one : summary.kernels) calls += one.name == name ? one.calls : 0;
  return calls;
}

/// Kernels, without copies.
std::uint64_t dispatches_of(const Summary& summary) {
  std::uint64_t calls = 0;
  for (const KernelTime& one : summary.kernels)
    if (one.work == TimedWork::device && one.name != "copy" && one.name != "fill")
      calls += one.calls;
  return calls;
}

TEST_F(VulkanProfile, EveryDispatchIsCounted) {
  const auto plain = problems::springs(12), springs = problems::springs(12);
  options_.profile = false;
  const std::uint64_t before = device_->counters().dispatches;
  const double cost = solve(plain->problem, options_).final_cost;
  const std::uint64_t dispatches = device_->counters().dispatches - before;
  options_.profile = true;
  const Summary summary = solve(springs->problem, options_);
  EXPECT_EQ(summary.final_cost, cost);
  EXPECT_EQ(dispatches_of(summary), dispatches);
  EXPECT_GT(dispatches, 0u);
  const char* const start_of_cg =
      options_.precision == Precision::f64 ? "vector_cg_start_f64" : "vector_cg_start_f32";
  EXPECT_EQ(calls_of(summary, start_of_cg), static_cast<std::uint64_t>(summary.num_iterations()));
  EXPECT_EQ(summary.profile.note, "");
  for (const KernelTime& one : summary.kernels) {
    if (one.work != TimedWork::device) continue;
    const bool of_residuals = one.name.starts_with("spring_") || one.name.starts_with("anchor_");
    EXPECT_EQ(one.topology.size(), of_residuals ? 32u : 0u) << one.name;
    EXPECT_GE(one.us, one.longest_us) << one.name;
  }
}

TEST_F(VulkanProfile, TimesAddUpToTheSteps) {
  // Where steps of this size take less than a millisecond, more of them is the host's.
  const double least = device_->info().software() ? 0.95 : 0.9;
  double best = 0;
  for (int run = 0; run < 3 && best < least; ++run) {  // the machine may be busy
    const auto springs = problems::springs(40);
    const Summary summary = solve(springs->problem, options_);
    double us = 0;
    for (const KernelTime& one : summary.kernels) us += one.us;
    // Bounds of the device's clock may be off by what a submission takes to begin.
    EXPECT_NEAR(us, summary.profile.step_us, 0.05 * summary.profile.step_us);
    best = std::max(best, explained_share(summary));
  }
  EXPECT_GE(best, least);
}

TEST_F(VulkanProfile, NoListTakesTimesUnasked) {
  EXPECT_FALSE(device_->command_list("plain").takes_times());
  Profile profile;
  {
    const Profile::Use use(&profile);
    EXPECT_TRUE(device_->command_list("timed").takes_times());
  }
  EXPECT_FALSE(device_->command_list("plain again").takes_times());
}

TEST_F(VulkanProfile, ListsOfSeveralPoolsAreReadAsAWhole) {
  Profile profile;
  const Profile::Use use(&profile);
  const auto buffer = device_->buffer(1024);
  auto list = device_->command_list("fills");
  constexpr std::uint32_t kFills = 700;  // more than two pools of queries have
  for (std::uint32_t k = 0; k < kFills; ++k) {
    list.barrier();
    list.fill(buffer, 0, 1024, k);
  }
  const runtime::vulkan::CommandList* const thrice[] = {&list, &list, &list};
  {
    const Profile::Watch watch;
    device_->submit(thrice);
    device_->wait_idle();
  }
  device_->submit(list).wait();  // nobody watches
  const auto fills = std::ranges::find(profile.rows(), "fill", &KernelTime::name);
  ASSERT_NE(fills, profile.rows().end());
  EXPECT_EQ(fills->calls, 3 * kFills);
  EXPECT_EQ(fills->bytes, std::uint64_t{3} * kFills * 1024);
  EXPECT_LE(fills->us, profile.watched_us() * 1.05);
}

TEST_F(VulkanProfile, WithoutTimestampsTheHostsTimesAreLeft) {
  const auto springs = problems::springs(12);
  options_.restrictions.mask = "timestamps";
  const Summary summary = solve(springs->problem, options_);
  EXPECT_NE(summary.profile.note.find("has no timestamps"), std::string::npos)
      << summary.profile.note;
  EXPECT_EQ(dispatches_of(summary), 0u);
  EXPECT_GT(calls_of(summary, "submit"), 0u);
  EXPECT_NE(profile_table(summary).find("has no timestamps"), std::string::npos);
}

TEST_F(VulkanProfile, MixedPrecisionNamesKernelsOfBoth) {
  TG_NEEDS(float64);
  const auto springs = problems::springs(12);
  options_.precision = Precision::mixed;
  const Summary summary = solve(springs->problem, options_);
  for (const char* precision : {"_f32", "_f64"}) {
    EXPECT_TRUE(std::ranges::any_of(summary.kernels, [&](const KernelTime& one) {
      return one.work == TimedWork::device && one.name.find(precision) != std::string::npos;
    })) << precision;
  }
}

}  // namespace
}  // namespace topograd
