// Derivative programs of a residual block, one for each kind of kernel.
#include "derivatives.hpp"

#include "../ir/passes/passes.hpp"
#include "sweep.hpp"

#include <numeric>

namespace topograd::autodiff {
namespace {

using ir::Id;
using ir::kNone;

// Σ a_k b_k, without the terms of structurally zero factors.
Id dot(ir::Graph& graph, std::span<const Id> a, std::span<const Id> b) {
  Id sum = kNone;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] == kNone || b[k] == kNone) continue;
    const Id term =
        a[k] == b[k] ? graph.add(ir::Op::Square, a[k]) : graph.add(ir::Op::Mul, a[k], b[k]);
    sum = sum == kNone ? term : graph.add(ir::Op::Add, sum, term);
  }
  return sum;
}

// ½ Σ of the squared outputs.
Id half_square(Builder& builder) {
  ir::Graph& graph = builder.graph();
  const Id sum = dot(graph, builder.outputs(), builder.outputs());
  return sum == kNone ? sum : graph.add(ir::Op::Mul, graph.literal(0.5), sum);
}

}  // namespace

std::vector<Id> tangent_leaves(Builder& builder) {
  std::vector<Id> leaves;
  for (std::uint32_t slot = 0; slot < builder.leaves().parameters; ++slot) {
    leaves.push_back(builder.graph().leaf(ir::Op::Tangent, slot));
  }
  return leaves;
}

std::vector<Id> tangent_leaves(Builder& builder, Slots moving) {
  std::vector<Id> leaves(builder.leaves().parameters, kNone);
  for (const std::uint32_t slot : moving)
    leaves[slot] = builder.graph().leaf(ir::Op::Tangent, slot);
  return leaves;
}

std::vector<Id> seed_leaves(Builder& builder, ir::LeafCounts& leaves) {
  leaves.seeds = static_cast<std::uint32_t>(builder.outputs().size());
  std::vector<Id> seeds;
  for (std::uint32_t row = 0; row < leaves.seeds; ++row) {
    seeds.push_back(builder.graph().leaf(ir::Op::Seed, row));
  }
  return seeds;
}

ir::Program products_of_columns(const ir::Program& J, std::size_t n, bool diagonal) {
  const std::size_t rows = n == 0 ? 0 : J.outputs.size() / n;
  Builder builder(J);
  std::vector<std::vector<Id>> columns(n, std::vector<Id>(rows));
  for (std::size_t k = 0; k < n * rows; ++k) {
    const ir::Node& entry = builder[builder.outputs()[k]];
    const bool zero = entry.op == ir::Op::Literal && entry.literal() == 0;
    columns[k % n][k / n] = zero ? kNone : builder.outputs()[k];
  }
  std::vector<Id> outputs;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t end = diagonal ? i + 1 : n;
    for (std::size_t j = i; j < end; ++j)
      outputs.push_back(dot(builder.graph(), columns[i], columns[j]));
  }
  return builder.extract(outputs, builder.leaves());
}

std::vector<std::uint32_t> all_slots(const ir::Program& f) {
  std::vector<std::uint32_t> slots(f.leaves.parameters);
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

ir::Program vjp(const ir::Program& f, Slots slots) {
  check_slots(f, slots);
  Builder builder(ir::optimize(f));
  ir::LeafCounts leaves = builder.leaves();
  const std::vector<Id> seeds = seed_leaves(builder, leaves);
  return builder.extract(reverse(builder, seeds, slots), leaves);
}

ir::Program jvp(const ir::Program& f) {
  Builder builder(ir::optimize(f));
  return builder.extract(forward(builder, tangent_leaves(builder)), builder.leaves());
}

ir::Program cost(const ir::Program& f) {
  Builder builder(ir::optimize(f));
  const Id sum = half_square(builder);
  return builder.extract(std::span(&sum, 1), builder.leaves());
}

ir::Program gradient(const ir::Program& f, Slots slots) {
  check_slots(f, slots);
  Builder builder(ir::optimize(f));
  const std::vector<Id> seeds = builder.outputs();
  return builder.extract(reverse(builder, seeds, slots), builder.leaves());
}

ir::Program gradient_and_cost(const ir::Program& f, Slots slots, bool with_rows) {
  check_slots(f, slots);
  Builder builder(ir::optimize(f));
  const std::vector<Id> rows = builder.outputs();
  std::vector<Id> outputs = reverse(builder, rows, slots);
  outputs.push_back(half_square(builder));
  if (with_rows) outputs.insert(outputs.end(), rows.begin(), rows.end());
  return builder.extract(outputs, builder.leaves());
}

ir::Program jtjp(const ir::Program& f, Slots slots) {
  check_slots(f, slots);
  Builder builder(ir::optimize(f));
  const std::vector<Id> rows = forward(builder, tangent_leaves(builder));
  return builder.extract(reverse(builder, rows, slots), builder.leaves());
}

ir::Program jtjp(const ir::Program& f, Slots slots, Slots moving) {
  check_slots(f, slots);
  check_slots(f, moving);
  Builder builder(ir::optimize(f));
  const std::vector<Id> rows = forward(builder, tangent_leaves(builder, moving));
  return builder.extract(reverse(builder, rows, slots), builder.leaves());
}

ir::Program block(const ir::Program& f, Slots slots) {
  return products_of_columns(jacobian(f, slots), slots.size());
}

ir::Program diagonal(const ir::Program& f, Slots slots) {
  return products_of_columns(jacobian(f, slots), slots.size(), true);
}

}  // namespace topograd::autodiff
