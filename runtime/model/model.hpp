// A problem as a backend sees it: arrays of unknowns and batches of residuals.
#pragma once

#include "../../ir/batch/batch.hpp"
#include "../../ir/topology/topology.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::runtime {

/// Blocks of `width` neighbouring scalars of x, from scalar `offset` on.
struct ParameterArray {
  std::uint64_t offset = 0;
  std::uint32_t width = 1;
  std::uint64_t blocks = 0;
};

/// All instances of one topology. Pointers outlive the engine that is made from them.
struct Term {
  const ir::Topology* topology = nullptr;
  const ir::Batch* batch = nullptr;
  std::string name;  ///< label of its residuals or energies, or "residual<k>", "energy<k>"
  bool energy =
      /// True if its one output is added to the objective as it is, not as half its square.
      false;
  /// ρ of its blocks, whose cost is ½ ρ(Σ r²): parameter 0 is Σ r², its uniforms are the last ones
  /// of the topology (autodiff/robust.hpp). Null: ρ(s) = s.
  const ir::Program* loss = nullptr;
};

/// A problem. Index columns of parameters are positions in x, of uniforms positions in `uniforms`.
struct Model {
  std::vector<ParameterArray> arrays;  ///< cover 0 .. scalars without gaps, ascending
  std::uint64_t scalars = 0;           ///< length of x
  std::uint64_t rows = 0;              ///< scalar residuals; energies have none
  std::vector<Term> terms;
  std::vector<double> uniforms;
  std::vector<std::uint8_t> constant;  ///< by scalar: 1 = fixed; empty = none
  std::vector<double> lower, upper;    ///< by scalar: the box of damped steps; both empty = none
  /// Blocks on manifolds (manifold_blocks.hpp); null: none.
  std::shared_ptr<const struct Manifolds> manifolds;
  std::uint64_t revision = 0;  ///< raised when terms or instances change during a solve
};

}  // namespace topograd::runtime
