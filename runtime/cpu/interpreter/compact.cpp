// Choice of stored outputs, and J·p from stored columns.
#include "compact.hpp"

#include "../../../ir/passes/passes.hpp"
#include "../../../ir/program.hpp"

#include <algorithm>
#include <map>

namespace topograd::runtime::cpu {

using ir::Id;
using ir::kNone;
using ir::Op;

CompactProgram compact(const ir::Program& program, std::size_t compacted) {
  compacted = std::min(compacted, program.outputs.size());
  CompactProgram result{.program = program};
  std::vector<Id>& columns = result.program.outputs;
  columns.clear();
  std::vector<std::uint32_t> column_of(program.nodes.size(), kNone);
  for (Id id : std::span(program.outputs).first(compacted)) {
    OutputSource source{.scale = 1};
    for (; program.nodes[id].op == Op::Neg; id = program.nodes[id].args[0]) source.scale *= -1;
    const ir::Node& node = program.nodes[id];
    if (node.op == Op::Literal) {
      source.scale *= node.literal();
    } else if (node.op == Op::Data) {
      source.kind = OutputSource::Kind::Data;
      source.index = node.slot();
    } else {
      source.kind = OutputSource::Kind::Column;
      if (column_of[id] == kNone) {
        column_of[id] = static_cast<std::uint32_t>(columns.size());
        columns.push_back(id);
      }
      source.index = column_of[id];
    }
    result.sources.push_back(source);
  }
  columns.insert(columns.end(), program.outputs.begin() + static_cast<std::ptrdiff_t>(compacted),
                 program.outputs.end());
  result.program = ir::remove_dead(result.program);
  return result;
}

namespace {

struct ScaledSlot {
  std::uint32_t slot;
  double scale;
};

// Sum of scale * p over the slots.
Id sum_of_p(ir::Graph& graph, std::span<const ScaledSlot> slots) {
  Id sum = kNone;
  for (const auto& [slot, scale] : slots) {
    const Id p = graph.leaf(Op::Parameter, slot);
    const bool unit = scale == 1 || scale == -1;
    const Id term = unit ? p : graph.add(Op::Mul, graph.literal(scale), p);
    if (sum != kNone) {
      sum = graph.add(scale == -1 ? Op::Sub : Op::Add, sum, term);
    } else {
      sum = scale == -1 ? graph.add(Op::Neg, term) : term;
    }
  }
  return sum;
}

// The column of an entry that is not a literal; stored columns come after `data`.
Id column_of(ir::Graph& graph, const OutputSource& entry, std::uint32_t data) {
  const bool stored = entry.kind == OutputSource::Kind::Column;
  return graph.leaf(Op::Data, entry.index + (stored ? data : 0));
}

// One row of J times p: p's that share a column are summed first.
Id row_times_p(ir::Graph& graph, std::span<const OutputSource> row, std::uint32_t data) {
  using Key = std::pair<OutputSource::Kind, std::uint32_t>;
  std::map<Key, std::vector<ScaledSlot>> by_column;
  for (std::uint32_t slot = 0; slot < row.size(); ++slot) {
    if (row[slot].scale == 0) continue;
    by_column[{row[slot].kind, row[slot].index}].push_back({slot, row[slot].scale});
  }
  Id sum = kNone;
  for (const auto& [key, slots] : by_column) {
    Id group = sum_of_p(graph, slots);
    if (key.first != OutputSource::Kind::Literal)
      group = graph.add(Op::Mul, group, column_of(graph, {key.first, key.second}, data));
    sum = sum == kNone ? group : graph.add(Op::Add, sum, group);
  }
  return sum == kNone ? graph.literal(0) : sum;
}

std::vector<Id> rows_times_p(ir::Graph& graph, std::span<const OutputSource> sources,
                             std::size_t rows, std::uint32_t data) {
  std::vector<Id> products;
  const std::size_t columns = rows == 0 ? 0 : sources.size() / rows;
  for (std::size_t row = 0; row < rows; ++row)
    products.push_back(row_times_p(graph, sources.subspan(row * columns, columns), data));
  return products;
}

// sum + scale times a product with a column; kNone is 0.
Id add_scaled(ir::Graph& graph, Id sum, double scale, Id product) {
  if (scale == -1 && sum != kNone) return graph.add(Op::Sub, sum, product);
  if (scale == -1) return graph.add(Op::Neg, product);
  if (scale != 1) product = graph.add(Op::Mul, graph.literal(scale), product);
  return sum == kNone ? product : graph.add(Op::Add, sum, product);
}

}  // namespace

ir::Program stored_jvp(std::span<const OutputSource> sources, std::size_t rows,
                       const ir::LeafCounts& leaves, std::uint32_t stored) {
  ir::Graph graph;
  const std::vector<Id> outputs = rows_times_p(graph, sources, rows, leaves.data);
  return graph.extract(outputs, {.parameters = leaves.parameters, .data = leaves.data + stored});
}

ir::Program stored_jtjp(std::span<const OutputSource> sources, std::size_t rows,
                        const ir::LeafCounts& leaves, std::uint32_t stored) {
  ir::Graph graph;
  const std::vector<Id> products = rows_times_p(graph, sources, rows, leaves.data);
  const std::size_t columns = rows == 0 ? 0 : sources.size() / rows;
  std::vector<Id> outputs;
  for (std::size_t slot = 0; slot < columns; ++slot) {
    Id sum = kNone;
    for (std::size_t row = 0; row < rows; ++row) {
      const OutputSource& entry = sources[row * columns + slot];
      if (entry.scale == 0) continue;
      Id product = products[row];
      if (entry.kind != OutputSource::Kind::Literal)
        product = graph.add(Op::Mul, product, column_of(graph, entry, leaves.data));
      sum = add_scaled(graph, sum, entry.scale, product);
    }
    outputs.push_back(sum == kNone ? graph.literal(0) : sum);
  }
  return graph.extract(outputs, {.parameters = leaves.parameters, .data = leaves.data + stored});
}

}  // namespace topograd::runtime::cpu
