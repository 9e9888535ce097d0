// Adds groups of residual blocks to a Problem.
#pragma once

#include "../../frontend/problem.hpp"
#include "row_groups.hpp"

#include <string_view>
#include <vector>

namespace topograd::python {

/// Options of added blocks.
struct AddOptions {
  Loss loss;
  std::string_view label = {};
  bool energy = false;
};

/// Added blocks, and the elements of the traced array that are the rows, in the problem's order.
struct AddedRows {
  std::vector<Residuals> maps;
  std::vector<Index> rows;
};

/// Adds the blocks of a group as maps, one for each combination of arrays and coordinates that its
/// parameter leaves read. Unknowns are numbered as in x.
///
///   arrays  the problem's arrays of unknowns, in the order of x
///
/// Throws what Problem::add_residuals throws. Cost: linear in blocks times columns.
void add_rows(Problem& problem, const std::vector<Parameters>& arrays, const RowGroup& group,
              const AddOptions& options, AddedRows& added);

}  // namespace topograd::python
