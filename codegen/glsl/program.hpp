// Straight-line programs as GLSL statements, and as functions for kernels outside the solver.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../ir/program.hpp"
#include "../kernel.hpp"
#include "shader.hpp"

namespace topograd::codegen {

/// A program in writing order, with the uses of its nodes.
struct Prepared {
  ir::Program program;
  std::vector<bool> live;          ///< by node: an output (or guard) depends on it
  std::vector<bool> as_number;     ///< by node: its number is read
  std::vector<bool> as_condition;  ///< by node: it is used as a condition
  /// It has so many operations that compilers of drivers take long: its source is shorter, with
  /// calls or loops where it repeats itself, and a little less plain.
  bool is_long = false;
  /// By node: a zmul that is 0 where either factor is 0. Empty if there is none.
  std::vector<bool> zero_by_either;

  bool is_zero_by_either(ir::Id id) const { return !zero_by_either.empty() && zero_by_either[id]; }
  /// Adds the number of live nodes of each computing op; nodes of `repeated` count `times` times.
  void count_operations(std::array<std::uint32_t, ir::kOpCount>& counts,
                        const std::vector<bool>& repeated = {}, std::uint32_t times = 1) const;
};

/// Expands composite ops, orders nodes and finds live ones; guards count only if `with_guards`.
Prepared prepare(const ir::Program& program, bool with_guards = false);

/// Expressions for leaves, by slot; only those of live leaves are read.
struct LeafNames {
  std::vector<std::string> parameters, tangents, data, uniforms, seeds;

  std::string& at(ir::Op op, std::uint32_t slot);
  const std::string& at(ir::Op op, std::uint32_t slot) const;

 private:
  const std::vector<std::string>* space(ir::Op op) const;
};

/// Expressions for the results of a program.
struct Written {
  std::vector<std::string> outputs;  ///< numbers
  std::string failed;                ///< condition that a guard failed; empty without guards
};

/// Expressions for some nodes of a program, by node; empty for the others.
struct Expressions {
  /// A member of a structure that a function of lanes has filled.
  struct Member {
    std::string structure, type, name;
  };
  std::vector<std::string> numbers, conditions;
  std::map<ir::Id, Member> members;  ///< of nodes whose expression is one
};

/// Writes loop invariants before a loop: roots, quotients and functions of literals, parameters and
/// tangents of `slots`, with their operands. Cheaper operations stay in the loop, where they hold
/// no registers. Statements are those of write_program(); names begin with `prefix`.
Expressions write_invariant(const Prepared& prepared, std::span<const std::uint32_t> slots,
                            const LeafNames& names, Precision precision, std::string_view prefix,
                            Shader& shader);

struct Roll;  // roll.hpp

/// Live nodes that depend on a tangent.
std::vector<bool> along_tangents(const Prepared& prepared);

/// Writes all nodes that do not depend on a tangent, likewise; with loops if there is a `roll`.
Expressions write_without_tangents(const Prepared& prepared, const LeafNames& names,
                                   Precision precision, std::string_view prefix, Shader& shader,
                                   const Roll* roll = nullptr);

/// Appends one `precise` statement per operation to the body of the shader, named t0, t1, ...
/// (numbers) and b0, b1, ... (conditions); skips nodes that are `known`. With a `roll`, those of
/// its groups are in loops.
Written write_program(const Prepared& prepared, const LeafNames& names, Precision precision,
                      Shader& shader, const Expressions& known = {}, const Roll* roll = nullptr);

/// `void NAME(in T p0, in T p1, ..., in T d0, ..., out T r0, ...)`: all parameter slots, then all
/// data slots, then the outputs. The library functions that it needs are written before it.
///
///   precision  f32 or f64, the precision of T
///
/// If the program has zeros or numbers that are not finite, the source reads the uint `zero_bits`,
/// a 0 that compilers do not know; the shader must declare it first. Functions of one precision in
/// one shader must be written by one call: `programs` and `names` correspond.
///
/// Throws Error{InvalidArgument} for guards and for leaves of other kinds.
struct NamedProgram {
  std::string_view name;
  const ir::Program* program;
};
std::string write_functions(std::span<const NamedProgram> programs, Precision precision);

}  // namespace topograd::codegen
