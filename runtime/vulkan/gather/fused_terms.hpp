// Small terms that are evaluated in the kernel of another term's product, without a dispatch of
// their own.
#pragma once

#include "gather_set.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime::vulkan {

/// Entries of small terms by owner, for the owners of one array: columns, and a bit for each owner
/// that has any.
class FusedTerms {
 public:
  /// Most roles that are fused into one kernel.
  static constexpr std::size_t kMostRoles = 16;

  /// True if a set's entries are few beside the owners of its array, and none of them has many.
  static bool can_fuse(const GatherSet& set, const Model& model);

  ///   sets  that can_fuse(), all of one array; what they view outlives this
  FusedTerms(Context& context, std::span<const GatherSet* const> sets, const Model& model);

  /// Roles that they add to a kernel.
  std::vector<codegen::GatherRole> roles(Pass pass) const;
  void bind(BindingTable& table) const;
  std::uint32_t stride() const { return static_cast<std::uint32_t>(entries_.size()); }
  /// Copies data columns again.
  void refresh_data();

 private:
  struct Role {
    TermShape shape;
    const ir::Batch* batch = nullptr;
    std::uint32_t group = 0;
  };
  struct Entry {
    std::uint32_t owner = 0, role = 0, instance = 0;
  };

  void add(const GatherSet& set, const Model& model);
  void upload_owners(std::uint64_t owners);
  void upload_indices();

  Context& context_;
  std::uint32_t owner_width_ = 1;
  std::vector<Role> roles_;
  std::vector<Entry> entries_;  // by owner, then by role
  Buffer owners_, starts_, index_, data_;
};

}  // namespace topograd::runtime::vulkan
