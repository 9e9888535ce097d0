// Values of all nodes of a program on the evaluator, the interpreter and a device, side by side.
#pragma once

#include "../frontend/problem.hpp"
#include "check_options.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace topograd {

namespace check {
struct CheckedBackend;
}

struct NodeValuesOptions {
  std::string kernel = "residual";  ///< residual, cost, gradient, jacobian or hessian
  std::size_t instance = 0;         ///< index within each topology that has it
};

/// Result of node_values().
struct NodeValues {
  std::string text;  ///< the tables
  /// True if a node on some backend deviates by more than the op table allows.
  bool differs = false;
};

/// Prints one table per topology and precision with one line per node of the kernel's program
/// (composite ops are expanded): the values of the scalar evaluator and of each backend. The
/// backends run the debug variant of the kernel, whose outputs are all of its nodes. For each
/// backend, the first node that deviates from its op, applied to the backend's own operands, by
/// more than the op table allows is marked and listed below.
///
///   where  the backends and precisions, as in `topograd check`
///
/// Reads the caller's present parameters. Throws Error{InvalidArgument} for an unknown kernel, or
/// an instance that no topology has, and what a forced device throws.
NodeValues node_values(const Problem& problem, const NodeValuesOptions& options,
                       const check::Options& where = {});
/// The same on backends that are open.
///
///   backends  at least one, of one or more precisions (check::open_backends())
NodeValues node_values(const Problem& problem, const NodeValuesOptions& options,
                       std::span<const check::CheckedBackend> backends);

/// The same for one residual at one point.
///
///   at  parameters, data, uniforms, in this order
///
/// Throws Error{Shape} if the number of values is wrong.
NodeValues node_values(const ir::Program& residual, std::span<const double> at,
                       const NodeValuesOptions& options, const check::Options& where = {});
NodeValues node_values(const ir::Program& residual, std::span<const double> at,
                       const NodeValuesOptions& options,
                       std::span<const check::CheckedBackend> backends);

}  // namespace topograd
