// Parts of a tape that some rows need, and the predicted time of their evaluation.
#pragma once

#include "../value/tape.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace topograd::detail {

/// Finds what rows of a tape need. Its memory is used again from call to call.
///
/// Cost of a call: what the rows need.
class TapeParts {
 public:
  /// Operations that rows need.
  std::size_t count_operations(std::span<const TapeNode> nodes,
                               std::span<const std::uint32_t> rows);
  /// Writes the rows as a tape of what they need. Valid until the next call.
  RawTape extract(std::span<const TapeNode> nodes, std::span<const std::uint32_t> rows);

 private:
  void find_needed(std::span<const TapeNode> nodes, std::span<const std::uint32_t> rows);

  std::vector<std::uint32_t> seen_, where_;  // by node
  std::uint32_t stamp_ = 0;
  std::vector<std::uint32_t> open_;  // what the last rows need
  std::vector<TapeNode> part_;
  std::vector<std::uint32_t> part_rows_;
};

/// Predicted seconds of an evaluation with derivatives, node by node on the host.
///
///   blocks  that share the evaluation
double swept_seconds(std::size_t operations, std::size_t unknowns, std::size_t blocks);

/// Predicted seconds of an evaluation with derivatives by kernels of the interpreter: of blocks
/// with an expression of their own each.
///
/// Blocks of as many operations are taken for instances of one topology.
class KernelTime {
 public:
  void add(std::size_t operations) {
    ++instances_[operations];
    total_ += operations;
  }
  std::size_t operations() const { return total_; }
  /// Seconds of one such set of blocks, in a problem that has `alike` of them.
  double seconds(std::size_t alike) const;
  /// No set of blocks with so many operations takes less than this.
  double least_seconds() const;

 private:
  std::unordered_map<std::size_t, std::size_t> instances_;  // by operations
  std::size_t total_ = 0;
};

}  // namespace topograd::detail
