// A piece of tape on its own: nodes whose operands all lie within.
#pragma once

#include <topograd/frontend/tape.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::detail {

/// Nodes that need no others, and which of them are residual rows.
struct RawTape {
  std::span<const TapeNode> nodes;
  std::span<const std::uint32_t> rows;  ///< positions in `nodes`
};

/// The nodes that rows need, wherever they lie on the tape, moved next to each other in their
/// order.
class CompactTape {
 public:
  /// Takes the place of what was there. `rows` are nodes of this thread's tape. Cost: n log n in
  /// the nodes that the rows need, however far apart they are.
  void assign(std::span<const std::uint64_t> rows);

  RawTape view() const { return {nodes_, rows_}; }
  /// Where each node lies on the thread's tape, ascending.
  std::span<const std::uint64_t> ids() const { return ids_; }

 private:
  std::uint32_t position(std::uint64_t id) const;

  std::vector<std::uint64_t> ids_, open_;
  std::vector<TapeNode> nodes_;
  std::vector<std::uint32_t> rows_;
};

}  // namespace topograd::detail
