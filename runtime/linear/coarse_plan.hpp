// The coarse space of a two-level preconditioner: smooth vectors on aggregates of blocks.
#pragma once

#include "../model/model.hpp"
#include "../order/aggregates.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime {

/// Unknowns of a coarse system at most: its inverse is a dense matrix.
inline constexpr std::uint32_t kMostCoarse = 1024;
/// Vectors on one aggregate at most.
inline constexpr std::uint32_t kMostFunctions = 16;
/// Products with JᵀJ that making the coarse matrix may take.
inline constexpr std::uint32_t kMostProbes = 600;

/// Where the vectors on each aggregate come from, and which of them can be multiplied at once.
///
/// Vector f of aggregate g is 0 elsewhere. On arrays that lead it is 1 on one coordinate of an
/// array, or, for arrays of width 2 and 3, the field of a rotation about the aggregate's centre at
/// the current x; on arrays that follow it is what they answer: −D⁻¹ (JᵀJ v) for the vector on the
/// leading ones, D being the damped diagonal blocks. These span the motions that bend nothing.
///
/// An entry is a scalar of x that lies in an aggregate. Entry e of vector f is number f * entries +
/// e; vector f of aggregate g is coarse unknown g * functions + f.
struct CoarsePlan {
  std::uint32_t functions = 0, aggregates = 0;
  std::string why;  ///< a line for the report; where aggregates is 0, why there are none

  std::vector<std::uint8_t> arrays_follow;  ///< by array of the model: its scalars follow
  std::vector<std::uint32_t> starts;        ///< aggregates + 1: entries of each
  std::vector<std::uint32_t> scalars;       ///< by entry, ascending in an aggregate
  std::vector<std::uint32_t> homes;         ///< by entry: its aggregate
  std::vector<std::uint8_t> follows;  ///< by entry: of an array that follows; all 0 if none does
  bool answers = false;               ///< there are such entries

  /// On entries that lead a vector is offset ± x[from].
  static constexpr std::uint32_t kNowhere = ~0u, kMinus = 1u << 31;
  std::vector<std::uint32_t> from;  ///< scalar, with kMinus; kNowhere: the offset alone
  std::vector<double> offsets;

  /// Vector f over all aggregates at once, rotations about one centre for all of them, is
  /// Σ spread[(f * aggregates + g) * functions + h] · vector h of g; what those that follow answer
  /// to vector h of g is Σ_f gather[(f * aggregates + g) * functions + h] · answer to that one.
  std::vector<double> spread, gather;

  /// Aggregates of one colour have no neighbour in common: their vectors are multiplied at once.
  std::uint32_t colours = 0;
  std::vector<std::uint32_t> colour;   ///< by aggregate
  std::vector<std::uint32_t> sources;  ///< [colour * aggregates + g]: g, or its neighbour, of that
                                       ///< colour; kNoAggregate

  std::uint32_t entries() const { return static_cast<std::uint32_t>(scalars.size()); }
  std::uint32_t unknowns() const { return functions * aggregates; }
  /// Products with JᵀJ that it takes to make vectors and matrix.
  std::uint32_t products() const { return functions * (colours + (answers ? 1 : 0)); }
};

/// Plans the coarse space of a problem; x is where centres of rotation are taken from.
///
/// Depends on index columns, constant flags and x alone. Cost: that of find_aggregates().
///
///   x  (scalars)  in the model's order
CoarsePlan plan_coarse_space(const Model& model, std::span<const double> x);

/// Gives a plan with aggregates the centres that plan_coarse_space() would take from x: offsets,
/// spread and gather. Cost: linear in entries.
void centre_coarse_space(const Model& model, std::span<const double> x, CoarsePlan& plan);

}  // namespace topograd::runtime
