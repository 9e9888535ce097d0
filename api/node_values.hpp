// Every node's value on the evaluator, the interpreter and a device, side by side.
#pragma once

#include "../frontend/problem.hpp"
#include "check/programs/runners.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace topograd {

struct NodeValuesOptions {
  std::string kernel = "residual";  ///< residual, cost, gradient, jacobian or hessian
  std::size_t instance = 0;         ///< of each topology that has it
};

/// What node_values() found.
struct NodeValues {
  std::string text;      ///< the tables
  bool differs = false;  ///< a place was farther off than the op table allows, at some node
};

/// A table a topology and precision: one line a node of the kernel's program (composite ops written
/// with others), with its value by the scalar evaluator and by each place. The places run the debug
/// variant of the kernel, whose outputs are all of its nodes. The first node of a place that is
/// farther from its op, applied to that place's own operands, than the op table allows is marked
/// and named below.
///
///   places  of one or more precisions, at least one (check::open_places())
///
/// Reads the caller's present parameters. Throws Error{InvalidArgument} for another kernel, or an
/// instance that no topology has.
NodeValues node_values(const Problem& problem, const NodeValuesOptions& options,
                       std::span<const check::Place> places);

/// The same of one residual at one point.
///
///   at  parameters, data, uniforms, in this order
///
/// Throws Error{Shape} for another count of numbers.
NodeValues node_values(const ir::Program& residual, std::span<const double> at,
                       const NodeValuesOptions& options, std::span<const check::Place> places);

}  // namespace topograd
