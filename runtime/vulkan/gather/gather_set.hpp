// Sums of terms by block on the device: work items in parts, their kernels, and fused terms.
#pragma once

#include "../../../ir/batch/unset_vector.hpp"
#include "../../plan/column_forms.hpp"
#include "../../plan/plan.hpp"
#include "../../plan/requests.hpp"
#include "../recording/context.hpp"
#include "columns_in_place.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

namespace topograd::runtime::vulkan {

/// Data of a batch that a gather set needs.
struct BatchView {
  TermShape shape;
  const ir::Batch* batch = nullptr;
  const ColumnForms* forms = nullptr;
  const SharedNumbers* numbers = nullptr;
};

/// The words of columns in a buffer: those that are stored, `rows` long, then the numbers that are
/// shared.
template <class Form>
std::vector<std::uint32_t> form_words(const std::vector<Form>& forms, std::uint32_t rows) {
  const auto stored = static_cast<std::uint32_t>(std::ranges::count(forms, true, &Form::stored));
  std::uint32_t first = 0, position = stored * rows;
  std::vector<std::uint32_t> words;
  for (const Form& form : forms) {
    words.push_back(form.stored ? codegen::form_by_row(first) : codegen::form_shared(position));
    (form.stored ? first : position) += form.stored ? rows : 1;
  }
  return words;
}

/// Columns in the order of entries, in pieces that fit a storage buffer range. Sums of stored terms
/// read none.
class GatherColumns {
 public:
  /// Columns of consecutive entries.
  struct Piece {
    std::uint32_t first = 0, count = 0;  ///< entries
    Buffer index, data;
    FormWords words;
    ColumnsInPlace resident;
  };

  /// Context, view and plan outlive this.
  GatherColumns(Context& context, const BatchView& view, const GatherPlan& plan);

  /// Entries of a piece, at most.
  std::uint64_t most_entries() const;
  /// Reads where entries begin from the plan.
  Piece upload(std::uint32_t first, std::uint32_t count) const;
  void bind(BindingTable& table, const Piece& piece) const;
  /// Copies data columns again; to a new buffer if their forms changed.
  ///
  ///   own  also those that lie on the host
  void refresh(Piece& piece, bool moved, bool own) const;

 private:
  void place_index(Piece& piece) const;
  std::span<const std::uint32_t> instances(const Piece& piece) const;
  ir::UnsetVector<std::uint32_t> entry_indices(const Piece& piece) const;
  void upload_data(Piece& piece, bool own) const;
  template <class T>
  void upload_data_as(Piece& piece, bool own) const;

  Context& context_;
  const BatchView& view_;
  const GatherPlan& plan_;
  std::uint32_t columns_ = 0;  // stored index columns of an entry, the most of any block slot
  std::vector<EntryColumns> block_slot_columns_;
  std::vector<std::vector<EntryForm>> block_slot_forms_;
};

/// Vectors that kernels read, in the precision of the engine.
struct Operands {
  const Buffer* x = nullptr;
  const Buffer* direction = nullptr;
  const Buffer* seeds = nullptr;
  const Buffer* uniforms = nullptr;
  const Buffer* scalars = nullptr;   ///< if set, kernels return at once unless Scalar::state is 0
  std::uint32_t seeds_stride = 0;    ///< gather: between rows of seeds
  const Buffer* failures = nullptr;  ///< cost: a u32 that counts instances that fail a guard
};

/// Target of the sums of an accumulating pass.
struct SumTarget {
  const Buffer* out = nullptr;
  std::uint64_t first = 0;  ///< position of block 0's first sum
  bool overwrite = false;   ///< every block is written by this set: store instead of adding
  /// Blocks of single scalars only: position of each scalar's sum, instead of first + scalar.
  const std::vector<std::uint32_t>* positions = nullptr;
};

/// Targets of a pass with values (has_values) for results that are not summed by block.
struct ValueSinks {
  const Buffer* costs = nullptr;  ///< partial sums
  std::uint32_t next = 0;         ///< next partial sum; moved past written ones
  const Buffer* rows = nullptr;   ///< in the order of TermColumns
};

class FusedTerms;

/// Further operands of a product of conjugate gradients that is fused with its direction.
struct FusedOperands {
  const Buffer* preconditioned = nullptr;
  const Buffer* damping = nullptr;
  const Buffer* next_direction = nullptr;
  const Buffer* decision = nullptr;
  const Buffer* partials = nullptr;  ///< sums of r·z and r·r
  std::uint32_t sums_count = 0;      ///< partial sums of each
  const Buffer* curvature = nullptr;
  std::uint32_t curvature_first = 0;  ///< position of the set's first sum of p·q
  /// Terms fused into the set's kernel; always the same, or null.
  const FusedTerms* fused_terms = nullptr;
};

/// Binds operands by the role of their buffer; a kernel reads those that it needs.
BindingTable bind_operands(const Operands& operands);
void bind_sinks(BindingTable& table, const ValueSinks& sinks);
/// Binds what a dispatch writes for blocks first_output to last_output, `sums` numbers each: all of
/// the target or, beyond a range, the part around these blocks. Returns the position of block 0 in
/// what is bound, modulo 2^32.
std::uint32_t bind_target(const Context& context, BindingTable& table, const SumTarget& target,
                          std::uint32_t sums, std::uint32_t first_output,
                          std::uint32_t last_output);
/// Blocks between the first and the last of a dispatch, at most, so that their sums fit a range.
///
///   scalars  blocks are single scalars
std::uint64_t most_blocks(const Context& context, std::uint32_t block_width, bool scalars);

/// Levels of partial sums of one gather plan. Each level sums those of the level before, the last
/// one to blocks.
class PartialSums {
 public:
  /// The kernel of a pass, and where partial sums lie; null if there are no levels.
  struct Pass {
    std::uint32_t sums = 0;  ///< numbers per block
    LoadedKernel combine;
    std::array<Buffer, 2> partials;  ///< take turns from level to level
  };

