// Literals, and counts of nodes.
#include "program.hpp"

#include <algorithm>
#include <cmath>

namespace topograd::ir {

Node make_literal(double value) {
  const double canonical = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
  const auto bits = std::bit_cast<std::uint64_t>(canonical);
  return {Op::Literal, {0, static_cast<Id>(bits), static_cast<Id>(bits >> 32)}};
}

std::size_t operation_count(const Program& program) {
  return static_cast<std::size_t>(std::count_if(program.nodes.begin(), program.nodes.end(),
                                                [](const Node& n) { return !is_leaf(n.op); }));
}

}  // namespace topograd::ir
