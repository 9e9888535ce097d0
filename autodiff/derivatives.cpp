// Derivative programs: of residual blocks, second derivatives, and under a robust loss.
#include "derivatives.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "../ir/passes/passes.hpp"
#include "kinks.hpp"
#include "sweep.hpp"

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

constexpr std::array<std::uint32_t, 1> kSquare = {0};  // the loss's parameter

/// The loss and its correction terms, from the residual rows of a builder.
class Correction {
 public:
  Correction(Builder& builder, std::span<const Id> rows, const Robust& block)
      : builder_(builder), loss_(block.loss), rows_(rows.begin(), rows.end()) {
    first_uniform_ = block.residual.leaves.uniforms - loss_.leaves.uniforms;
    s_ = expr(dot(rows_, rows_));
  }

  Expr squared_norm() const { return s_; }
  Expr value() { return derivative(0); }
  Expr slope() { return derivative(1); }

  /// √ρ′ / (1 − α), the factor of the residual.
  Id residual_scale() {
    find_alpha();
    return (root_ / (1.0 - alpha_)).id;
  }
  /// W v; kNone is zero.
  std::vector<Id> apply(std::span<const Id> v) {
    find_alpha();
    if (rows_.size() == 1) {
      const Expr scale = root_ * (1.0 - alpha_);
      return {v[0] == kNone ? kNone : (scale * expr(v[0])).id};
    }
    const Id along = dot(rows_, v);
    std::vector<Id> out(v.begin(), v.end());
    for (std::size_t k = 0; k < out.size(); ++k) {
      const bool none = out[k] == kNone;
      if (none && along == kNone) continue;
      Expr sum = none ? literal(0) : expr(out[k]);
      if (along != kNone) sum = sum - alpha_over_s_ * expr(along) * expr(rows_[k]);
      out[k] = (root_ * sum).id;
    }
    return out;
  }
  std::vector<Id> scaled_rows(Id scale) {
    std::vector<Id> out;
    for (const Id row : rows_) out.push_back((expr(scale) * expr(row)).id);
    return out;
  }

 private:
  Expr expr(Id id) { return {&builder_, id == kNone ? builder_.graph().literal(0) : id}; }
  Expr literal(double value) { return {&builder_, builder_.graph().literal(value)}; }

  Id dot(std::span<const Id> a, std::span<const Id> b) {
    Id sum = kNone;
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (b[k] == kNone) continue;
      const Expr term = a[k] == b[k] ? square(expr(a[k])) : expr(a[k]) * expr(b[k]);
      sum = sum == kNone ? term.id : (expr(sum) + term).id;
    }
    return sum;
  }

  /// ρ, ρ′ or ρ″ at s.
  Expr derivative(int order) {
    ir::Program rho = ir::optimize(loss_);
    for (int k = 0; k < order; ++k) rho = jacobian(rho, kSquare);
    std::vector<Id> map;
    for (const ir::Node& node : rho.nodes) {
      ir::Graph& graph = builder_.graph();
      map.push_back(node.op == ir::Op::Parameter ? s_.id
                    : node.op == ir::Op::Uniform ? graph.leaf(node.op, first_uniform_ + node.slot())
                                                 : graph.copy(node, map));
    }
    return expr(map[rho.outputs[0]]);
  }

  void find_alpha() {
    if (root_.builder != nullptr) return;
    const Expr rho1 = derivative(1), rho2 = derivative(2), zero = literal(0);
    root_ = rho1.make(ir::Op::Sqrt);
    const Expr convex = rho2.make(ir::Op::Gt, zero).make(ir::Op::And, s_.make(ir::Op::Gt, zero));
    const Expr ratio = 1.0 + 2.0 * (s_ * rho2 / rho1);
    alpha_ = select(convex, 1.0 - ratio.make(ir::Op::Sqrt), zero);
    alpha_over_s_ = select(convex, alpha_ / s_, zero);
  }

  Builder& builder_;
  const ir::Program& loss_;
  std::vector<Id> rows_;
  std::uint32_t first_uniform_ = 0;
  Expr s_;
  Expr root_, alpha_, alpha_over_s_;  // √ρ′, α, α / s, computed on first use
};

