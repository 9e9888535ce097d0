// The blocks of a problem, in groups of one topology; their losses, labels and constraints.
#pragma once

#include "../../ir/hash.hpp"
#include "../../ir/program.hpp"
#include "../block_kind.hpp"
#include "../loss.hpp"
#include "../problem.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace topograd::detail {

/// The labels of a problem's blocks. Number 0 is the empty text.
class Labels {
 public:
  /// The number of an equal text, which is added if there is none.
  std::uint32_t number(std::string_view text);
  const std::string& text(std::uint32_t number) const { return texts_[number]; }

 private:
  std::deque<std::string> texts_{std::string()};
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::uint32_t last_ = 0;  // that was requested last
};

/// A loss of residuals, and the position of its numbers among the problem's uniforms.
struct LossEntry {
  Loss loss;
  std::uint32_t program = 0;  ///< number of its program, + 1; 0: trivial
  std::uint32_t first_uniform = 0;
  std::uint64_t users = 0;  ///< number of instances, without host blocks
};
inline constexpr std::uint32_t kTrivialLoss = 0;  ///< entry of the trivial loss

/// Entries of losses, and their programs: losses that differ in numbers alone share one.
class LossTable {
 public:
  /// The entry of an equal loss. If there is none, it is added, and its numbers become the last
  /// uniforms. Throws Error{Unsupported} for a host loss.
  ///
  ///   built_in  gives a trivial loss an entry in the program of the built-in losses
  std::uint32_t entry(const char* call, const Loss& loss, std::vector<double>& uniforms,
                      bool built_in = false);
  /// Changes an entry and its uniforms to a loss with the same program.
  void replace(std::uint32_t entry, const Loss& loss, std::vector<double>& uniforms);
  void add_users(std::uint32_t entry, std::uint64_t count = 1);
  void remove_user(std::uint32_t entry);

  /// In the order of their uniforms; the first one is trivial.
  const std::vector<LossEntry>& entries() const { return entries_; }
  const LossEntry& operator[](std::uint32_t entry) const { return entries_[entry]; }
  /// The entry whose numbers include this uniform.
  std::uint32_t at_uniform(std::uint32_t uniform) const;
  /// Null for 0.
  const ir::Program* program(std::uint32_t number) const {
    return number == 0 ? nullptr : &programs_[number - 1];
  }
  /// The number of uniforms of a program.
  std::uint32_t uniform_count(std::uint32_t program) const;

 private:
  std::deque<ir::Program> programs_;
  std::vector<LossEntry> entries_ = std::vector<LossEntry>(1);
  std::uint32_t last_ = kTrivialLoss;  // that was requested last
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;
};

/// One row of a batch, as read from the tape.
struct Row {
  std::vector<std::uint32_t> indices;  ///< parameter slots, then uniform slots
  std::vector<double> data;
  /// Entries of the data arrays that `data` was read from, or kNoSource; empty if none was.
  std::vector<std::uint32_t> sources;
};

/// The number comes from the user's expression and cannot be set later.
inline constexpr std::uint32_t kNoSource = ~std::uint32_t{0};

/// r_k = w (s_k − d_k c_k) for an equality c = 0, w max(0, s_k − d_k c_k) for an inequality c >= 0.
///
/// With w = √μ and s = λ / (μ d), half its square is −λ c + ½ μ d² c² + ½ s² μ: the term of the
/// augmented Lagrangian (for inequalities Powell, Hestenes and Rockafellar's), up to a constant. w
/// is a uniform after those of `plain`; the s_k of all rows, then their d_k, are numbers after its
/// data. A NaN of c stays one.
///
/// Source: Nocedal & Wright, Numerical Optimization, 2nd ed., eq. 17.36 and 17.64.
ir::Program penalty_program(const ir::Program& plain, BlockKind kind);

/// A hidden number of a new row: shifts are 0, and scales are 1.
constexpr double hidden_number(std::uint32_t column, std::uint32_t hidden) {
  return 2 * column < hidden ? 0 : 1;
}

/// The energy −μ Σ log (c_k + s_k) of an inequality c >= 0: NaN or infinite unless all arguments
/// are positive. With μ = 0 it is 0 everywhere.
///
/// μ is the uniform of penalty_program()'s w, and s_k are its shifts: both serve one batch. The
/// logarithm needs no scale, so d_k are not read.
ir::Program barrier_program(const ir::Program& plain);

