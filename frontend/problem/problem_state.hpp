// The state of a Problem: arrays, topologies with their batches, raw shapes, labels.
#pragma once

#include "../../ir/hash.hpp"
#include "../../ir/whole.hpp"
#include "../problem.hpp"
#include "constraint_program.hpp"
#include "data_arrays.hpp"
#include "labels.hpp"
#include "loss_table.hpp"
#include "raw_shape.hpp"
#include "unknowns.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace topograd::detail {

/// Properties of the instances from `id` on, up to the next run, besides their rows.
struct Run {
  std::uint64_t id = 0;
  std::uint32_t label = 0;  ///< number in ProblemState::labels
};

inline constexpr std::uint32_t kNoUniform = ~std::uint32_t{0};

/// A topology and its instances, with data that only the frontend needs. Blocks of different kinds,
/// and residuals whose losses have different programs, are in different groups.
struct Group {
  ir::Topology topology;  ///< the last slots are the hidden ones; of constraints: penalty_program()
  BlockKind kind = BlockKind::residual;
  std::uint32_t loss_program = 0;  ///< as LossEntry::program
  /// Number of uniforms that no user wrote: those of the loss, or the weight of constraints.
  std::uint32_t hidden_uniforms = 0;
  std::uint32_t hidden_data = 0;        ///< likewise: one shift for each row of a constraint
  ir::Program plain;                    ///< of constraints: as the user wrote them
  std::vector<std::uint32_t> variants;  ///< groups of the same topology with other losses
  ir::Batch batch;
  std::vector<Run> runs;               ///< ascending by id
  std::vector<std::uint32_t> sources;  ///< one per number, row by row; empty if all are kNoSource
  std::vector<std::uint64_t> ids;      ///< id of each instance, once a residual has been removed

  std::uint32_t outputs() const {
    return static_cast<std::uint32_t>(topology.program.outputs.size());
  }
};

/// Location::group of a host block; `instance` is the number of the host block.
inline constexpr std::uint32_t kHostGroup = ~std::uint32_t{0} - 1;

/// The instance that a block's id stands for.
struct Location {
  std::uint32_t group = ~std::uint32_t{0};
  std::uint32_t instance = 0;
};

/// The residuals, the energies, or the constraints of both kinds, in the order of adding. Each has
/// its own numbering of rows (an energy has one) and ids.
struct Ledger {
  std::uint64_t blocks = 0;         ///< present now
  std::uint64_t rows = 0;           ///< present now
  std::uint64_t first_row = 0;      ///< rows of constraints follow those of residuals
  std::uint64_t next_id = 0;        ///< ids count all rows that were ever added
  bool removed_any = false;         ///< true: `locations` and Group::ids are maintained
  bool rows_moved = false;          ///< true: rows must be renumbered before they are read
  std::vector<Location> locations;  ///< by id
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
  std::vector<std::uint32_t> indices;
  std::vector<double> padded;
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
  std::deque<Group> groups;
  std::vector<HostBlock> host_blocks;
  LossTable losses;
  Labels labels;
  std::unordered_multimap<ir::Hash128, std::uint32_t> group_of_hash;

  Ledger residuals, energies, constraints;
  Ledger& ledger(BlockKind kind) {
    return is_constraint(kind) ? constraints : kind == BlockKind::energy ? energies : residuals;
  }
  const Ledger& ledger(BlockKind kind) const {
    return is_constraint(kind) ? constraints : kind == BlockKind::energy ? energies : residuals;
  }
  std::uint32_t penalty_uniform = kNoUniform;  ///< the weight of all constraints, once there is one