/// W J, row-major, after the corrected residual if `with_residual`.
ir::Program corrected(const Robust& block, Slots slots, bool with_residual) {
  const ir::Program plain = residual_and_jacobian(block.residual, slots);
  Builder builder(plain);
  const std::size_t columns = slots.size(), rows = block.residual.outputs.size();
  const std::vector<Id> all = builder.outputs();
  Correction correction(builder, std::span(all).first(rows), block);
  std::vector<Id> outputs;
  if (with_residual) outputs = correction.scaled_rows(correction.residual_scale());
  const std::size_t first = outputs.size();
  outputs.resize(first + rows * columns);
  for (std::size_t c = 0; c < columns; ++c) {
    std::vector<Id> column(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      const Id entry = all[rows + r * columns + c];
      const ir::Node& node = builder[entry];
      column[r] = node.op == ir::Op::Literal && node.literal() == 0 ? kNone : entry;
    }
    column = correction.apply(column);
    for (std::size_t r = 0; r < rows; ++r) outputs[first + r * columns + c] = column[r];
  }
  return builder.extract(outputs, builder.leaves());
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

ir::Program scalar_gradient(const ir::Program& E, Slots slots) {
  expect_scalar(E);
  return jacobian(E, slots);
}

ir::Program scalar_gradient_and_value(const ir::Program& E, Slots slots) {
  expect_scalar(E);
  ir::Program both = residual_and_jacobian(E, slots);
  std::ranges::rotate(both.outputs, both.outputs.begin() + 1);
  return both;
}

// Applies forward mode to the gradient. It treats a zero derivative times an infinite tangent as
// zero; reverse mode would multiply infinite adjoints of the gradient by zero, which is NaN.
ir::Program hvp(const ir::Program& E, Slots slots) {
  const GradientWithLimits of = gradient_with_limits(E, slots);
  return with_limits(jvp(of.gradient), of.limits);
}

ir::Program hessian(const ir::Program& E, Slots slots) {
  const GradientWithLimits of = gradient_with_limits(E, slots);
  Builder builder(of.gradient);
  const ir::Id one = builder.graph().literal(1);
  const std::size_t n = slots.size();
  std::vector<ir::Id> upper(n * (n + 1) / 2);
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<ir::Id> tangents(builder.leaves().parameters, ir::kNone);
    tangents[slots[j]] = one;
    const std::vector<ir::Id> column = forward(builder, tangents);
    for (std::size_t i = 0; i <= j; ++i) upper[i * n - i * (i + 1) / 2 + j] = column[i];
  }
  return with_limits(builder.extract(upper, builder.leaves()), of.limits);
}

ir::Program residual(const Robust& block) {
  Builder builder(ir::optimize(block.residual));
  Correction correction(builder, builder.outputs(), block);
  const std::vector<Id> rows = correction.scaled_rows(correction.residual_scale());
  return builder.extract(rows, builder.leaves());
}

ir::Program cost(const Robust& block) {
  Builder builder(ir::optimize(block.residual));
  const Id half = (0.5 * Correction(builder, builder.outputs(), block).value()).id;
  return builder.extract(std::span(&half, 1), builder.leaves());
}

ir::Program loss_slope(const Robust& block) {
  Builder builder(ir::optimize(block.residual));
  Correction correction(builder, builder.outputs(), block);
  const std::array<Id, 2> outputs = {correction.squared_norm().id, correction.slope().id};
  return builder.extract(outputs, builder.leaves());
}

ir::Program jacobian(const Robust& block, Slots slots) { return corrected(block, slots, false); }

ir::Program residual_and_jacobian(const Robust& block, Slots slots) {
  return corrected(block, slots, true);
}

ir::Program gradient(const Robust& block, Slots slots) {
  check_slots(block.residual, slots);
  Builder builder(ir::optimize(block.residual));
  Correction correction(builder, builder.outputs(), block);
  const std::vector<Id> seeds = correction.scaled_rows(correction.slope().id);
  return builder.extract(reverse(builder, seeds, slots), builder.leaves());
}

ir::Program gradient_and_cost(const Robust& block, Slots slots, bool with_rows) {
  check_slots(block.residual, slots);
  Builder builder(ir::optimize(block.residual));
  Correction correction(builder, builder.outputs(), block);
  const std::vector<Id> seeds = correction.scaled_rows(correction.slope().id);
  std::vector<Id> outputs = reverse(builder, seeds, slots);
  outputs.push_back((0.5 * correction.value()).id);
  if (with_rows) {
    const std::vector<Id> rows = correction.scaled_rows(correction.residual_scale());
    outputs.insert(outputs.end(), rows.begin(), rows.end());
  }
  return builder.extract(outputs, builder.leaves());
}

ir::Program jvp(const Robust& block) {
  Builder builder(ir::optimize(block.residual));
  Correction correction(builder, builder.outputs(), block);
  const std::vector<Id> rows = forward(builder, tangent_leaves(builder));
  return builder.extract(correction.apply(rows), builder.leaves());
}

ir::Program vjp(const Robust& block, Slots slots) {
  check_slots(block.residual, slots);
  Builder builder(ir::optimize(block.residual));
  Correction correction(builder, builder.outputs(), block);
  ir::LeafCounts leaves = builder.leaves();
  const std::vector<Id> seeds = seed_leaves(builder, leaves);
  return builder.extract(reverse(builder, correction.apply(seeds), slots), leaves);
}

ir::Program jtjp(const Robust& block, Slots slots) {
  check_slots(block.residual, slots);
  Builder builder(ir::optimize(block.residual));
  Correction correction(builder, builder.outputs(), block);
  const std::vector<Id> rows = correction.apply(forward(builder, tangent_leaves(builder)));
  return builder.extract(reverse(builder, correction.apply(rows), slots), builder.leaves());
}

ir::Program jtjp(const Robust& block, Slots slots, Slots moving) {
  check_slots(block.residual, slots);
  check_slots(block.residual, moving);
  Builder builder(ir::optimize(block.residual));
  Correction correction(builder, builder.outputs(), block);
  const std::vector<Id> rows = correction.apply(forward(builder, tangent_leaves(builder, moving)));
  return builder.extract(reverse(builder, correction.apply(rows), slots), builder.leaves());
}

ir::Program block(const Robust& block, Slots slots) {
  return products_of_columns(jacobian(block, slots), slots.size());
}

ir::Program diagonal(const Robust& block, Slots slots) {
  return products_of_columns(jacobian(block, slots), slots.size(), true);
}

}  // namespace topograd::autodiff
