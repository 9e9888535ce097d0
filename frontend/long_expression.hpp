// How residual blocks with long expressions are evaluated on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace topograd {

class Problem;
class Value;
struct ResidualOptions;
struct Residuals;

/// How the nodes of a long expression are evaluated.
enum class Rolling : std::uint8_t {
  loop,       ///< steps that repeat are stored once and evaluated as a loop
  backward,   ///< derivatives go backward through all nodes: far more unknowns than rows
  wide,       ///< each step has many operations, which are evaluated op by op
  irregular,  ///< most of it does not repeat itself, or reads what has no fixed distance
};

/// A residual block with a long expression, or several that share its evaluation.
struct LongExpression {
  std::string label;
  std::size_t blocks = 0, rows = 0, unknowns = 0;
  std::size_t operations = 0;  ///< of all rows together
  Rolling rolling = Rolling::irregular;
  std::size_t steps = 0;            ///< of the longest loop that was found; 0: none
  std::size_t states = 0;           ///< numbers that a step of it hands on
  std::size_t step_operations = 0;  ///< of one step
  std::size_t bytes = 0;            ///< kept between evaluations
  std::size_t work_bytes = 0;       ///< of an evaluation with derivatives; 0: unknown

  bool operator==(const LongExpression&) const = default;
};

/// Adds a residual block for each `width` rows. Rows that are the ends of one long computation,
/// such as the states of a simulation, share its evaluation, as those of one block do; each block
/// has a loss and a place of its own.
///
/// Rows with fewer than 1,024 nodes in all, and those that one block could not have
/// (docs/modelling.md), are added one block after the other.
///
///   rows   in the order of the blocks
///   width  rows of a block; divides their number
///
/// Throws Error{Shape} for another width and for no rows, and what Problem::add_residual() throws.
Residuals add_shared_residuals(Problem& problem, std::span<const Value> rows,
                               const ResidualOptions& options, std::size_t width = 1);

/// "a loop of 1000 steps, each of 9 operations on 2 states", or why it is none.
std::string text(const LongExpression& expression);

}  // namespace topograd
