// Judges every solve of a test program: linked to the tests that are JUDGED.
#include "../../solver/solve/after_solve.hpp"
#include "judge.hpp"

#include <gtest/gtest.h>

namespace topograd::test {
namespace {

// Rows beyond which judging takes longer than the tests can wait.
constexpr std::size_t kMostRows = 20'000;

void look(const Problem& problem, const SolverOptions& options, const Summary& summary) {
  // A guarded domain replaces the residuals that the problem has.
  if (problem.residual_count() > kMostRows || options.domain == DomainPolicy::guarded ||
      !can_judge(problem))
    return;
  EXPECT_EQ(contradiction(problem, options, summary), "")
      << "last check of a solve by " << name(summary.method) << ", " << summary.message;
}

const bool looks = (after_solve = &look, true);

}  // namespace
}  // namespace topograd::test
