// Which outputs need a column, and J·p from stored columns.
#include "compact.hpp"

#include "../../../ir/graph.hpp"
#include "../../../ir/passes/passes.hpp"

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

// One row of J times p: the p's that meet the same column are summed first.
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
    if (key.first != OutputSource::Kind::Literal) {
      const bool stored = key.first == OutputSource::Kind::Column;
      group = graph.add(Op::Mul, group, graph.leaf(Op::Data, key.second + (stored ? data : 0)));
    }
    sum = sum == kNone ? group : graph.add(Op::Add, sum, group);
  }
  return sum == kNone ? graph.literal(0) : sum;
}

}  // namespace

ir::Program stored_jvp(std::span<const OutputSource> sources, std::size_t rows,
                       const ir::LeafCounts& leaves, std::uint32_t stored) {
  ir::Graph graph;
  std::vector<Id> outputs;
  const std::size_t columns = rows == 0 ? 0 : sources.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    outputs.push_back(row_times_p(graph, sources.subspan(row * columns, columns), leaves.data));
  }
  return graph.extract(outputs, {.parameters = leaves.parameters, .data = leaves.data + stored});
}

}  // namespace topograd::runtime::cpu
