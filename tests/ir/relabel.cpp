// Permuting slots and node order.
#include "relabel.hpp"

#include "../../ir/program.hpp"

#include <algorithm>
#include <random>
#include <vector>

namespace topograd::test {
namespace {

using ir::Id;
using ir::Op;

void shuffle(std::vector<std::uint32_t>& x, std::mt19937_64& random) {
  for (std::size_t k = x.size(); k > 1; --k) std::swap(x[k - 1], x[random() % k]);
}

std::vector<std::uint32_t> shuffled_slots(std::uint32_t count, std::mt19937_64& random) {
  std::vector<std::uint32_t> slots(2 * count);
  for (std::uint32_t k = 0; k < 2 * count; ++k) slots[k] = k;
  shuffle(slots, random);
  slots.resize(count);
  return slots;
}

// Any node whose operands are placed may come next.
std::vector<Id> shuffled_order(const ir::Program& program, std::mt19937_64& random) {
  std::vector<std::vector<Id>> users(program.nodes.size());
  std::vector<int> missing(program.nodes.size());
  std::vector<Id> ready, order;
  for (Id id = 0; id < program.nodes.size(); ++id) {
    for (Id operand : program.nodes[id].operands()) {
      users[operand].push_back(id);
      ++missing[id];
    }
    if (missing[id] == 0) ready.push_back(id);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const Id id = ready.back();
    ready.pop_back();
    order.push_back(id);
    for (Id user : users[id]) {
      if (--missing[user] == 0) ready.push_back(user);
    }
  }
  return order;
}

}  // namespace

ir::Program relabel(const ir::Program& program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto parameters = shuffled_slots(program.leaves.parameters, random);
  const auto data = shuffled_slots(program.leaves.data, random);
  const auto uniforms = shuffled_slots(program.leaves.uniforms, random);
  ir::Graph graph;
  std::vector<Id> map(program.nodes.size());
  for (Id id : shuffled_order(program, random)) {
    const ir::Node& node = program.nodes[id];
    const auto* const slots = node.op == Op::Parameter ? &parameters
                              : node.op == Op::Data    ? &data
                              : node.op == Op::Uniform ? &uniforms
                                                       : nullptr;
    map[id] = slots != nullptr ? graph.leaf(node.op, (*slots)[node.slot()]) : graph.copy(node, map);
  }
  std::vector<Id> outputs;
  for (Id id : program.outputs) outputs.push_back(map[id]);
  std::vector<ir::Guard> guards;
  for (const ir::Guard& g : program.guards) guards.push_back({map[g.condition], g.expected});
  for (std::size_t k = guards.size(); k > 1; --k) std::swap(guards[k - 1], guards[random() % k]);
  const ir::LeafCounts& n = program.leaves;
  return graph.extract(outputs, {2 * n.parameters, 2 * n.data, 2 * n.uniforms, n.seeds}, guards);
}

}  // namespace topograd::test
