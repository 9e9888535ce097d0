// Residual blocks that read values marked by shared(), until it is decided how they are evaluated.
#pragma once

#include "../host_residual.hpp"
#include "../value/tape.hpp"
#include "../value/value.hpp"
#include "long_block.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace topograd {
struct ResidualOptions;
}

namespace topograd::detail {

/// Collects blocks that read marked values, on one tape without repetitions, and divides them into
/// groups: blocks are in one group if they read a marked value in common, directly or over others.
///
/// A group is evaluated as one long block, in which each marked value is computed once, or inlined:
/// each block becomes an instance of a topology of its own. The smaller predicted time decides.
class SharedRows {
 public:
  /// Adds the block if it reads a marked value. Returns its id, or nothing: then it is a block like
  /// others, or one that is refused.
  std::optional<std::uint64_t> add(ProblemState& state, std::span<const Value> rows,
                                   const ResidualOptions& options, const Caller& caller);
  /// Decides for all blocks that were added since the last call.
  ///
  ///   kernels  true: all are inlined
  void settle(ProblemState& state, bool kernels);
  /// The decisions in the order in which blocks were added; groups of one structure are one entry.
  std::span<const SharedValues> described() const { return described_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// A block that waits.
  struct Block {
    std::uint64_t id = 0;
    std::uint32_t label = 0;
    std::vector<std::uint32_t> rows;  ///< indices on the tape
    std::uint32_t set = kNone;
  };
  /// Blocks of one set.
  struct Group {
    std::vector<std::uint32_t> blocks;
    std::size_t marked = 0;
  };
  /// Predicted work of a group.
  struct Work {
    std::uint64_t stored = 0, inlined = 0;  ///< operations
    double seconds_stored = 0, seconds_inlined = 0;
  };

  bool collect(const ProblemState& state, std::span<const std::uint64_t> rows);
  LongBlock::Arguments arguments_of(const ProblemState& state, std::uint32_t set) const;
  void append_nodes();
  std::uint32_t set_of(std::uint32_t set);
  std::uint32_t new_set();
  std::uint32_t joined(std::uint32_t a, std::uint32_t b);
  std::vector<Group> groups();
  Work predict(const Group& group, std::size_t alike);
  bool store(ProblemState& state, const Group& group);
  void inline_group(ProblemState& state, const Group& group);
  void record(const ProblemState& state, const Group& group, const Work& work, bool stored,
              std::uint64_t hash);
  void forget();

  // The tape: nodes of all blocks, operands before their users.
  std::vector<TapeNode> nodes_;
  std::vector<std::uint32_t> set_;                               // by node: its set, or kNone
  std::vector<std::uint32_t> sets_;                              // by set: the set that it joined
  std::vector<std::size_t> marked_;                              // by set: marked values
  std::vector<std::set<std::uint32_t>> unknowns_;                // by set: scalars that it reads
  std::unordered_map<std::uint64_t, std::uint32_t> tape_index_;  // by id on the thread's tape
  const Tape* thread_ = nullptr;
  std::vector<Value> kept_;           // so that ids are not used again
  std::vector<std::uint64_t> fresh_;  // of the block that is added
  std::set<std::uint32_t> read_;      // likewise: scalars that are read beside sets
  std::vector<Block> blocks_;

  TapeParts parts_;

  std::vector<SharedValues> described_;
  std::vector<std::uint64_t> described_hash_;
};

}  // namespace topograd::detail
