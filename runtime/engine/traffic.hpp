// Lower bounds of the memory traffic of evaluations, to which times are compared.
#pragma once

#include "engine.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime {

/// Bytes that one evaluation of a model moves at least, on any backend: the columns of every batch
/// that takes part, as a plan stores them (one index of 4 bytes per row and block; columns that are
/// constant or count up take none), the unknowns, a direction and the results once each.
/// Entries of Jacobians and Hessians count unless they are constant or, up to sign, equal to
/// another one of the same instance.
///
/// Kernels may move more: columns copied for each block that an instance touches, stored terms,
/// partly used cache lines.
class Traffic {
 public:
  /// Cost: a few passes over the index and data columns.
  Traffic(const Model& model, Precision precision);

  std::uint64_t bytes(Pass pass) const;
  /// A Gauss-Newton step with this many iterations of conjugate gradients: a gradient, then in each
  /// iteration a product, the direction (r read, p read and written) and the update (δ and r read
  /// and written, p and q read).
  std::uint64_t step_bytes(int iterations) const;

 private:
  struct TermBytes {
    Term term;
    std::uint64_t instances = 0;
    std::uint64_t columns = 0;  // bytes
  };
  std::uint64_t results(const TermBytes& term, Pass pass) const;

  std::uint64_t number_ = 8;  // bytes per number
  std::uint64_t scalars_ = 0, packed_blocks_ = 0;
  std::vector<TermBytes> terms_;
};

}  // namespace topograd::runtime
