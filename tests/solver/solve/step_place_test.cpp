// Where steps are made, with made-up problems and machines.
#include <gtest/gtest.h>

#include "../../../solver/host/step_place.hpp"

namespace topograd {
namespace {

constexpr HostNeeds kBounds = {.bounds = true}, kManifolds = {.manifolds = true},
                    kBoth = {.bounds = true, .manifolds = true},
                    kOpaque = {.bounds = true, .host_residuals = true},
                    kDogleg = {.bounds = true, .dogleg = true};
constexpr StepFacts kCpu = {}, kDevice = {.on_device = true},
                    kMoves = {.device_manifolds = true, .on_device = true};

TEST(StepPlace, FollowsTheRules) {
  const LinearSolver automatic = LinearSolver::automatic, pcg = LinearSolver::pcg,
                     cholesky = LinearSolver::cholesky;
  const StepPlace engine = StepPlace::engine, host = StepPlace::host;
  StepFacts energies = kMoves, cpu_first = kMoves, moves_nowhere = kMoves;
  energies.energies = true;
  cpu_first.cpu_first = true;
  moves_nowhere.on_device = false;
  const struct {
    const char* name;
    HostNeeds needs;
    StepFacts facts;
    LinearSolver asked, chosen;
    StepPlace expected;
    int questions;
  } rows[] = {
      {"bounds, pcg on the CPU", kBounds, kCpu, pcg, cholesky, engine, 0},
      {"bounds on the CPU", kBounds, kCpu, automatic, pcg, host, 0},
      {"bounds, another solver", kBounds, kDevice, cholesky, pcg, host, 0},
      {"bounds on a device, pcg chosen", kBounds, kDevice, automatic, pcg, engine, 1},
      {"bounds on a device, a factor chosen", kBounds, kDevice, automatic, cholesky, host, 1},
      {"manifolds that nobody moves", kManifolds, kDevice, pcg, pcg, host, 0},
      {"manifolds on a device", kManifolds, kMoves, pcg, pcg, engine, 0},
      {"manifolds and bounds on a device", kBoth, kMoves, automatic, pcg, engine, 1},
      {"manifolds on the CPU", kManifolds, moves_nowhere, pcg, pcg, host, 0},
      {"manifolds while the interpreter serves", kManifolds, cpu_first, pcg, pcg, host, 0},
      {"opaque residuals", kOpaque, kMoves, pcg, pcg, host, 0},
      {"dogleg", kDogleg, kMoves, pcg, pcg, host, 0},
      {"energies", kBounds, energies, pcg, pcg, host, 0},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    int questions = 0;
    const StepPlace place = decide_step_place(row.needs, row.facts, row.asked, [&] {
      ++questions;
      return row.chosen;
    });
    EXPECT_EQ(place, row.expected);
    EXPECT_EQ(questions, row.questions);
  }
}

TEST(StepPlace, NamesWhatAsksForTheHost) {
  EXPECT_EQ(text(HostNeeds{}), "");
  EXPECT_EQ(text(kBoth), "bounds, manifolds");
  EXPECT_EQ(text({.host_residuals = true, .dogleg = true, .dense = true}),
            "residuals on the host, dogleg, dense");
}

}  // namespace
}  // namespace topograd
