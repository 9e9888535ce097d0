// Internal: states of reductions and scans as kernel source, and reductions on devices.
#pragma once

#include "../../backend/compute_kernel.hpp"
#include "../map_kernel.hpp"
#include "reduce.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::ops {

/// A state of one or two members, `struct State { T m0; U m1; }`, with its functions.
struct Monoid {
  ir::Hash128 key;
  std::vector<Type> members;
  /// State, identity(), combine(State, State) and their helper functions.
  std::string functions;
  /// Statements that make a State s from the number `v` at index `place`.
  std::string from_element;
  /// The result as an expression of State s.
  std::string result;
  /// Words that the functions read: names and bits.
  std::vector<std::string> word_names;
  std::vector<std::uint32_t> words;
  /// True if combine(a, b) may differ from combine(b, a): elements must stay in order.
  bool ordered = false;
};

/// A reduction of elements of that type.
Monoid monoid_of(Reduction reduction, Type type);

/// For an expression of two numbers with an identity; the state is a number of `precision`. If
/// `element` is given, it becomes a function of that name.
Monoid monoid_of(const FittedExpression& fold, double identity, codegen::Precision precision,
                 const ir::Program* element);

/// Requires ordered elements, unless the function of two numbers is known to commute.
void order_by(const Expression& fold, Monoid& monoid);

/// An item of a reduction: statements of a function that computes `v` from x0(i), x1(i).
struct ReductionItem {
  ir::Hash128 key;
  std::string functions;
  std::string statements;
};

/// A fold over one array: conversions from elements to states, and from states to results.
struct FoldForm {
  Monoid monoid;
  ReductionItem item;
  std::string result;     ///< result for the number {0}
  std::string functions;  ///< functions that it calls

  /// `State item(uint i)`, for position `base + i` of the array.
  std::string item_function(std::string_view base = "0u") const;
  /// The result for an expression of a state.
  std::string result_of(const std::string& state) const;
};
FoldForm form_of(Reduction reduction, Type type);
///   room  available words of push constants
FoldForm form_of(const Expression& fold, double identity, Type type, std::uint32_t room);

/// Source that reads and writes the state's members at p0(i), p1(i).
std::string load_state(const Monoid& monoid, const std::string& index);
std::string store_state(const Monoid& monoid, const std::string& index, const std::string& state);

/// Adds the arrays p0, p1 of the state's members to a kernel's arguments.
void add_members(const Monoid& monoid, Access access, KernelParts& parts);

/// Functions of numbers for several kernels: is_nan, infinities.
std::string number_functions(Type type);

/// Source of a tree over `shared_states`, valid in invocation 0. Keeps the order: of two neighbours
/// the earlier is the left operand.
std::string tree_source(std::uint32_t local);

/// Reduces inputs of equal size to one element: workgroups reduce equal shares, and a final
/// workgroup reduces their results.
///
///   finish  source of the resulting element, for the number {0}
void reduce_on_device(OpBackend& backend, const Monoid& monoid, const ReductionItem& item,
                      std::span<const Slice> inputs, const Slice& output,
                      const std::string& finish);

/// The division of a slice into shares of workgroups.
struct Shares {
  std::uint32_t local = 256;    ///< invocations per workgroup
  std::uint64_t per_group = 0;  ///< elements, except for the last share of a chunk
  std::uint64_t chunk = 0;      ///< elements bound at once
  std::uint64_t groups = 0;     ///< workgroups of all chunks
};
/// Divides `count` elements into shares, multiples of `tile` local sizes, so that no invocation
/// needs more than `steps` loop iterations for its elements.
Shares share_out(const OpBackend& backend, std::uint64_t count, std::size_t widest,
                 std::uint32_t tile, std::uint32_t steps);
/// Reduces each share to a state; returns one slice per member.
std::vector<Slice> reduce_shares(OpBackend& backend, const Monoid& monoid,
                                 const ReductionItem& item, std::span<const Slice> inputs,
                                 const Shares& shares);

}  // namespace topograd::ops