  /// Context outlives this.
  PartialSums(Context& context, const GatherPlan& plan);

  Pass make_pass(std::uint32_t sums, bool predicated);
  /// Sums pass.partials[0] to the target; positions of that are known by place_outputs().
  void record(CommandList& list, const Pass& pass, BindingTable table,
              const SumTarget& target) const;
  /// For blocks of single scalars: positions of their sums.
  void place_outputs(const std::vector<std::uint32_t>& positions);

 private:
  struct Level {
    Buffer starts, blocks, outputs, placed_outputs;
    std::vector<std::uint32_t> targets;
    bool to_blocks = false;
    std::vector<std::uint32_t> partials;      // by entry
    std::map<std::uint32_t, Buffer> entries;  // by sums of a block
  };
  void add_level(const GatherPlan::Level& level, std::size_t first, std::size_t last);

  Context& context_;
  std::uint32_t partials_ = 0;        // partial sums of one number
  std::uint32_t workgroup_size_ = 0;  // invocations that share an item
  std::vector<Level> levels_;
};

/// One plan of a batch (the blocks of one array) on the device.
class GatherSet {
 public:
  GatherSet(Context& context, const BatchView& view, GatherPlan plan);

  std::uint32_t array() const { return plan_.array; }
  std::uint64_t x_first() const { return plan_.x_first; }
  bool covers_all() const { return plan_.covers_all; }
  std::size_t block_slots() const { return plan_.block_slots.size(); }
  std::uint64_t entries() const { return plan_.instances.size(); }
  /// By block slot.
  std::span<const std::uint64_t> block_slot_entries() const { return block_slot_entries_; }
  /// Groups of the shape, by block slot.
  std::span<const std::uint32_t> block_slot_groups() const { return plan_.block_slots; }
  const BatchView& view() const { return view_; }
  std::uint32_t block_width() const { return plan_.block_width; }

  /// Hash of the sources that evaluate `pass` and sum.
  ir::Hash128 source_hash(Pass pass);
  /// Evaluates and sums; a pass with values needs `sinks` and a lead(). Returns the number of
  /// dispatches of residual kernels.
  std::uint64_t record(CommandList& list, Pass pass, const Operands& operands, SumTarget target,
                       ValueSinks* sinks = nullptr);
  /// A block slot in which every instance has an entry, if there is one.
  std::optional<std::size_t> lead() const;
  /// Partial sums of the cost that a pass with values writes, at most.
  std::uint64_t most_costs() const;
  /// True if one dispatch evaluates the whole set, and each block has one work item.
  bool can_fuse() const;
  /// Form::gather fused with conjugate gradients. Returns the number of partial sums of p·q.
  std::uint32_t record_fused(CommandList& list, codegen::Fusion fusion, const Operands& operands,
                             const FusedOperands& fused, SumTarget target);
  /// Sums terms stored by a store pass, slot k of instance i at k * stride + i.
  void record_stored(CommandList& list, Pass pass, const Buffer& terms, std::uint32_t stride,
                     const Operands& operands, SumTarget target);
  /// Copies data columns again; to new buffers if their forms changed.
  ///
  ///   own  also those that lie on the host
  void refresh_data(bool moved, bool own);
  /// Bytes of the plan that stay on the host.
  std::uint64_t host_bytes() const {
    return plan_.instances.capacity() * sizeof(plan_.instances[0]);
  }

