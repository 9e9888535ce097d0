// The state of a Problem: unknowns, numbers, blocks, raw shapes, labels.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../../ir/batch/batch.hpp"
#include "../../ir/error.hpp"
#include "../../ir/hash.hpp"
#include "../problem.hpp"
#include "../state/blocks.hpp"
#include "../state/unknowns.hpp"
#include "extract.hpp"
#include "long_block.hpp"
#include "shared_rows.hpp"

namespace topograd::detail {

/// Numbers that are stored elsewhere are copied here when one is read. Any thread may read; a
/// writer must be alone.
class DataArrays {
 public:
  std::size_t size() const { return numbers_.size(); }
  std::size_t bytes() const { return numbers_.capacity() * sizeof(double); }
  /// The numbers of all arrays.
  const std::vector<double>& numbers() const {
    if (!all_here_.load(std::memory_order_acquire)) bring();
    return numbers_;
  }
  void append(std::span<const double> values);
  /// Replaces the numbers of the array whose first entry is `first`.
  void set(std::uint32_t first, std::span<const double> values);
  void set(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values);

 private:
  struct Resident {
    std::uint32_t first = 0;
    std::shared_ptr<const ir::ResidentData> numbers;
  };
  void bring() const;
  void forget(std::uint32_t first);

  mutable std::vector<double> numbers_;
  mutable std::vector<Resident> away_;  // arrays whose numbers are not in numbers_
  mutable std::atomic<bool> all_here_ = true;
  mutable std::mutex mutex_;  // for threads in bring()
};

struct Callables;

/// Ends the Values of a problem when the problem is destroyed.
struct EndOfValues {
  std::uint32_t problem = 0;
  ~EndOfValues() { end_values_of(problem); }
};

/// A solve in progress. If its Problem is destroyed, `before_end` runs first.
struct SolveInProgress {
  std::function<void()> before_end;
  bool ended = false;
};

/// The block that is being traced or added; a member, so that memory is reused.
struct Tracing {
  Row row;
  std::vector<std::uint32_t> raw_rows;
  std::vector<RawGuard> raw_guards;
  CompactTape compact;
};

struct ProblemState {
  /// Takes a serial, by which branches on this problem's Values find it while it exists.
  ProblemState();
  ~ProblemState();
  ProblemState(const ProblemState&) = delete;
  ProblemState& operator=(const ProblemState&) = delete;

  std::uint32_t serial = 0;
  EndOfValues end_of_values{
      serial};  ///< destroyed after the following members, which may hold Values
  Unknowns unknowns;
  DataArrays data;
  /// Names of the data arrays by first entry; empty until an array has a name.
  std::map<std::uint32_t, std::string> data_names;
  std::vector<double> uniforms;
  Blocks blocks;
  Labels labels;

  std::array<RawShapes, kBlockKinds> raw_shapes;
  RawShapes& shapes(BlockKind kind) { return raw_shapes[static_cast<std::size_t>(kind)]; }
  Tracing tracing;
  LongBlocks long_blocks;
  SharedRows shared_rows;
  Versions versions;  ///< without Unknowns::version() and Blocks::version
  TraceStatistics statistics;
  SolveInProgress* solve = nullptr;  ///< null: none
  /// The Problem that was destroyed while views of this state remained.
  const Problem* ended = nullptr;
  /// By kind: callables of blocks with branches; null if none has branches.
  std::array<std::unique_ptr<Callables>, kBlockKinds> callables;

  /// Replaces an array by a gap. Throws Error{InvalidArgument} if a block reads it.
  void remove_array(std::size_t number);
  /// Throws Error{InvalidArgument} if `tracing.row`, a row of the group, reads a removed unknown.
  void check_present(std::uint32_t group, const Caller& caller) const;

  /// The caller of the next block of a kind, for error messages.
  Caller caller(std::string_view call, std::string_view label,
                BlockKind kind = BlockKind::residual) const;
  /// Blocks::group_of(); the first constraint adds the uniforms of their weights.
  std::uint32_t group_of(const ir::Canonical& canonical, BlockKind kind,
                         std::uint32_t loss_program);
  /// LossTable::entry() with the problem's uniforms.
  std::uint32_t loss_entry(const char* call, const Loss& loss);
  /// Blocks::set_loss() with the problem's uniforms.
  void set_loss(std::uint64_t first, std::uint64_t last, const Loss& loss);
  /// Callables stored for this kind of block, to be added to.
  Callables& callables_of(BlockKind kind);
  /// Replaces the numbers of the data array with first entry `first`, in `data` and in all
  /// instances that read it.
  void set_data(std::uint32_t first, std::span<const double> values);
  void set_data(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values);
};

/// A problem's state. Throws Error{InvalidArgument} if the problem was moved from.
inline ProblemState& require_not_moved_from(const std::shared_ptr<ProblemState>& state) {
  return topograd::require_not_moved_from(state, "problem");
}

[[noreturn]] void refuse_change(const char* call);
/// The same for `call`, which changes the problem. Throws Error{InvalidArgument} during a solve.
inline ProblemState& changing(const std::shared_ptr<ProblemState>& state, const char* call) {
  ProblemState& present = require_not_moved_from(state);
  if (present.solve != nullptr) [[unlikely]]
    refuse_change(call);
  return present;
}

/// Nodes of the rows on this thread's tape. Throws Error{Shape} and Error{StaleValue}.
std::vector<std::uint64_t> row_nodes(std::span<const Value> rows, const Caller& caller);

/// Matches a self-contained tape and fills `state.tracing.row`: by its raw shape, or in canonical
/// form. Returns the group.
///
///   loss_program  of the group, if it is new
///   leaves        if not null, receives the nodes of the slots
std::uint32_t match_tape(ProblemState& state, const RawTape& raw, const Caller& caller,
                         std::uint32_t loss_program, LeafMap* leaves = nullptr);

/// Adds the block of `rows`: by its raw shape, or in canonical form. Returns its id.
/// Adds residual blocks of `width` rows each that share their evaluation; returns the id of the
/// first, or nothing if kernels serve better (LongBlocks::add_parts).
std::optional<std::uint64_t> trace_parts(ProblemState& state, std::span<const Value> rows,
                                         std::size_t width, const ResidualOptions& options,
                                         std::size_t least);
/// True if rows that are blocks of their own would repeat most of their operations: one block of
/// all of them, without branches, has at least 64, and less than a quarter of theirs.
bool repeat_most(ProblemState& state, std::span<const Value> rows);
std::uint64_t trace_block(ProblemState& state, std::span<const Value> rows,
                          const ResidualOptions& options, BlockKind kind);

/// Throws unless an energy has one row, and only a residual a robust loss.
void check_block(std::size_t rows, const Loss& loss, const Caller& caller);

}  // namespace topograd::detail
