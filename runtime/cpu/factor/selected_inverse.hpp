// Entries of the inverse of a factorised matrix, by Takahashi's recurrence on its fronts.
#pragma once

#include "sparse_factor.hpp"

#include <Eigen/Core>

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// Entries of A⁻¹ in the pattern of its factor. An entry of a front's columns follows from entries
/// of its ancestors' alone, so that only these fronts are computed. The same bits for any number of
/// threads, and whatever else is asked for.
///
/// Source: Takahashi, Fagan, Chen, Formation of a Sparse Bus Impedance Matrix and its Application
/// to Short Circuit Study, 8th PICA Conference (1973); Campbell, Davis, Computing the Sparse
/// Inverse Subset: An Inverse Multifrontal Approach, University of Florida TR-95-021 (1995).
class SelectedInverse {
 public:
  /// After factor.factor() was complete. The factor outlives it, and is not used for other values.
  explicit SelectedInverse(const SparseFactor& factor);

  /// True if entry (row, column) of the matrix or of its transpose is in the factor's pattern,
  /// zeros within fronts included.
  bool contains(std::uint32_t row, std::uint32_t column) const;
  /// Asks for an entry that is in the pattern.
  void request(std::uint32_t row, std::uint32_t column);
  /// Computes what was asked for.
  ///
  /// Cost: per front with k pivots and m rows below k (m² + k m + k²) multiply-adds.
  void compute();
  /// Returns an entry that was computed.
  double entry(std::uint32_t row, std::uint32_t column) const;

  /// Solves for entries whether they are in the pattern or not: (rows, count) numbers of columns
  /// first .. first + count − 1. Any thread may call it. An entry has the same bits whatever other
  /// rows are asked for.
  ///
  /// Cost: per column two multiply-adds for each entry of the factor in fronts that own one of the
  /// rows, or are ancestors of one.
  Eigen::MatrixXd solve(std::span<const std::uint32_t> rows, std::uint32_t first,
                        std::uint32_t count) const;

 private:
  struct EntryPosition {
    std::uint32_t front, row, column;  // column of its pivots
  };
  /// Position of an entry; row == kNoFront if it is not in the pattern.
  EntryPosition find(std::uint32_t row, std::uint32_t column) const;
  std::uint32_t row_in(std::uint32_t front, std::uint32_t position) const;
  void invert(std::uint32_t f);
  Eigen::MatrixXd below(const Front& front) const;
  Eigen::MatrixXd pivots_of(const Front& front) const;
  Eigen::MatrixXd rows_of(const Front& front) const;
  enum class Use : std::uint8_t { none, used, on_path };
  std::vector<Use> find_use(std::span<const std::uint32_t> rows, std::uint32_t first,
                            std::uint32_t count) const;
  /// Solves with L, or with its transpose, for the unknowns of a front: rows number[position] of x.
  void solve_forward(const Front& front, std::span<const std::uint32_t> number,
                     Eigen::MatrixXd& x) const;
  void solve_backward(const Front& front, std::span<const std::uint32_t> number,
                      Eigen::MatrixXd& x) const;

  const SparseFactor& factor_;
  const FactorPlan& plan_;
  std::vector<std::uint32_t> position_, front_of_;  // by column of the matrix; by position
  std::vector<Eigen::MatrixXd> columns_;            // by front: (pivots + below, pivots), or empty
  std::vector<char> wanted_;                        // by front
  bool more_wanted_ = false;
};

}  // namespace topograd::runtime::cpu
