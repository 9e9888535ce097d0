// The scalar evaluator: the meaning of every op.
#pragma once

#include "program.hpp"

#include <span>
#include <vector>

namespace topograd::ir {

/// Value of one non-leaf op on scalars; unused operands are ignored. T is float, double or long
/// double.
template <class T>
T apply(Op op, T a, T b = 0, T c = 0);

/// Numbers that the leaves of a program read, by slot. Spans may be longer than needed.
template <class T>
struct Inputs {
  std::span<const T> parameters;
  std::span<const T> data;
  std::span<const T> uniforms;
  std::span<const T> tangents;
  std::span<const T> seeds;
};

/// Values of all nodes, in node order. Throws Error{Shape} if a leaf's slot is beyond its span.
template <class T>
std::vector<T> evaluate_nodes(const Program& program, const Inputs<T>& inputs);

/// Values of the outputs, in order.
template <class T>
std::vector<T> evaluate(const Program& program, const Inputs<T>& inputs);

}  // namespace topograd::ir
