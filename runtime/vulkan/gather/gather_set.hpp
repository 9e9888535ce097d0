// Sums of terms by owner on the device: work items in parts, and their kernels.
#pragma once

#include "gather_columns.hpp"
#include "operands.hpp"
#include "partial_sums.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

namespace topograd::runtime::vulkan {

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

  /// Hash of the sources that evaluate `pass` and sum.
  ir::Hash128 source_hash(Pass pass);
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
    bool direct = true;  // writes to owners
    bool light = true;   // an item is for one invocation, not for a workgroup
    std::uint32_t first_output = 0, last_output = 0;  // owners of direct items
    Buffer starts, owners, outputs, placed_outputs, instances;
    GatherColumns::Piece columns;             // columns of its entries
    std::vector<std::uint32_t> item_outputs;  // kept for owners of single scalars
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
  bool dense_ = false;            // work item w is owner w, in all parts
  std::uint32_t heavy_size_ = 0;  // invocations that share a heavy item
  std::vector<std::uint64_t> role_entries_;
  std::vector<Part> parts_;
  PartialSums partial_sums_;
  std::map<std::tuple<Pass, bool, bool>, Kernels> kernels_;  // pass, stored terms, predicated
  std::map<codegen::Fusion, TermKernel> fused_kernels_;
};

}  // namespace topograd::runtime::vulkan
