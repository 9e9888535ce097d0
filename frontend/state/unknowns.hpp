// The unknowns of a problem: arrays of blocks in x, what is fixed, bounds and manifolds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../problem.hpp"

namespace topograd::detail {

/// Ranges of parameters, which must not overlap: arrays that share memory would change each other.
///
/// Cost: logarithmic in the number of ranges; constant for a range after all others.
class MemoryRanges {
 public:
  /// Adds `count` > 0 numbers that begin at `values` and returns nullptr. If they overlap a range,
  /// adds nothing and returns the beginning of that range.
  const double* add(const double* values, std::size_t count);
  /// Removes the range that begins at `values`.
  void remove(const double* values) { ends_.erase(values); }

 private:
  std::map<const double*, const double*> ends_;  ///< end of each range, by its beginning
};

/// Arrays one after the other in x. A removed array leaves a gap, which is fixed, until it is at
/// the end or another array takes it. Vectors of flags and bounds are empty until one is set.
class Unknowns {
 public:
  /// Adds an array, in a gap that is large enough or at the end of x; returns its offset. Throws
  /// Error{InvalidArgument} if it shares memory with another array.
  std::uint32_t add(std::span<double> values, std::uint32_t width, std::string_view name);
  /// Replaces an array, which no block may read, by a gap.
  void remove(std::size_t number);

  /// Arrays and gaps, whose `values` are null, in the order of x.
  const std::vector<ParameterArray>& arrays() const { return arrays_; }
  std::uint32_t scalars() const { return scalars_; }
  /// The array or gap that contains a scalar of x.
  std::size_t array_number(std::uint32_t scalar) const;
  bool is_removed(std::uint32_t scalar) const;
  /// True once an array was removed: added blocks are then checked for reads of removed arrays.
  bool removed_any() const { return removed_any_; }
  /// " of parameter "tau"" for the array that contains a scalar of x; empty if it has no name.
  std::string of_parameters(std::uint32_t scalar) const;

  /// From now on, check_lenders() checks the container that has the memory of an array.
  void watch(std::uint32_t offset, const Lender& lender);
  void forget_lenders() { lenders_.clear(); }
  /// Throws Error{InvalidArgument} if a container passed to add_parameters has other memory now.
  void check_lenders() const;

  /// Fixes coordinates of a block that begins at `first`, or frees them.
  ///
  ///   coordinates  a bit for each; ~0: all
  void mark_constant(std::size_t first, std::uint32_t width, std::uint32_t coordinates,
                     bool constant);
  void set_lower(std::size_t scalar, double value);
  void set_upper(std::size_t scalar, double value);
  /// Puts blocks of an array on a manifold, or on none.
  void set_manifold(std::size_t array, std::size_t first, std::size_t count, Manifold manifold);
  const std::vector<std::uint8_t>& constants() const { return constants_; }
  const std::vector<double>& lower() const { return lower_; }
  const std::vector<double>& upper() const { return upper_; }
  bool has_manifolds() const { return !manifolds_.empty(); }
  /// Null if the block has none of its own.
  const Manifold* manifold(std::size_t array, std::size_t block) const;
  /// Counts changes of flags, bounds and manifolds.
  std::uint64_t version() const { return version_; }

 private:
  void reset_scalars(std::size_t number);
  void split(std::size_t number, std::uint32_t blocks);
  void erase(std::size_t number);
  void join_gaps(std::size_t number);
  void cut_end();

  std::vector<ParameterArray> arrays_;
  MemoryRanges memory_;                      // of the arrays
  std::map<const double*, Lender> lenders_;  // by the values of arrays
  std::uint32_t scalars_ = 0;
  std::size_t gaps_ = 0;
  bool removed_any_ = false;
  std::vector<std::uint8_t> constants_;  // one per scalar; empty if nothing is constant
  std::size_t constant_count_ = 0;
  std::vector<double> lower_, upper_;
  std::deque<Manifold> manifolds_;
  // For each array: number in manifolds_, + 1, of each block; empty if no block has one.
  std::vector<std::vector<std::uint32_t>> manifold_numbers_;
  std::uint64_t version_ = 0;
};

}  // namespace topograd::detail