/// Properties of the instances from `id` on, up to the next run, besides their rows.
struct Run {
  std::uint64_t id = 0;
  std::uint32_t label = 0;  ///< its number in the problem's Labels
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
  std::uint32_t hidden_data = 0;  ///< likewise: shifts and scales of the rows of a constraint
  ir::Program plain;              ///< of constraints: as the user wrote them
  std::unique_ptr<const ir::Topology> barrier;  ///< barrier_program(); null until it is asked for
  std::vector<std::uint32_t> variants;          ///< groups of the same topology with other losses
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

struct Blocks {
  std::deque<Group> groups;
  std::vector<HostBlock> host_blocks;
  LossTable losses;
  Ledger residuals, energies, constraints;
  /// The weight of all equalities, once there is a constraint; the next one is that of all
  /// inequalities.
  std::uint32_t penalty_uniform = kNoUniform;
  std::uint64_t version = 0;  ///< counts changes

  Ledger& ledger(BlockKind kind) {
    return is_constraint(kind) ? constraints : kind == BlockKind::energy ? energies : residuals;
  }
  const Ledger& ledger(BlockKind kind) const {
    return is_constraint(kind) ? constraints : kind == BlockKind::energy ? energies : residuals;
  }

  /// A group of an equal topology of this kind, with any losses; added if there is none.
  std::uint32_t group_of(const ir::Topology& topology, BlockKind kind, std::uint32_t loss_program);
  /// The group of the same topology whose losses have this program; added if there is none.
  std::uint32_t variant(std::uint32_t group, std::uint32_t loss_program);
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
  /// Takes out a host block, to be put back as an instance of a group; nothing if it was removed.
  std::optional<HostBlock> take_host_block(std::uint64_t id);
  /// A host block, to be given another function of as many rows; null if it was removed.
  HostBlock* change_host_block(std::uint64_t id);
  /// Makes it an instance; id, position among the rows and label stay.
  void put_back(const HostBlock& block, std::uint32_t group, const Row& values, std::uint32_t loss);
  /// Makes host blocks of the rows of one instance, which were taken out for it.
  void put_back_on_host(std::uint64_t id, std::vector<HostBlock> blocks);

  /// The instance with an id, and its row without hidden uniforms and data.
  Location locate(std::uint64_t id, BlockKind kind);
  Row row_of(const Location& at) const;
  std::uint64_t id_of(const Group& group, std::size_t instance) const;
  Run run_of(const Group& group, std::size_t instance) const;
  /// The entry of an instance's loss.
  std::uint32_t loss_of(const Group& group, std::size_t instance) const;
  /// The uniform that stands for hidden uniform k of a group's instances.
  std::uint32_t hidden_uniform(const Group& group, std::uint32_t loss, std::uint32_t k) const {
    if (!is_constraint(group.kind)) return losses[loss].first_uniform + k;
    return penalty_uniform + (group.kind == BlockKind::inequality ? 1 : 0);
  }

  /// Makes a block an instance of another topology with the same number of rows; id, position among
  /// the rows, label and loss stay.
  void move(std::uint64_t id, std::uint32_t group, const Row& values);
  /// Sets the loss of the blocks with ids first .. last - 1; its numbers are or become uniforms.
  void set_loss(std::uint64_t first, std::uint64_t last, const Loss& loss,
                std::vector<double>& uniforms);
  /// Renumbers the rows in the order of ids if a removal has moved them, and those of constraints
  /// if residuals were added before them.
  void number_rows();
  /// Begins to maintain the table from ids to blocks.
  void index_blocks(Ledger& kind);

 private:
  void remove_host_block(std::uint32_t number);
  void set_traced_loss(std::span<const std::uint64_t> ids, const Loss& loss,
                       std::vector<double>& uniforms);
  void move_instance(std::uint64_t id, std::uint32_t loss);
  /// Makes a block an instance of another group; id, position among the rows and label stay.
  void move_block(std::uint64_t id, std::uint32_t group, const Row& values, std::uint32_t loss);
  void take_out(Ledger& kind, std::uint64_t id);
  /// What a block keeps when it moves.
  struct Kept {
    std::uint64_t id = 0, first_row = 0;
    std::uint32_t label = 0;
  };
  /// Appends an instance with the id, row and label of a block that was taken out.
  void append_kept(Ledger& kind, const Kept& kept, std::uint32_t group, const Row& values,
                   std::uint32_t loss);

  std::unordered_multimap<ir::Hash128, std::uint32_t> group_of_hash_;
  std::vector<std::uint32_t> indices_;  // of the row that is added
  std::vector<double> padded_;
};

}  // namespace topograd::detail
