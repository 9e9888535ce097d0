// JᵀJ or the Hessian of a whole problem as a sparse matrix whose pattern is found once.
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
/// Assembles in the order of terms and instances, so that results are the same bits in every run.
class NormalEquations {
 public:
  /// Finds the pattern. Cost: Σ instances × n² for n parameter slots, and as many 4-byte positions
  /// kept. Throws Error{Unsupported} if there are 2³¹ entries or more.
  ///
  ///   with_energies  the pattern of the Hessian: energies have a part in it
  explicit NormalEquations(const runtime::Model& model, bool with_energies = false);

  /// Reads the Jacobians at the engine's point and sums them up. The engine's point stays.
  void refresh(runtime::Engine& engine);
  /// Reads the Hessians of all instances, of a matrix that was made with energies. Where `project`
  /// is set, each of them without its negative eigenvalues: those of its rows and columns by free
  /// scalars, so that what is constant has no influence.
  void refresh_hessian(runtime::Engine& engine, bool project);

  std::size_t size() const { return starts_.size() - 1; }           ///< free scalars
  std::span<const std::int32_t> starts() const { return starts_; }  ///< size() + 1
  std::span<const std::int32_t> rows() const { return rows_; }
  std::span<const double> values() const { return values_; }
  double diagonal(std::size_t column) const { return values_[starts_[column]]; }
  /// Position among all scalars of free scalar k.
  std::span<const std::uint32_t> free_scalars() const { return free_; }

 private:
  struct TermPositions {
    std::uint32_t rows = 0, slots = 0;
    std::vector<std::uint32_t>
        pairs;                   // by instance, packed (s, t) with s <= t: position in values_
    std::vector<double> values;  // of the last refresh: Jacobians, or packed Hessians
    std::vector<std::uint32_t> partly_free;  // of Hessians: instances with constant scalars, too
  };

  void find_pattern(const runtime::Model& model,
                    const std::vector<std::vector<std::uint32_t>>& columns);
  void add_squares(const TermPositions& term);
  void add_hessians(const TermPositions& term);
  /// Projects Hessians again that have constant scalars, without these.
  void project_free_parts(runtime::Engine& engine, std::size_t term);

  std::vector<std::uint32_t> free_;
  std::vector<std::int32_t> starts_, rows_;
  std::vector<double> values_;
  std::vector<TermPositions> terms_;
};

}  // namespace topograd
