// Texts for arrays, blocks and scalars, and the sources of numbers in a problem's state.
#include "array_names.hpp"

#include "../problem/problem_state.hpp"

namespace topograd {

std::string block_text(const ArrayName& array, std::uint64_t block) {
  if (array.name.empty()) {
    return "parameter array " + std::to_string(array.number) + ", block " + std::to_string(block);
  }
  return "parameter \"" + std::string(array.name) + "\"" +
         (array.blocks == 1 ? "" : ", block " + std::to_string(block));
}

std::string scalar_text(const ArrayName& array, std::uint64_t scalar) {
  std::string block = block_text(array, scalar / array.width);
  if (!array.name.empty() && array.width == 1) return block;
  return block + ", coordinate " + std::to_string(scalar % array.width);
}

NumberSources::NumberSources(const Problem& problem) : problem_(problem) {
  const detail::ProblemState& state = require_not_moved_from(problem_.state_);
  std::vector<bool> hidden(state.uniforms.size(), false);
  if (state.blocks.penalty_uniform != detail::kNoUniform)
    hidden[state.blocks.penalty_uniform] = hidden[state.blocks.penalty_uniform + 1] = true;
  for (const detail::LossEntry& entry : state.blocks.losses.entries()) {
    if (entry.program == 0) continue;
    const std::uint32_t count = state.blocks.losses.uniform_count(entry.program);
    for (std::uint32_t k = 0; k < count; ++k) hidden[entry.first_uniform + k] = true;
  }
  for (std::uint32_t k = 0; k < hidden.size(); ++k)
    if (!hidden[k]) uniforms_.push_back(k);
}

std::span<const double> NumberSources::data() const {
  return require_not_moved_from(problem_.state_).data.numbers();
}

std::uint32_t NumberSources::penalty_weight() const {
  const std::uint32_t uniform = require_not_moved_from(problem_.state_).blocks.penalty_uniform;
  return uniform == detail::kNoUniform ? kOwn : uniform;
}

std::uint32_t NumberSources::hidden_uniforms(std::size_t topology) const {
  return require_not_moved_from(problem_.state_).blocks.groups[topology].hidden_uniforms;
}

std::uint32_t NumberSources::hidden_data(std::size_t topology) const {
  return require_not_moved_from(problem_.state_).blocks.groups[topology].hidden_data;
}

bool NumberSources::reads_arrays(std::size_t topology) const {
  return !require_not_moved_from(problem_.state_).blocks.groups[topology].sources.empty();
}

std::uint32_t NumberSources::source(std::size_t topology, std::size_t instance,
                                    std::uint32_t column) const {
  const detail::Group& group = require_not_moved_from(problem_.state_).blocks.groups[topology];
  const std::size_t at = instance * group.batch.data_columns() + column;
  if (at >= group.sources.size() || group.sources[at] == detail::kNoSource) return kOwn;
  return group.sources[at];
}

std::uint32_t NumberSources::first_entry(const char* call, const Data& data) const {
  const detail::ArrayId id = data.id();
  detail::check_same_problem(call, "data array", id.problem,
                             require_not_moved_from(problem_.state_).serial);
  return id.offset;
}

std::uint32_t NumberSources::index(const char* call, const Uniform& uniform) const {
  detail::check_same_problem(call, "uniform", uniform.problem_,
                             require_not_moved_from(problem_.state_).serial);
  return uniform.index_;
}

}  // namespace topograd
