// NIST's sets from many starts in one call, against single solves from the same starts.
#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../solver/solve.hpp"
#include "../../../solver/solve_many.hpp"
#include "../../../tools/problems/nist.hpp"
#include "../../support/paths.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace topograd {
namespace {

SolverOptions tight() {
  return {.backend = Backend::cpu,
          .max_iterations = 200,
          .function_tolerance = 1e-15,
          .gradient_tolerance = 1e-13,
          .parameter_tolerance = 1e-13};
}

/// NIST's first start, each number times a factor.
std::vector<double> perturbed(const problems::NistSet& set, std::size_t count) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-0.3, 0.3);
  std::vector<double> out;
  for (std::size_t k = 0; k < count; ++k)
    for (const double b : set.starts[1]) out.push_back(b * std::exp(exponent(random)));
  return out;
}

// 1000 starts of the sets in a folder if TOPOGRAD_NIST names it.
TEST(NistStarts, AsManyAreSolvedAsBySingleCalls) {
  const auto folder = platform::environment("TOPOGRAD_NIST");
  const std::size_t count = folder ? 1000 : 60;
  const std::string path = folder.value_or(test::source_dir() / "tests/data/nist");
  for (const std::string& file : problems::nist_files(path)) {
    const problems::NistSet set = problems::read_nist(file);
    SCOPED_TRACE(set.name);
    const std::vector<double> starts = perturbed(set, count);
    const std::size_t n = set.certified.size();
    std::vector<double> x = starts;
    const auto prototype = problems::nist(set);
    const Summary summary = solve_copies(prototype->problem, count, x, {}, tight());
    ASSERT_EQ(summary.components.count, count);
    std::size_t together = 0, single = 0, same_end = 0;
    for (std::size_t k = 0; k < count; ++k) {
      const auto nist = problems::nist(set);
      const std::span<const double> start = std::span(starts).subspan(k * n, n);
      nist->b.assign(start.begin(), start.end());
      Termination end = Termination::FAILURE;
      try {
        end = solve(nist->problem, tight()).termination;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::NonFinite);
      }
      same_end += end == summary.components.termination[k] ? 1 : 0;
      single += problems::matching_digits(nist->b, set.certified) >= 4 ? 1 : 0;
      together +=
          problems::matching_digits(std::span(x).subspan(k * n, n), set.certified) >= 4 ? 1 : 0;
    }
    RecordProperty(set.name, std::to_string(together) + " in one call, " + std::to_string(single) +
                                 " alone, " + std::to_string(count - same_end) + " other ends");
    EXPECT_GE(together, single);
    EXPECT_GT(single, count / 10);
    EXPECT_GE(same_end, count - count / 50) << "other ends";
  }
}

}  // namespace
}  // namespace topograd