 private:
  struct Part {  // a range of work items whose columns fit into one range
    std::uint32_t items = 0;
    bool direct = true;  // writes to blocks
    bool light = true;   // an item is for one invocation, not for a workgroup
    std::uint32_t first_output = 0, last_output = 0;  // blocks of direct items
    Buffer starts, blocks, outputs, placed_outputs, instances;
    GatherColumns::Piece columns;             // columns of its entries
    std::vector<std::uint32_t> item_outputs;  // kept for blocks of single scalars
  };
  struct Kernels {
    TermKernel sum;    // evaluates and sums, or sums stored terms
    TermKernel heavy;  // the same, a workgroup an item
    PartialSums::Pass combine;
  };

  void cut_into_parts();
  void add_part(std::uint32_t first_item, std::uint32_t last_item);
  void choose_workgroups();
  void place_outputs(const std::vector<std::uint32_t>& positions);
  void upload_instances();
  /// True if some items are for one invocation, or for a workgroup.
  bool has_light() const;
  bool has_heavy() const;
  codegen::KernelRequest request(Pass pass, bool stored_terms, bool heavy) const;
  /// One run of a pass, and its form.
  struct Run {
    Pass pass;
    bool stored_terms, predicated;
    std::uint32_t out_stride;
    ValueSinks* sinks = nullptr;
  };
  /// Made where a list declares them.
  Kernels& kernels_of(const CommandList& list, const Run& what);
  const LoadedKernel& fused_kernel(const CommandList& list, codegen::Fusion fusion,
                                   const FusedTerms* fused_terms);
  std::uint64_t run(CommandList& list, const Run& what, BindingTable& table,
                    const SumTarget& target);
  /// Of the part, on average.
  double instances_per_item(const Part& part) const;

  Context& context_;
  BatchView view_;
  GatherPlan plan_;
  GatherColumns columns_;
  bool dense_ = false;            // work item w is block w, in all parts
  std::uint32_t heavy_size_ = 0;  // invocations that share a heavy item
  std::vector<std::uint64_t> block_slot_entries_;
  std::vector<Part> parts_;
  PartialSums partial_sums_;
  std::map<std::tuple<Pass, bool, bool>, Kernels> kernels_;  // pass, stored terms, predicated
  std::map<codegen::Fusion, TermKernel> fused_kernels_;
};

/// Entries of small terms by block, for the blocks of one array: columns, and a bit for each block
/// that has any.
class FusedTerms {
 public:
  /// Most block slots that are fused into one kernel.
  static constexpr std::size_t kMostBlockSlots = 16;

  /// True if a set's entries are few beside the blocks of its array, and none of them has many.
  static bool can_fuse(const GatherSet& set, const Model& model);

  ///   sets  that can_fuse(), all of one array; what they view outlives this
  FusedTerms(Context& context, std::span<const GatherSet* const> sets, const Model& model);

  /// Block slots that they add to a kernel.
  std::vector<codegen::GatherSlot> block_slots(Pass pass) const;
  void bind(BindingTable& table) const;
  std::uint32_t stride() const { return static_cast<std::uint32_t>(entries_.size()); }
  /// Copies data columns again.
  void refresh_data();

 private:
  struct BlockSlot {
    TermShape shape;
    const ir::Batch* batch = nullptr;
    std::uint32_t group = 0;
  };
  struct Entry {
    std::uint32_t block = 0, block_slot = 0, instance = 0;
  };

  void add(const GatherSet& set, const Model& model);
  void upload_blocks(std::uint64_t blocks);
  void upload_indices();

  Context& context_;
  std::uint32_t block_width_ = 1;
  std::vector<BlockSlot> block_slots_;
  std::vector<Entry> entries_;  // by block, then by block slot
  Buffer blocks_, starts_, index_, data_;
};

}  // namespace topograd::runtime::vulkan
