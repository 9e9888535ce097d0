// Topologies: the canonical structure of residual blocks, without their numbers.
#pragma once

#include "../hash.hpp"
#include "../program.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::ir {

/// Canonical structure of a residual block: independent of build order, operand order of
/// commutative ops, names and numbers. Parameter, data and uniform slots are numbered in canonical
/// order. Compare programs, not hashes.
struct Topology {
  Program program;  ///< outputs are the residual rows, in the user's order
  Hash128 hash;
};

/// A program in canonical form and the source of its slots.
struct Canonical {
  Topology topology;
  std::vector<std::uint32_t> parameters;  ///< canonical slot -> slot of the source program
  std::vector<std::uint32_t> data;
  std::vector<std::uint32_t> uniforms;
  /// False if there were too many ties to try: an equal structure may then get another form.
  bool exact = true;
};

/// Brings a program into canonical form.
///
/// Refines colours of leaves by their uses and breaks ties by individualisation, with a bound on
/// the number of trials. Tied leaves are taken in ascending slot order: number slots by the index
/// of what they read to keep neighbouring scalars in neighbouring columns. Cost: O(n log n) per
/// refinement. Source: McKay & Piperno, Practical Graph Isomorphism II (2014).
Canonical canonicalize(const Program& program);

/// Describes the first difference between two topologies, or returns "equal".
std::string explain_miss(const Topology& a, const Topology& b);

}  // namespace topograd::ir
