// Adds groups of residual blocks to a Problem.
#pragma once

#include "../../frontend/problem.hpp"
#include "row_groups.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace topograd::python {

/// Options of added blocks.
struct AddOptions {
  BlockKind kind = BlockKind::residual;
  Loss loss = {};  ///< of residuals
  std::string_view label = {};
  bool joins_sharing = false;  ///< rows that share one evaluation become one block
};

/// Arrays whose elements parameter leaves of a group stand for.
struct LeafArrays {
  const std::vector<Parameters>& unknowns;  ///< in the order of x
  const std::vector<Data>& data;            ///< of width 1, in the order of adding
};

/// The number of the array that has an unknown of x. Cost: logarithmic in arrays.
std::uint32_t array_of(const std::vector<Parameters>& arrays, Index unknown);

/// Added blocks, and the elements of the traced array that are the rows, in the problem's order.
struct AddedRows {
  std::vector<Residuals> maps;
  std::vector<Index> rows;
};

/// The robust loss ρ(s) that a traced array is: it has one element, which reads unknown 0, s.
/// Throws what Loss::custom throws.
Loss traced_loss(const ArrayGraph& graph, NodeId root);

/// Adds the blocks of a group as maps, one for each combination of arrays and coordinates that its
/// parameter leaves read. Unknowns are numbered as in x.
///
/// Throws what Problem::add_residuals throws. Cost: linear in blocks times columns.
void add_rows(Problem& problem, const LeafArrays& arrays, const RowGroup& group,
              const AddOptions& options, AddedRows& added);

/// Adds the rows of a group with one block as residual blocks of `width` rows that share their
/// evaluation: long expressions are evaluated node by node. Throws what add_residual() throws.
Residuals add_sharing(Problem& problem, const LeafArrays& arrays, const RowGroup& group,
                      std::size_t width, const AddOptions& options, bool whatever_the_size);

/// The same for elements of the root of a graph, which is evaluated operation by operation on whole
/// arrays.
struct ArrayBlocks {
  Residuals blocks;
  std::size_t operations = 0, unknowns = 0;
};
/// Nothing, and nothing is added, if it is no program for that (ArraySweep::make,
/// LongBlocks::add_arrays).
std::optional<ArrayBlocks> add_arrays(Problem& problem, const LeafArrays& arrays,
                                      const ArrayGraph& graph, NodeId root,
                                      const std::vector<Index>& rows, std::size_t width,
                                      const AddOptions& options);

}  // namespace topograd::python
