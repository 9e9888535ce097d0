// The coarse space of a two-level preconditioner: smooth vectors on aggregates of blocks.
#pragma once

#include "../model/model.hpp"
#include "../order/aggregates.hpp"
#include "preconditioner.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Largest number of coarse unknowns: the inverse of their matrix is dense.
inline constexpr std::uint32_t kMostCoarse = 1024;
/// Largest number of vectors on one aggregate.
inline constexpr std::uint32_t kMostFunctions = 16;
/// Largest number of products with JᵀJ that may be spent on the coarse matrix.
inline constexpr std::uint32_t kMostProbes = 600;

/// Vectors on each aggregate, and colours of aggregates whose vectors can be multiplied together.
///
/// Vector f of aggregate g is 0 elsewhere. On leading arrays it is 1 on one coordinate of an array,
/// or, for arrays of width 2 and 3, the field of a rotation about the aggregate's centre at the
/// current x. On following arrays it is their response −D⁻¹ (JᵀJ v) to the vector on the leading
/// ones, with the damped diagonal blocks D. These vectors span the motions that bend nothing.
///
/// An entry is a scalar of x that belongs to an aggregate. Entry e of vector f is number f *
/// entries + e; vector f of aggregate g is coarse unknown g * functions + f.
struct CoarsePlan {
  std::uint32_t functions = 0, aggregates = 0;
  Why<PreconditionerReason> why;  ///< coarse_space, or why aggregates is 0

  std::vector<std::uint8_t> arrays_follow;  ///< by array of the model: 1 if its scalars follow
  std::vector<std::uint32_t> starts;        ///< aggregates + 1: first entry of each
  std::vector<std::uint32_t> scalars;       ///< by entry, ascending in an aggregate
  std::vector<std::uint32_t> homes;         ///< by entry: its aggregate
  std::vector<std::uint8_t> follows;        ///< by entry: 1 in a following array
  bool answers = false;                     ///< true if any entry follows

  /// On leading entries a vector is offset ± x[from].
  static constexpr std::uint32_t kNowhere = ~0u, kMinus = 1u << 31;
  std::vector<std::uint32_t> from;  ///< scalar, with kMinus; kNowhere: the offset alone
  std::vector<double> offsets;

  /// Vector f over all aggregates together, with one centre for all rotations, is Σ spread[(f *
  /// aggregates + g) * functions + h] · vector h of g. The response of following entries to vector
  /// h of g is Σ_f gather[(f * aggregates + g) * functions + h] · response to vector f.
  std::vector<double> spread, gather;

  /// Aggregates of one colour have no common neighbour: their vectors are multiplied together.
  std::uint32_t colours = 0;
  std::vector<std::uint32_t> colour;  ///< by aggregate
  /// [colour * aggregates + g]: g or its neighbour of that colour, or kNoAggregate
  std::vector<std::uint32_t> sources;

  std::uint32_t entries() const { return static_cast<std::uint32_t>(scalars.size()); }
  std::uint32_t unknowns() const { return functions * aggregates; }
  /// Number of products with JᵀJ for vectors and matrix.
  std::uint32_t products() const { return functions * (colours + (answers ? 1 : 0)); }
};

/// Plans the coarse space of a problem; rotation centres come from x.
///
/// Depends on index columns, fixed flags and x alone. Cost: that of find_aggregates().
///
///   x  (scalars)  in the model's order
CoarsePlan plan_coarse_space(const Model& model, std::span<const double> x);

/// Centres a plan with aggregates at x, as plan_coarse_space() would: sets offsets, spread and
/// gather. Cost: linear in entries.
void centre_coarse_space(const Model& model, std::span<const double> x, CoarsePlan& plan);

}  // namespace topograd::runtime
