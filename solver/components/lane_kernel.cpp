// Programs of residual blocks that add to sums of their components.
#include "lane_kernel.hpp"

#include "../../autodiff/derivatives.hpp"
#include "../../ir/passes/passes.hpp"
#include "../../ir/program.hpp"

#include <algorithm>
#include <utility>

namespace topograd {
namespace {

using ir::Id;
using ir::Op;

std::uint32_t parameters_of(const ComponentKernel& of) {
  return static_cast<std::uint32_t>(of.free.size());
}

std::uint32_t data_of(const ComponentKernel& of) {
  const ir::LeafCounts& leaves = of.term->topology->program.leaves;
  return leaves.data + leaves.uniforms;
}

std::vector<std::uint32_t> free_of(const ComponentKernel& of) {
  std::vector<std::uint32_t> free;
  for (std::uint32_t p = 0; p < of.free.size(); ++p)
    if (of.free[p] != 0) free.push_back(p);
  return free;
}

/// Builds programs whose leaves are data alone.
class Builder {
 public:
  explicit Builder(const ComponentKernel& of) : of_(of) {}

  /// Appends a program over the term's slots; returns its outputs.
  std::vector<Id> append(const ir::Program& program) {
    const ir::LeafCounts& leaves = of_.term->topology->program.leaves;
    std::vector<Id> map(program.nodes.size());
    for (Id id = 0; id < program.nodes.size(); ++id) {
      const ir::Node& node = program.nodes[id];
      if (node.op == Op::Parameter) {
        map[id] = graph_.leaf(Op::Data, data_of(of_) + of_.parameter_of_slot[node.slot()]);
      } else if (node.op == Op::Uniform) {
        map[id] = graph_.leaf(Op::Data, leaves.data + node.slot());
      } else {
        map[id] = graph_.copy(node, map);
      }
    }
    std::vector<Id> outputs;
    for (const Id id : program.outputs) outputs.push_back(map[id]);
    return outputs;
  }

  Id sum(std::uint32_t number) {
    return graph_.leaf(Op::Data, data_of(of_) + parameters_of(of_) + number);
  }
  /// sum + a b.
  Id add_product(Id sum, Id a, Id b) {
    const Id product = a == b ? graph_.add(Op::Square, a) : graph_.add(Op::Mul, a, b);
    return graph_.add(Op::Add, product, sum);
  }
  Id add(Id a, Id b) { return graph_.add(Op::Add, a, b); }
  Id literal(double value) { return graph_.literal(value); }
  bool is_zero(Id id) const { return graph_[id].op == Op::Literal && graph_[id].literal() == 0; }
  ir::Program take(const std::vector<Id>& outputs, std::uint32_t sums) const {
    const ir::LeafCounts leaves{.data = data_of(of_) + parameters_of(of_) + sums};
    return ir::optimize(graph_.extract(outputs, leaves));
  }

 private:
  const ComponentKernel& of_;
  ir::Graph graph_;
};

/// The rows and the Jacobian of a term over some slots.
ir::Program rows_of(const runtime::Term& term, const std::vector<std::uint32_t>& slots) {
  const ir::Program& f = term.topology->program;
  return term.loss == nullptr ? autodiff::residual_and_jacobian(f, slots)
                              : autodiff::residual_and_jacobian({f, *term.loss}, slots);
}

std::vector<std::uint32_t> free_slots(const ComponentKernel& of) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t s = 0; s < of.parameter_of_slot.size(); ++s)
    if (of.free[of.parameter_of_slot[s]] != 0) slots.push_back(s);
  return slots;
}

/// r, then J by free parameter, where slots of one scalar are added.
std::vector<Id> build_rows(Builder& builder, const ComponentKernel& of) {
  const std::vector<std::uint32_t> slots = free_slots(of);
  const std::vector<Id> all = builder.append(rows_of(*of.term, slots));
  const std::vector<std::uint32_t> free = free_of(of);
  const std::size_t rows = of.term->topology->program.outputs.size();
  std::vector<Id> out(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rows));
  for (std::size_t r = 0; r < rows; ++r) {
    for (const std::uint32_t p : free) {
      Id entry = builder.literal(0);
      for (std::size_t s = 0; s < slots.size(); ++s) {
        if (of.parameter_of_slot[slots[s]] != p) continue;
        const Id part = all[rows + r * slots.size() + s];
        entry = builder.is_zero(entry) ? part : builder.add(entry, part);
      }
      out.push_back(entry);
    }
  }
  return out;
}

ir::Program rows_program(const ComponentKernel& of) {
  Builder builder(of);
  const std::vector<Id> rows = build_rows(builder, of);
  return builder.take(rows, 0);
}

