// Detection of blocks of unknowns that no residual and no energy reads.
#include <gtest/gtest.h>

#include "../../frontend/inspect/unread_blocks.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace topograd {
namespace {

using Found = std::vector<std::pair<std::size_t, std::size_t>>;

Found found(const Problem& problem) {
  Found out;
  for (const UnreadBlock& b : unread_blocks(problem)) out.push_back({b.array, b.block});
  return out;
}

TEST(UnreadBlocks, ResidualsAndEnergiesRead) {
  std::vector<double> x(9, 1.0), y(3000, 1.0), z = {1};
  Problem problem;
  const Parameters a = problem.add_parameters(x, 3), b = problem.add_parameters(y),
                   c = problem.add_parameters(z);
  const Residual gone = problem.add_residual(a(1, 2) - 1.0);  // one coordinate is enough
  for (std::size_t k = 0; k < y.size(); ++k)
    if (k != 1500) problem.add_residual(b[k] - 1.0);
  EXPECT_EQ(found(problem), (Found{{0, 0}, {0, 2}, {1, 1500}, {2, 0}}));
  problem.add_energy(square(c[0]));
  problem.add_residual(a.vec3(0) - a.vec3(2));
  EXPECT_EQ(found(problem), (Found{{1, 1500}}));
  problem.remove(gone);
  EXPECT_EQ(found(problem), (Found{{0, 1}, {1, 1500}}));
}

TEST(UnreadBlocks, HostResidualsRead) {
  struct Zero final : HostResidual {
    int rows() const override { return 1; }
    bool evaluate(const double* const*, double* r, double**) const override {
      r[0] = 0;
      return true;
    }
  };
  std::vector<double> x(6, 1.0);
  Problem problem;
  const Parameters p = problem.add_parameters(x, 2);
  problem.add_residual(std::make_shared<Zero>(), {{p, 1}});
  EXPECT_EQ(found(problem), (Found{{0, 0}, {0, 2}}));
}

}  // namespace
}  // namespace topograd
