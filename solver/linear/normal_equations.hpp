// JᵀJ or the Hessian of a whole problem as a sparse matrix with a fixed pattern.
#pragma once

#include "../../runtime/engine/engine.hpp"
#include "../../runtime/model/model.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd {

/// The lower triangle of JᵀJ, or of the Hessian of the cost, over the free scalars, compressed by
/// columns, rows ascending, with every diagonal entry present.
///
/// Sums run in the order of terms and instances, so that results have the same bits in every run.
class NormalEquations {
 public:
  /// Finds the pattern. Cost: Σ instances × n² for n parameter slots, and as many stored 4-byte
  /// positions. Throws Error{Unsupported} if there are 2³¹ entries or more.
  ///
  ///   with_energies  the pattern of the Hessian: energies contribute
  explicit NormalEquations(const runtime::Model& model, bool with_energies = false);

  /// Sums the Jacobians at the engine's point, which does not move.
  void refresh(runtime::Engine& engine);
  /// Sums the Hessians of all instances, for a matrix made with energies. With `project`, negative
  /// eigenvalues of each Hessian, restricted to its free scalars, are removed first, so that fixed
  /// scalars have no influence.
  void refresh_hessian(runtime::Engine& engine, bool project);

  std::size_t size() const { return starts_.size() - 1; }           ///< free scalars
  std::span<const std::int32_t> starts() const { return starts_; }  ///< size() + 1
  std::span<const std::int32_t> rows() const { return rows_; }
  std::span<const double> values() const { return values_; }
  double diagonal(std::size_t column) const { return values_[starts_[column]]; }
  /// Position of free scalar k among all scalars.
  std::span<const std::uint32_t> free_scalars() const { return free_; }

 private:
  struct TermPositions {
    std::uint32_t rows = 0, slots = 0;
    std::vector<std::uint32_t>
        pairs;                   // by instance, packed (s, t) with s <= t: position in values_
    std::vector<double> values;  // of the last refresh: Jacobians, or packed Hessians
    std::vector<std::uint32_t> partly_free;  // for Hessians: instances that also have fixed scalars
  };

  void find_pattern(const runtime::Model& model,
                    const std::vector<std::vector<std::uint32_t>>& columns);
  void add_squares(const TermPositions& term);
  void add_hessians(const TermPositions& term);
  /// Projects again the Hessians that have fixed scalars, without these.
  void project_free_parts(runtime::Engine& engine, std::size_t term);

  std::vector<std::uint32_t> free_;
  std::vector<std::int32_t> starts_, rows_;
  std::vector<double> values_;
  std::vector<TermPositions> terms_;
};

}  // namespace topograd
