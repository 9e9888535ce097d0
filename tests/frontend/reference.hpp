// Common parts of the tests: evaluation of a problem on the scalar evaluator, and the published
// test problems.
#pragma once

#include "../../frontend/problem.hpp"
#include "../../ir/error.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd::test {

/// All residual rows at the users' parameters, by ir::evaluate over every instance of every batch;
/// host blocks evaluate themselves.
std::vector<double> residuals(const Problem& problem);
/// Half of their sum of squares, in long double.
double cost(const Problem& problem);

/// A problem of one residual over three unknowns.
struct Single {
  std::vector<double> x;
  Problem problem;
  Parameters p;

  explicit Single(std::vector<double> values = {0.7, 1.3, -0.4})
      : x(std::move(values)), p(problem.add_parameters(x)) {}
  const ir::Program& program() const { return problem.topology(0).program; }
  std::size_t count(ir::Op op) const {
    std::size_t n = 0;
    for (const ir::Node& node : program().nodes) n += node.op == op ? 1 : 0;
    return n;
  }
};

/// The grid of springs of the benchmark: positions and edges with their rest lengths.
struct Springs {
  struct Edge {
    std::uint32_t a, b;
    double rest;
  };
  explicit Springs(int width);

  std::vector<double> positions;
  std::vector<Edge> edges;
  struct Anchor {
    std::uint32_t vertex;
    std::array<double, 3> target;
  };
  std::vector<Anchor> anchors;
};

/// Runs `call` and returns "code: message" of its Error, or "no error".
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace topograd::test
