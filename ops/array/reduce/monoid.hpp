// Internal: what is folded by reductions and scans, as text of kernels.
#pragma once

#include "../../backend/kernel_text.hpp"
#include "../map_kernel.hpp"
#include "reduce.hpp"

#include <optional>
#include <string>
#include <vector>

namespace topograd::ops {

/// A state of one or two members, `struct State { T m0; U m1; }`, and how it is made and combined.
struct Monoid {
  ir::Hash128 key;
  std::vector<Type> members;
  /// State, identity(), combine(State, State) and what they need.
  std::string functions;
  /// Of a State s that holds one element's number `v` at index `place`.
  std::string from_element;
  /// The result as an expression of State s.
  std::string result;
  /// Words that the functions read, by name and bits.
  std::vector<std::string> word_names;
  std::vector<std::uint32_t> words;
  /// combine(a, b) may differ from combine(b, a): elements are kept in their order.
  bool ordered = false;
};

/// A reduction of elements of that type.
Monoid monoid_of(Reduction reduction, Type type);

/// Of an expression of two numbers with an identity; the state is a number of `precision`.
/// `element` is written beside it, as a function of that name, if it is given.
Monoid monoid_of(const FittedExpression& fold, double identity, codegen::Precision precision,
                 const ir::Program* element);

/// Keeps elements in order, unless the function of two is seen to commute.
void order_by(const Expression& fold, Monoid& monoid);

/// What an item of a reduction is: statements of a function that sets `v` from x0(i), x1(i).
struct ReductionItem {
  ir::Hash128 key;
  std::string functions;
  std::string statements;
};

/// What is folded of one array: how its elements become states, and states elements of a result.
struct FoldForm {
  Monoid monoid;
  ReductionItem item;
  std::string result;     ///< of the number {0}
  std::string functions;  ///< that it calls

  /// `State item(uint i)`, of a place `base + i` in the array.
  std::string item_function(std::string_view base = "0u") const;
  /// Of a state that is written so.
  std::string result_of(const std::string& state) const;
};
FoldForm form_of(Reduction reduction, Type type);
///   room  words of push constants that its numbers may have
FoldForm form_of(const Expression& fold, double identity, Type type, std::uint32_t room);

/// Reads and writes the state's members at p0(i), p1(i).
std::string load_state(const Monoid& monoid, const std::string& index);
std::string store_state(const Monoid& monoid, const std::string& index, const std::string& state);

/// Adds the arrays p0, p1 of the state's members to a kernel's arguments.
void add_members(const Monoid& monoid, Access access, KernelParts& parts);

/// Functions on numbers that kernels share: is_nan, infinities.
std::string number_functions(Type type);

/// Tree over `shared_states`, valid in invocation 0. Order is kept: of neighbours, the earlier
/// comes first.
std::string tree_text(std::uint32_t local);

}  // namespace topograd::ops
