// Costs of the residual blocks that read chosen unknowns.
#pragma once

#include "../../runtime/plan/passes.hpp"
#include "../../runtime/rows/rows.hpp"
#include "model.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd {

/// Evaluates, of a model in this process, the residual blocks that read chosen unknowns alone: in
/// double, on the CPU, for every engine.
class LocalCosts {
 public:
  /// Finds the blocks that read each of these unknowns.
  ///
  ///   model     outlives it; without shares
  ///   unknowns  ascending; outlive it
  ///
  /// Cost: reads all indices of parameters.
  LocalCosts(const ProblemModel& model, std::span<const std::uint32_t> unknowns);

  /// Blocks, by number through all terms, ascending.
  using Blocks = std::vector<std::uint32_t>;
  /// The blocks that read unknown number k.
  std::span<const std::uint32_t> readers(std::size_t k) const {
    return std::span(readers_).subspan(start_[k], start_[k + 1] - start_[k]);
  }
  /// The unknowns that a block reads, by scalar; repeats some.
  std::vector<std::uint32_t> reads(std::uint32_t block) const;
  std::size_t blocks() const { return first_.back(); }

  /// Costs of some blocks with some unknowns changed.
  struct Probe {
    std::span<const std::uint32_t> blocks;
    std::span<const std::uint32_t> unknowns;  ///< by scalar
    std::span<const double> values;           ///< of these
  };
  ///   x  the other unknowns
  std::vector<double> costs(std::span<const double> x, std::span<const Probe> probes) const;
  /// Squares of the norms of the unknowns' columns at x.
  std::vector<double> squares(std::span<const double> x) const;

 private:
  struct Table;
  /// Calls visit(term, probe, block, columns, i): the outputs for the block are number i of each
  /// column.
  template <class Visit>
  void evaluate(runtime::Pass pass, std::span<const double> x, std::span<const Probe> probes,
                const Visit& visit) const;

  const ProblemModel& model_;
  std::vector<std::uint32_t> first_;    // block of each term, and the number of blocks
  std::vector<std::size_t> start_;      // in readers_, by unknown
  std::vector<std::uint32_t> readers_;  // blocks
  std::span<const std::uint32_t> unknowns_;
};

}  // namespace topograd
