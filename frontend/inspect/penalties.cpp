// Writes the hidden columns of constraints.
#include "penalties.hpp"

#include "../../ir/topology/topology.hpp"
#include "../problem/problem_state.hpp"

#include <memory>
#include <utility>

namespace topograd {

std::uint64_t Penalties::first_row() const {
  detail::ProblemState& state = whole(problem_.state_);
  state.blocks.number_rows();
  return state.blocks.constraints.first_row;
}

void Penalties::set_weights(double equalities, double inequalities) {
  detail::ProblemState& state = whole(problem_.state_);
  if (state.blocks.penalty_uniform == detail::kNoUniform) return;
  state.uniforms[state.blocks.penalty_uniform] = equalities;
  state.uniforms[state.blocks.penalty_uniform + 1] = inequalities;
  ++state.versions.uniforms;
}

void Penalties::set_column(std::uint32_t half, std::span<const double> numbers) {
  const std::uint64_t first = first_row();
  detail::ProblemState& state = whole(problem_.state_);
  for (detail::Group& group : state.blocks.groups) {
    if (!is_constraint(group.kind)) continue;
    const std::uint32_t rows = group.hidden_data / 2;
    const std::uint32_t column = group.batch.data_columns() - group.hidden_data + half * rows;
    for (std::size_t i = 0; i < group.batch.size(); ++i) {
      const std::uint64_t row = group.batch.residual_row(i) - first;
      for (std::uint32_t k = 0; k < rows; ++k)
        group.batch.set_data(i, column + k, numbers[row + k]);
    }
  }
  ++state.versions.data;
}

const ir::Program& Penalties::plain(const Problem& problem, std::size_t topology) {
  return whole(problem.state_).blocks.groups[topology].plain;
}

const ir::Topology& Penalties::barrier(const Problem& problem, std::size_t topology) {
  detail::Group& group = whole(problem.state_).blocks.groups[topology];
  if (!group.barrier) {
    ir::Program program = detail::barrier_program(group.plain);
    const ir::Hash128 hash = ir::canonicalize(program).topology.hash;
    group.barrier = std::make_unique<const ir::Topology>(ir::Topology{std::move(program), hash});
  }
  return *group.barrier;
}

}  // namespace topograd
