// Sums of partial sums, where an owner has more entries than one work item takes.
#pragma once

#include "../../plan/plan.hpp"
#include "operands.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace topograd::runtime::vulkan {

/// Levels of partial sums of one gather plan. Each level sums those of the level before, the last
/// one to owners.
class PartialSums {
 public:
  /// The kernel of a pass, and where partial sums lie; null if there are no levels.
  struct Pass {
    std::uint32_t sums = 0;  ///< numbers per owner
    LoadedKernel combine;
    std::array<Buffer, 2> partials;  ///< take turns from level to level
  };

  /// Context outlives this.
  PartialSums(Context& context, const GatherPlan& plan);

  Pass make_pass(std::uint32_t sums, bool predicated);
  /// Sums pass.partials[0] to the target; positions of that are known by place_outputs().
  void record(CommandList& list, const Pass& pass, BindingTable table,
              const SumTarget& target) const;
  /// For owners of single scalars: positions of their sums.
  void place_outputs(const std::vector<std::uint32_t>& positions);

 private:
  struct Level {
    Buffer starts, owners, outputs, placed_outputs;
    std::vector<std::uint32_t> targets;
    bool to_owners = false;
    std::vector<std::uint32_t> partials;      // by entry
    std::map<std::uint32_t, Buffer> entries;  // by sums of an owner
  };
  void add_level(const GatherPlan::Level& level, std::size_t first, std::size_t last);

  Context& context_;
  std::uint32_t partials_ = 0;        // partial sums of one number
  std::uint32_t workgroup_size_ = 0;  // invocations that share an item
  std::vector<Level> levels_;
};

}  // namespace topograd::runtime::vulkan
