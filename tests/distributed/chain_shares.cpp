// The example of docs/distributed.md in which each rank adds a share of the residuals.
#include "../../distributed/distributed_problem.hpp"

#include <cmath>
#include <cstddef>
#include <iostream>
#include <vector>

namespace tg = topograd;

constexpr std::size_t kPoints = 1000;

int main(int argc, char** argv) {
  const tg::distributed::Session session(&argc, &argv, {});
  std::vector<double> x(kPoints);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = std::sin(static_cast<double>(k));

  tg::DistributedProblem problem(MPI_COMM_WORLD);
  problem.distribution.residuals = tg::RankResiduals::share;
  const tg::Parameters points = problem.add_parameters(x, 1);
  const tg::Slice mine = problem.slice(kPoints - 1);
  for (std::size_t k = mine.first; k < mine.end; ++k)
    problem.add_residual(points[k + 1] - points[k] - 0.01);
  if (problem.rank() == problem.size() - 1) problem.add_residual(points[0]);

  const tg::Summary summary = problem.solve();
  if (problem.rank() == 0)
    std::cout << summary.brief_report() << "\n" << tg::text(problem.report());
}
