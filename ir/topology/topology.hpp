// Topologies: the canonical structure of a residual block, with the numbers taken out.
#pragma once

#include "../hash.hpp"
#include "../program.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace topograd::ir {

/// Canonical structure: independent of build order, operand order of commutative ops, names and
/// numbers. Parameter, data and uniform slots are numbered in canonical order. Compare programs,
/// not hashes.
struct Topology {
  Program program;  ///< outputs are the residual rows, in the user's order
  Hash128 hash;
};

/// A program in canonical form and where its slots came from.
struct Canonical {
  Topology topology;
  std::vector<std::uint32_t> parameters;  ///< canonical slot -> slot of the source program
  std::vector<std::uint32_t> data;
  std::vector<std::uint32_t> uniforms;
  bool exact = true;  ///< false: ties were too many to try; an equal structure may get another form
};

/// Brings a program into canonical form.
///
/// Colour refinement with leaves coloured by their use; ties are broken by individualisation with a
/// bound on the number of trials. Tied leaves are taken in ascending slot order, so callers number
/// slots by the index of what they read to keep neighbouring scalars in neighbouring columns. Cost:
/// O(n log n) a refinement. Source: McKay & Piperno, Practical Graph Isomorphism II (2014).
Canonical canonicalize(const Program& program);

/// The first difference between two topologies, in words, or "equal".
std::string explain_miss(const Topology& a, const Topology& b);

}  // namespace topograd::ir
