// Nodes of many programs, grouped by op and compared with backends' results for their operands.
#pragma once

#include "../../../ir/evaluate.hpp"
#include "random.hpp"

#include <array>

namespace topograd::check {

/// Rows of one op in one precision, with their programs.
struct OpRows {
  runtime::Columns operands = runtime::Columns(3);
  std::vector<std::uint64_t> seeds;
};

/// For each op, the operands of all nodes of the added programs.
using NodeTable = std::vector<OpRows>;

/// Adds the nodes of `program` (no composite ops) with the evaluator's values at `point`.
template <class T>
void add_nodes(const ir::Program& program, const ir::Inputs<T>& point, std::uint64_t seed,
               NodeTable& table);

/// Runs each op's rows on `place` and reports nodes that exceed their bounds.
template <class T>
void compare_nodes(const NodeTable& table, const Place& place, RandomReport& report);

/// Stores a failure, up to a number that a person can read.
void keep(RandomReport& report, Failure failure);

}  // namespace topograd::check
