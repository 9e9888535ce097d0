// Writing programs as infix formulas.
#pragma once

#include "program.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace topograd {

/// Names of leaves in an expression: the k-th name of a list is slot k of that leaf space.
///
/// A name is a letter or underscore, then letters, digits and underscores; it may end in a
/// coordinate, "a[0]". a.x, a.y, a.z and a.w are other spellings of a[0] to a[3].
struct ExpressionNames {
  std::vector<std::string> parameters, data, uniforms;
};

/// A program as formulas that parse() (api/expression/expression.hpp) reads back.
struct Formulas {
  /// Sub-expressions that are used more than once (or are too long for one line) and their names
  /// t1, t2, ..., each in terms of leaves and earlier ones.
  std::vector<std::pair<std::string, std::string>> definitions;
  std::vector<std::string> outputs;

  /// The input of parse(): one line "t1 = ...;" for each definition, then the outputs, separated by
  /// ";" and line feed.
  std::string text() const;
};

/// Writes a program in infix notation with as few parentheses as parse() needs. Tangents have the
/// name of their parameter after a "d", seeds are s0, s1, ...; guards are left out. Throws
/// Error{InvalidArgument} if a leaf has no name. Cost: linear in the nodes, independent of depth.
///
///   first  number of the first definition
Formulas formulas(const ir::Program& program, const ExpressionNames& names, std::size_t first = 1);

}  // namespace topograd
