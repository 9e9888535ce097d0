// The origin of the numbers that residuals read: data arrays, uniforms, or their own.
#pragma once

#include "../problem.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// Tells which data columns of a batch read which entries of data arrays, and which uniforms users
/// have added. Losses and constraints have hidden numbers beside them, which nobody can name.
///
/// A view of the problem's state, which outlives it. Changes of the structure make it out of date.
class NumberSources {
 public:
  /// A number that was written into a residual, or a column of a map.
  static constexpr std::uint32_t kOwn = ~std::uint32_t{0};

  explicit NumberSources(const Problem& problem);

  /// The numbers of all data arrays, one array after the other, in the order of adding.
  std::span<const double> data() const;
  /// Positions in Problem::uniforms() of those that users have added, ascending.
  const std::vector<std::uint32_t>& uniforms() const { return uniforms_; }
  /// Position there of the weight of equalities, which solves leave equal to that of inequalities;
  /// kOwn if there are no constraints.
  std::uint32_t penalty_weight() const;

  /// Number of uniform and data columns at the end of a topology's batch that no user wrote.
  std::uint32_t hidden_uniforms(std::size_t topology) const;
  std::uint32_t hidden_data(std::size_t topology) const;
  /// Entry in data() that a column of an instance reads, or kOwn.
  std::uint32_t source(std::size_t topology, std::size_t instance, std::uint32_t column) const;
  /// False if no instance of the topology reads data arrays.
  bool reads_arrays(std::size_t topology) const;

  /// Position in data() of an array's first number, and of a uniform in Problem::uniforms(). Throw
  /// Error{WrongProblem} for handles of another problem, or of none.
  std::uint32_t first_entry(const char* call, const Data& data) const;
  std::uint32_t index(const char* call, const Uniform& uniform) const;

 private:
  const Problem& problem_;
  std::vector<std::uint32_t> uniforms_;
};

}  // namespace topograd
