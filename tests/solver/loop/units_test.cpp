// Units: multiplying all residuals or any unknown by 10^±12 changes no decision of a solve.
#include <gtest/gtest.h>

#include "../../../frontend/value/math.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "../../../tools/problems/mesh.hpp"
#include "../../../tools/problems/mgh.hpp"
#include "../../../tools/problems/nist.hpp"
#include "../../../tools/problems/smooth.hpp"
#include "../../../tools/problems/springs.hpp"
#include "../../support/paths.hpp"

namespace topograd {
namespace {

/// Units of a problem: residuals are multiplied by `residuals`, unknown k by unknowns[k].
struct Units {
  std::string name;
  double residuals = 1;
  std::vector<double> unknowns;

  double of(std::size_t k) const { return unknowns.empty() ? 1 : unknowns[k % unknowns.size()]; }
};

/// A problem's residuals in other units, from its start. Data become numbers of the expressions.
class InUnits {
 public:
  InUnits(const Problem& from, const Units& units) : x_(from.parameter_count()) {
    from.read_x(x_);
    for (std::size_t k = 0; k < x_.size(); ++k) x_[k] *= units.of(k);
    for (const ParameterArray& array : from.arrays()) {
      arrays_.push_back(problem_.add_parameters(
          std::span(x_).subspan(array.offset, std::size_t{array.blocks} * array.width)));
      starts_.push_back(array.offset);
    }
    for (std::size_t t = 0; t < from.topology_count(); ++t)
      for (std::size_t i = 0; i < from.batch(t).size(); ++i) add(from, t, i, units);
  }

  Summary solve(const SolverOptions& options) { return topograd::solve(problem_, options); }

 private:
  Value unknown(std::uint32_t scalar, const Units& units) const {
    std::size_t a = arrays_.size() - 1;
    while (starts_[a] > scalar) --a;
    return arrays_[a][scalar - starts_[a]] / units.of(scalar);
  }

  void add(const Problem& from, std::size_t t, std::size_t i, const Units& units) {
    const ir::Program& program = from.topology(t).program;
    const ir::Batch& batch = from.batch(t);
    std::vector<Value> values;
    for (const ir::Node& node : program.nodes) {
      switch (node.op) {
        case ir::Op::Parameter:
          values.push_back(unknown(batch.index(i, node.slot()), units));
          break;
        case ir::Op::Data: values.push_back(Value(batch.data(i, node.slot()))); break;
        case ir::Op::Literal: values.push_back(literal(node.literal())); break;
        default: {
          const auto operands = node.operands();
          const Value& a = values[operands[0]];
          values.push_back(operands.size() == 1 ? Value::make(node.op, a)
                           : operands.size() == 2
                               ? Value::make(node.op, a, values[operands[1]])
                               : Value::make(node.op, a, values[operands[1]], values[operands[2]]));
        }
      }
    }
    std::vector<Value> rows;
    for (const ir::Id output : program.outputs) rows.push_back(values[output] * units.residuals);
    problem_.add_residual(rows);
  }

  std::vector<double> x_;
  std::vector<Parameters> arrays_;
  std::vector<std::uint32_t> starts_;
  Problem problem_;
};

std::vector<Units> units_of(std::size_t unknowns) {
  std::vector<Units> all = {{"residuals 1e12", 1e12, {}},
                            {"residuals 1e-12", 1e-12, {}},
                            {"unknowns 1e12", 1, {1e12}},
                            {"unknowns 1e-12", 1, {1e-12}}};
  for (std::size_t k = 0; k < std::min<std::size_t>(unknowns, 4); ++k) {
    for (const double factor : {1e12, 1e-12}) {
      std::vector<double> one(unknowns, 1.0);
      one[k] = factor;
      all.push_back({"unknown " + std::to_string(k) + " " + std::to_string(factor), 1, one});
    }
  }
  return all;
}

/// Steps and reason for the end. (A last step that gains less than rounding is left out, because
/// rounding decides on it.)
std::string decisions(const Summary& summary) {
  return std::to_string(summary.num_iterations()) + " steps, " +
         summary.message.substr(0, summary.message.find(':'));
}

void expect_same_decisions(const Problem& problem, const SolverOptions& options) {
  InUnits plain(problem, {});
  const Summary expected = plain.solve(options);
  for (const Units& units : units_of(problem.parameter_count())) {
    SCOPED_TRACE(units.name);
    InUnits other(problem, units);
    const Summary summary = other.solve(options);
    // Rounding decides how many steps there are among costs that are rounding.
    if (expected.final_cost > 1e-20 * expected.initial_cost) {
      EXPECT_EQ(decisions(summary), decisions(expected)) << summary.message;
    }
    EXPECT_EQ(summary.termination, expected.termination) << summary.message;
    const double square = units.residuals * units.residuals;
    EXPECT_NEAR(summary.final_cost / square, expected.final_cost,
                1e-6 * expected.final_cost + 1e-20 * expected.initial_cost);
  }
}

TEST(Units, ChangeNoDecisionOnNistSets) {
  for (const std::string& file : problems::nist_files(test::source_dir() / "tests/data/nist")) {
    const problems::NistSet set = problems::read_nist(file);
    for (std::size_t start = 0; start < 2; ++start) {
      SCOPED_TRACE(set.name + " from start " + std::to_string(start + 1));
      expect_same_decisions(problems::nist(set, start)->problem, {.backend = Backend::cpu});
    }
  }
}

TEST(Units, ChangeNoDecisionOnSmallProblems) {
  for (const problems::MghProblem& row : problems::mgh_problems()) {
    SCOPED_TRACE(row.name);
    expect_same_decisions(problems::mgh(row)->problem, {.backend = Backend::cpu});
  }
}

TEST(Units, ChangeNoDecisionOnMeshes) {
  problems::TriangleMesh mesh = problems::icosphere(1);
  problems::perturb(mesh.positions, 1e-3, 7);
  const auto smooth = problems::smooth(mesh);
  for (const LinearSolver solver : {LinearSolver::cholesky, LinearSolver::pcg}) {
    SCOPED_TRACE(name(solver));
    expect_same_decisions(smooth->problem, {.backend = Backend::cpu, .linear_solver = solver});
  }
}

}  // namespace
}  // namespace topograd