  std::array<RawShapes, kBlockKinds> raw_shapes;
  RawShapes& shapes(BlockKind kind) { return raw_shapes[static_cast<std::size_t>(kind)]; }
  Tracing tracing;
  Versions versions;  ///< `constants` is Unknowns::version()
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
  /// A group of an equal topology of this kind, with any losses; added if there is none.
  std::uint32_t group_of(const ir::Canonical& canonical, BlockKind kind,
                         std::uint32_t loss_program);
  /// The group of the same topology whose losses have this program; added if there is none.
  std::uint32_t variant(std::uint32_t group, std::uint32_t loss_program);
  /// LossTable::entry() with the problem's uniforms.
  std::uint32_t loss_entry(const char* call, const Loss& loss, bool built_in = false);
  /// The entry of an instance's loss.
  std::uint32_t loss_of(const Group& group, std::size_t instance) const;
  /// Sets the loss of the blocks with ids first .. last - 1.
  void set_loss(std::uint64_t first, std::uint64_t last, const Loss& loss);
  /// Appends an instance; returns its id.
  ///
  ///   values  do not include hidden uniforms and data
  std::uint64_t append(std::uint32_t group, const Row& values, std::uint32_t label,
                       std::uint32_t loss);
  std::uint64_t append(HostBlock block);
  struct Many {
    std::size_t count = 0;
    std::uint64_t first_id = 0;  ///< at most the ids of the instances
    bool sources = false;        ///< true: Group::sources gets entries, too, all kNoSource
  };
  /// Appends instances of one group. The caller then writes their rows, columns (including
  /// hidden ones), sources, ids and locations together.
  std::vector<ir::Batch::NewRows> append_many(std::uint32_t group, const Many& many,
                                              std::uint32_t label, std::uint32_t loss);

  void remove(std::uint64_t id, BlockKind kind);
  /// The instance with an id, and its row without hidden uniforms and data.
  Location locate(std::uint64_t id, BlockKind kind);
  Row row_of(const Location& at) const;
  /// Makes a block an instance of another topology with the same number of rows; id, position among
  /// the rows, label and loss stay.
  void move(std::uint64_t id, std::uint32_t group, const Row& values);
  /// Callables stored for this kind of block, to be added to.
  Callables& callables_of(BlockKind kind);
  /// Renumbers the rows in the order of ids if a removal has moved them, and those of constraints
  /// if residuals were added before them.
  void number_rows();
  /// The uniform that stands for hidden uniform k of a group's instances.
  std::uint32_t hidden_uniform(const Group& group, std::uint32_t loss, std::uint32_t k) const {
    return is_constraint(group.kind) ? penalty_uniform : losses[loss].first_uniform + k;
  }
  std::uint64_t id_of(const Group& group, std::size_t instance) const;
  Run run_of(const Group& group, std::size_t instance) const;

  /// Replaces the numbers of the data array with first entry `first`, in `data` and in all
  /// instances that read it.
  void set_data(std::uint32_t first, std::span<const double> values);
  void set_data(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values);

  /// Begins to maintain the table from ids to blocks.
  void index_blocks(Ledger& kind);

 private:
  void remove_host_block(std::uint32_t number);
  void set_traced_loss(std::span<const std::uint64_t> ids, const Loss& loss);
  void move_instance(std::uint64_t id, std::uint32_t loss);
  /// Makes a block an instance of another group; id, position among the rows and label stay.
  void move_block(std::uint64_t id, std::uint32_t group, const Row& values, std::uint32_t loss);
  void take_out(Ledger& kind, std::uint64_t id);
};

/// A problem's state. Throws Error{InvalidArgument} if the problem was moved from.
inline ProblemState& whole(const std::shared_ptr<ProblemState>& state) {
  return topograd::whole(state, "problem");
}

[[noreturn]] void refuse_change(const char* call);
/// The same for `call`, which changes the problem. Throws Error{InvalidArgument} during a solve.
inline ProblemState& changing(const std::shared_ptr<ProblemState>& state, const char* call) {
  ProblemState& present = whole(state);
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
std::uint64_t trace_block(ProblemState& state, std::span<const Value> rows,
                          const ResidualOptions& options, BlockKind kind);

/// Throws unless an energy has one row, and only a residual a robust loss.
void check_block(std::size_t rows, const Loss& loss, const Caller& caller);

}  // namespace topograd::detail
