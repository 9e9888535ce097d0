// Solves a chain of points on the processes of mpirun: the example of docs/distributed.md.
#include "../../api/topograd.hpp"
#include "../../distributed/distributed_problem.hpp"

#include <cmath>
#include <cstddef>
#include <iostream>
#include <vector>

namespace tg = topograd;

namespace {
constexpr std::size_t kPoints = 2000;
}

int main(int argc, char** argv) {
  const tg::distributed::Session session(&argc, &argv, {});
  std::vector<double> x(kPoints);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = std::sin(static_cast<double>(k));

  tg::DistributedProblem problem(MPI_COMM_WORLD);
  const tg::Parameters points = problem.add_parameters(x, 1);
  for (std::size_t k = 0; k + 1 < x.size(); ++k)
    problem.add_residual(points[k + 1] - points[k] - 0.01);
  problem.add_residual(points[0]);

  const tg::Summary summary = problem.solve({.linear_solver = tg::LinearSolver::pcg});
  if (problem.rank() == 0)
    std::cout << summary.brief_report() << "\n" << tg::text(problem.report());
}