/// Upper triangle of the Hessian by free parameter, where slots of one scalar are added.
ir::Program curvature_program(const ComponentKernel& of) {
  const runtime::Term& term = *of.term;
  const ir::Program& f = term.topology->program;
  const ir::Program cost =
      term.loss == nullptr ? autodiff::cost(f) : autodiff::cost(autodiff::Robust{f, *term.loss});
  const std::vector<std::uint32_t> slots = free_slots(of), free = free_of(of);
  Builder builder(of);
  const std::vector<Id> all = builder.append(autodiff::hessian(cost, slots));
  const std::size_t n = slots.size();
  const auto parameter = [&](std::size_t s) { return of.parameter_of_slot[slots[s]]; };
  std::vector<Id> out;
  for (std::size_t a = 0; a < free.size(); ++a) {
    for (std::size_t b = a; b < free.size(); ++b) {
      Id sum = builder.literal(0);
      for (std::size_t s = 0; s < n; ++s) {
        for (std::size_t t = 0; t < n; ++t) {
          if (parameter(s) != free[a] || parameter(t) != free[b]) continue;
          const std::size_t i = std::min(s, t), j = std::max(s, t);
          const Id part = all[i * n - i * (i + 1) / 2 + j];
          sum = builder.is_zero(sum) ? part : builder.add(sum, part);
        }
      }
      out.push_back(sum);
    }
  }
  return builder.take(out, 0);
}

/// before + twice the cost of a block with these rows.
Id add_cost(Builder& builder, const ComponentKernel& of, const std::vector<Id>& rows, Id before) {
  const ir::Program& f = of.term->topology->program;
  if (of.term->loss != nullptr) {
    const Id half = builder.append(autodiff::cost(autodiff::Robust{f, *of.term->loss}))[0];
    return builder.add(builder.add(half, half), before);
  }
  for (std::size_t r = 0; r < f.outputs.size(); ++r)
    before = builder.add_product(before, rows[r], rows[r]);
  return before;
}

/// Outputs: sums with what the block adds; `sums`: their numbers.
ir::Program sums_program(const ComponentKernel& of, std::vector<std::uint32_t>& sums) {
  Builder builder(of);
  const std::vector<Id> rows = build_rows(builder, of);
  const std::size_t m = of.term->topology->program.outputs.size();
  const auto n = static_cast<std::uint32_t>(free_of(of).size());
  const auto entry = [&](std::size_t r, std::uint32_t k) { return rows[m + r * n + k]; };
  std::vector<Id> outputs;
  const auto add = [&](std::uint32_t number, Id before, Id after) {
    if (after == before) return;
    sums.push_back(number);
    outputs.push_back(after);
  };
  add(0, builder.sum(0), add_cost(builder, of, rows, builder.sum(0)));
  std::uint32_t number = 1;
  for (std::uint32_t a = 0; a < n; ++a, ++number) {
    Id sum = builder.sum(number);
    for (std::size_t r = 0; r < m; ++r)
      if (!builder.is_zero(entry(r, a))) sum = builder.add_product(sum, entry(r, a), rows[r]);
    add(number, builder.sum(number), sum);
  }
  for (std::uint32_t a = 0; a < n; ++a) {
    for (std::uint32_t b = a; b < n; ++b, ++number) {
      Id sum = builder.sum(number);
      for (std::size_t r = 0; r < m; ++r)
        if (!builder.is_zero(entry(r, a)) && !builder.is_zero(entry(r, b)))
          sum = builder.add_product(sum, entry(r, a), entry(r, b));
      add(number, builder.sum(number), sum);
    }
  }
  return builder.take(outputs, number);
}

}  // namespace

ir::Program cost_and_rows(const ComponentKernel& of) {
  Builder builder(of);
  std::vector<Id> outputs = build_rows(builder, of);
  outputs.insert(outputs.begin(), add_cost(builder, of, outputs, builder.literal(0)));
  return builder.take(outputs, 0);
}

LaneKernel::LaneKernel(const ComponentKernel& of, codegen::Bits bits)
    : of_(&of),
      bits_(bits),
      data_(data_of(of)),
      parameters_(parameters_of(of)),
      row_count_(of.term->topology->program.outputs.size()),
      free_(free_of(of)),
      added_(sums_program(of, sums_)),
      tile_(added_, runtime::cpu::tile_ops<double>(bits)),
      rows_(rows_program(of), runtime::cpu::tile_ops<double>(bits)) {}

const runtime::cpu::TileKernel<double>& LaneKernel::curvature() const {
  std::call_once(curvature_->once, [&] {
    curvature_->tile.emplace(curvature_program(*of_), runtime::cpu::tile_ops<double>(bits_));
  });
  return *curvature_->tile;
}

}  // namespace topograd
