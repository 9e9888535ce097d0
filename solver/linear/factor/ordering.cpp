// SolverOptions::linear_solver_ordering as flags of blocks.
#include "ordering.hpp"

#include "../../../frontend/inspect/array_names.hpp"
#include "../../../ir/error.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace topograd {
namespace {

constexpr const char* kOrdering = "linear_solver_ordering";
/// Group of blocks that no group names; they are kept.
constexpr int kLastGroup = std::numeric_limits<int>::max();

/// Number of each array's first block among all blocks.
std::vector<std::size_t> first_blocks(const Problem& problem) {
  std::vector<std::size_t> first{0};
  for (const ParameterArray& array : problem.arrays()) first.push_back(first.back() + array.blocks);
  return first;
}

std::size_t array_with(const Problem& problem, std::uint32_t scalar) {
  const auto after =
      std::ranges::upper_bound(problem.arrays(), scalar, {}, &ParameterArray::offset);
  return static_cast<std::size_t>(after - problem.arrays().begin()) - 1;
}

ArrayName name_of(const Problem& problem, std::size_t number) {
  const ParameterArray& array = problem.arrays()[number];
  return {array.name, number, array.blocks, array.width};
}

}  // namespace

EliminationHint elimination_hint(const Problem& problem, const SolverOptions& options) {
  if (options.linear_solver_ordering.empty()) return {};
  const std::vector<std::size_t> first = first_blocks(problem);
  std::vector<int> group(first.back(), kLastGroup);
  for (const OrderedParameters& named : options.linear_solver_ordering) {
    const std::size_t block = named.block.value_or(0);
    const std::uint32_t scalar = problem.offset_of(kOrdering, {named.array, block});
    const std::size_t array = array_with(problem, scalar);
    if (named.group < 0)
      throw Error(ErrorCode::InvalidArgument, std::string(kOrdering) + ": the group of " +
                                                  block_text(name_of(problem, array), block) +
                                                  " must be >= 0, got " +
                                                  std::to_string(named.group));
    const std::size_t begin = first[array] + block;
    std::fill_n(group.begin() + static_cast<std::ptrdiff_t>(begin),
                named.block ? 1 : named.array.size(), named.group);
  }
  const auto [least, most] = std::ranges::minmax(group);
  if (least == most) return {};
  EliminationHint hint;
  for (const int g : group) hint.blocks.push_back(g == least ? 1 : 0);
  for (const ParameterArray& array : problem.arrays())
    hint.arrays.push_back({array.name, array.blocks});
  return hint;
}

}  // namespace topograd
