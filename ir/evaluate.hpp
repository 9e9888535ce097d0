// The scalar evaluator: the meaning of every op.
#pragma once

#include "program.hpp"

#include <span>
#include <vector>

namespace topograd::ir {

/// Evaluates one non-leaf op; unused operands are ignored. T is float, double or long double.
template <class T>
T apply(Op op, T a, T b = 0, T c = 0);

/// Values of a program's leaves, by slot. Spans may be longer than needed.
template <class T>
struct Inputs {
  std::span<const T> parameters;
  std::span<const T> data;
  std::span<const T> uniforms;
  std::span<const T> tangents;
  std::span<const T> seeds;
};

/// Returns the values of all nodes, in order. Throws Error{Shape} if a leaf's slot is beyond its
/// span.
template <class T>
std::vector<T> evaluate_nodes(const Program& program, const Inputs<T>& inputs);

/// Returns the values of the outputs, in order.
template <class T>
std::vector<T> evaluate(const Program& program, const Inputs<T>& inputs);

}  // namespace topograd::ir
