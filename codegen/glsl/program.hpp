// Straight-line programs as GLSL statements.
#pragma once

#include "../../ir/program.hpp"
#include "shader.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::codegen {

/// A program in the order in which it is written, and which of its nodes are needed as what.
struct Prepared {
  ir::Program program;
  std::vector<bool> live;          ///< by node: an output (or guard) depends on it
  std::vector<bool> as_number;     ///< by node: somebody reads its number
  std::vector<bool> as_condition;  ///< by node: somebody branches on it

  /// Adds the number of live nodes of each op that computes something.
  void count_operations(std::array<std::uint32_t, ir::kOpCount>& counts) const;
};

/// Expands composite ops, orders the nodes and finds the needed ones; guards count only
/// `with_guards`.
Prepared prepare(const ir::Program& program, bool with_guards = false);

/// Expressions that stand for leaves, by slot; only those of live leaves are read.
struct LeafNames {
  std::vector<std::string> parameters, tangents, data, uniforms, seeds;

  std::string& at(ir::Op op, std::uint32_t slot);
  const std::string& at(ir::Op op, std::uint32_t slot) const;

 private:
  const std::vector<std::string>* space(ir::Op op) const;
};

/// What stands for the results of a program.
struct Written {
  std::vector<std::string> outputs;  ///< numbers
  std::string failed;                ///< condition that a guard failed; empty without guards
};

/// What stands for some nodes of a program, by node; empty for the others.
struct Expressions {
  std::vector<std::string> numbers, conditions;
};

/// Writes, in front of a loop, what is the same each time around: roots, quotients and functions of
/// nothing but literals, parameters and tangents of `slots`, and what these are made of. Cheaper
/// operations stay in the loop, where they hold no registers. Statements are those of
/// write_program, names begin with `prefix`.
Expressions write_invariant(const Prepared& prepared, std::span<const std::uint32_t> slots,
                            const LeafNames& names, Precision precision, std::string_view prefix,
                            Shader& shader);

/// Appends one statement for each operation, `precise`, named t0, t1, ... (numbers) and b0, b1, ...
/// (conditions), to the body of the shader, but for what is `known` already.
Written write_program(const Prepared& prepared, const LeafNames& names, Precision precision,
                      Shader& shader, const Expressions& known = {});

}  // namespace topograd::codegen
