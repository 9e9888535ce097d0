// The gather rungs on the device: columns in gather order, segments, combination of partial sums.
#pragma once

#include "../../plan/column_forms.hpp"
#include "../../plan/plan.hpp"
#include "../../plan/requests.hpp"
#include "../recording/context.hpp"
#include "../recording/needs.hpp"
#include "remote_columns.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace topograd::runtime::vulkan {

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

/// Where the sums of an accumulating pass go.
struct SumTarget {
  const Buffer* out = nullptr;
  std::uint64_t first = 0;  ///< position of owner 0's first sum
  bool overwrite = false;   ///< every owner is written by this set: store instead of adding
  /// Owners of single scalars only: position of each scalar's sum, instead of first + scalar.
  const std::vector<std::uint32_t>* positions = nullptr;
};

/// Where a pass with values (has_values) puts what is not summed by owner.
struct ValueSinks {
  const Buffer* costs = nullptr;  ///< partial sums
  std::uint32_t next = 0;         ///< of them; moved past those that are written
  const Buffer* rows = nullptr;   ///< as DeviceTerm::record_store places them
};

class Riders;

/// What a product of conjugate gradients needs besides, where it is fused with its direction.
struct FusedOperands {
  const Buffer* preconditioned = nullptr;
  const Buffer* damping = nullptr;
  const Buffer* next_direction = nullptr;
  const Buffer* decision = nullptr;
  const Buffer* partials = nullptr;  ///< sums of r·z and r·r
  std::uint32_t sums_count = 0;      ///< of each
  const Buffer* curvature = nullptr;
  std::uint32_t curvature_first = 0;  ///< where the set's sums of p·q begin
  const Riders* riders = nullptr;     ///< of the set; always the same ones, null if there are none
};

/// What a set needs to know of its batch.
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

/// Operands by role; a kernel reads those that it needs.
BindingTable bind_operands(const Operands& operands);
void bind_sinks(BindingTable& table, const ValueSinks& sinks);

/// One plan of a batch (the owners of one array) on the device.
class GatherSet {
 public:
  GatherSet(Context& context, const BatchView& view, GatherPlan plan);

  std::uint32_t array() const { return plan_.array; }
  std::uint64_t x_first() const { return plan_.x_first; }
  bool covers_all() const { return plan_.covers_all; }
  std::size_t roles() const { return plan_.roles.size(); }
  std::uint64_t entries() const { return plan_.instances.size(); }
  /// By role.
  std::span<const std::uint64_t> role_entries() const { return role_entries_; }
  /// Groups of the shape, by role.
  std::span<const std::uint32_t> role_groups() const { return plan_.roles; }
  const BatchView& view() const { return view_; }
  std::uint32_t owner_width() const { return plan_.owner_width; }

  /// Of the sources that evaluate `pass` and sum.
  ir::Hash128 source_hash(Pass pass);
  /// Kernels and buffers of record(), or of record_stored().
  void need(Needs& needs, Pass pass, bool stored_terms, bool predicated = false);
  /// Evaluates and sums; a pass with values needs `sinks` and a lead(). Returns the number of
  /// dispatches of residual kernels.
  std::uint64_t record(CommandList& list, Pass pass, const Operands& operands, SumTarget target,
                       ValueSinks* sinks = nullptr);
  /// A role in which every instance has an entry, if there is one.
  std::optional<std::size_t> lead() const;
  /// Partial sums of the cost that a pass with values writes, at most.
  std::uint64_t most_costs() const;
  /// True if one dispatch evaluates the whole set, and each owner has one work item.
  bool can_fuse() const;
  /// Kernels of record_fused().
  void need_fused(Needs& needs, codegen::Fusion fusion, const Riders* riders);
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
    std::uint32_t items = 0, entries = 0, first_entry = 0;
    bool direct = true;  // writes to owners
    bool light = true;   // an item is for one invocation, not for a workgroup
    std::uint32_t first_output = 0, last_output = 0;  // of items that write to owners
    Buffer starts, owners, outputs, placed_outputs, instances, index, data;
    FormWords words;
    RemoteColumns remote;
    std::vector<std::uint32_t> item_outputs;  // kept for owners of single scalars
  };
  struct LevelPart {
    Buffer starts, owners, outputs, placed_outputs;
    std::vector<std::uint32_t> targets;
    std::uint32_t items = 0;
    bool to_owners = false;
    std::uint32_t first_output = 0, last_output = 0;
    std::vector<std::uint32_t> partials;      // by entry
    std::map<std::uint32_t, Buffer> entries;  // by sums of an owner
  };
  struct Kernels {
    TermKernel sum;        // evaluates and sums, or sums stored terms
    TermKernel heavy;      // the same, a workgroup an item
    LoadedKernel combine;  // sums partial sums, likewise
    std::array<Buffer, 2> partials;
  };

  void place_outputs(const std::vector<std::uint32_t>& positions);
  void upload_instances();
  void cut_into_parts();
  void add_part(std::uint32_t first_item, std::uint32_t last_item);
  void add_levels();
  void add_level(const GatherPlan::Level& level, std::size_t first, std::size_t last);
  /// Owners between the first and the last of a dispatch, at most, so that their sums fit a range.
  std::uint64_t most_owners() const;
  /// Binds what a dispatch writes, all of it or, beyond a range, the part around its owners.
  /// Returns the position of owner 0 in what is bound, modulo 2^32.
  std::uint32_t bind_out(BindingTable& table, const SumTarget& target, std::uint32_t sums,
                         std::uint32_t first_output, std::uint32_t last_output) const;
  void choose_workgroups();
  void find_columns();
  void place_index(Part& part) const;
  std::span<const std::uint32_t> instances(const Part& part) const;
  std::vector<std::uint32_t> entry_indices(const Part& part) const;
  void upload_index(Part& part);
  void upload_data(Part& part, bool own = true);
  template <class T>
  void upload_data_as(Part& part, bool own);
  void bind_columns(BindingTable& table, const Part& part) const;
  /// Some items are for one invocation, or for a workgroup.
  bool has_light() const;
  bool has_heavy() const;
  codegen::KernelRequest request(Pass pass, bool stored_terms, bool heavy) const;
  Kernels make_kernels(Pass pass, bool predicated);
  void combine(CommandList& list, Kernels& kernels, std::uint32_t sums, BindingTable table,
               SumTarget target);
  /// What runs, and in which form.
  struct Run {
    Pass pass;
    bool stored_terms, predicated;
    std::uint32_t out_stride;
    ValueSinks* sinks = nullptr;
  };
  std::uint64_t run(CommandList& list, const Run& what, BindingTable& table, SumTarget target);

  Context& context_;
  BatchView view_;
  GatherPlan plan_;
  bool dense_ = false;                               // work item w is owner w, in all parts
  std::uint32_t heavy_size_ = 0, combine_size_ = 0;  // of workgroups that share an item
  std::uint32_t columns_ = 0;  // stored index columns of an entry, the most of any role
  std::vector<EntryColumns> role_columns_;
  std::vector<std::uint64_t> role_entries_;
  std::vector<std::vector<EntryForm>> role_forms_;
  std::vector<Part> parts_;
  std::vector<LevelPart> levels_;
  std::map<std::tuple<Pass, bool, bool>, Kernels> kernels_;  // pass, stored terms, predicated
  std::map<codegen::Fusion, TermKernel> fused_kernels_;
};

}  // namespace topograd::runtime::vulkan
