// Small terms that are evaluated in the kernel of another term's product, without a dispatch of
// their own.
#include "fused_terms.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace topograd::runtime::vulkan {
namespace {

using codegen::BufferRole;

/// Owners to an entry: with fewer of them, most invocations would take the detour.
constexpr std::uint64_t kOwnersOfEntry = 8;

}  // namespace

bool FusedTerms::can_fuse(const GatherSet& set, const Model& model) {
  return set.array() != kScalars && set.can_fuse() && !set.view().batch->has_resident() &&
         set.entries() * kOwnersOfEntry < model.arrays[set.array()].blocks;
}

FusedTerms::FusedTerms(Context& context, std::span<const GatherSet* const> sets, const Model& model)
    : context_(context), owner_width_(sets[0]->owner_width()) {
  for (const GatherSet* set : sets) add(*set, model);
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.owner, a.role) < std::pair(b.owner, b.role);
  });
  upload_owners(model.arrays[sets[0]->array()].blocks);
  upload_indices();
  refresh_data();
}

void FusedTerms::add(const GatherSet& set, const Model& model) {
  // The general layout: a few columns more cost nothing here, and a kernel fits any instances.
  TermShape shape = set.view().shape;
  shape.layout = codegen::general_layout(shape.topology->program.leaves);
  const ir::Batch& batch = *set.view().batch;
  for (const GatherPlan& plan : invert(batch, shape.groups, model.arrays, model.scalars)) {
    if (plan.array != set.array()) continue;
    const auto first = static_cast<std::uint32_t>(roles_.size());
    const std::size_t roles = plan.roles.size();
    for (std::uint32_t group : plan.roles) roles_.push_back({shape, &batch, group});
    for (std::size_t k = 0; k + 1 < plan.starts.size(); ++k) {
      const auto role = first + static_cast<std::uint32_t>(k % roles);
      for (std::uint32_t e = plan.starts[k]; e < plan.starts[k + 1]; ++e) {
        entries_.push_back({plan.owners[k / roles], role, plan.instances[e]});
      }
    }
  }
}

void FusedTerms::upload_owners(std::uint64_t owners) {
  std::vector<std::uint32_t> words((owners + 31) / 32 * 2, 0), starts;
  std::uint32_t items = 0;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const Entry& entry = entries_[e];
    if (e == 0 || entries_[e - 1].owner != entry.owner) {
      words[2 * (entry.owner / 32)] |= 1u << (entry.owner % 32);
      starts.resize((std::size_t{++items}) * roles_.size(), 0);
    }
    ++starts[(items - 1) * roles_.size() + entry.role];
  }
  starts.push_back(0);
  std::exclusive_scan(starts.begin(), starts.end(), starts.begin(), 0u);
  std::uint32_t before = 0;
  for (std::size_t k = 0; k < words.size(); k += 2) {
    words[k + 1] = before;
    before += static_cast<std::uint32_t>(std::popcount(words[k]));
  }
  owners_ = make_buffer(context_, words, "fused_owners");
  starts_ = make_buffer(context_, starts, "fused_starts");
}

void FusedTerms::upload_indices() {
  std::vector<EntryColumns> columns;
  std::uint32_t most = 0;
  for (const Role& role : roles_) {
    columns.push_back(entry_columns(role.shape.layout, role.shape.groups[role.group]));
    most = std::max(most, columns.back().layout.index_columns);
  }
  const std::size_t n = entries_.size();
  std::vector<std::uint32_t> index(std::size_t{most} * n, 0);
  for (std::size_t e = 0; e < n; ++e) {
    const Entry& entry = entries_[e];
    const std::vector<std::uint32_t>& stored = columns[entry.role].index_columns;
    for (std::size_t c = 0; c < stored.size(); ++c) {
      // In the general layout, stored columns are the batch's.
      index[c * n + e] = roles_[entry.role].batch->index(entry.instance, stored[c]);
    }
  }
  index_ = make_buffer(context_, index, "fused_index");
}

void FusedTerms::refresh_data() {
  std::uint32_t most = 0;
  for (const Role& role : roles_) most = std::max(most, role.shape.layout.data_columns);
  const std::size_t n = entries_.size();
  std::vector<double> data(std::size_t{most} * n, 0.0);
  for (std::size_t e = 0; e < n; ++e) {
    const Role& role = roles_[entries_[e].role];
    for (std::uint32_t c = 0; c < role.shape.layout.data_columns; ++c) {
      data[c * n + e] = role.batch->data(entries_[e].instance, c);
    }
  }
  if (!data_) data_ = make_numbers(context_, data.size(), "fused_data");
  if (!data.empty()) write_numbers(context_, data_, data);
}

std::vector<codegen::GatherRole> FusedTerms::roles(Pass pass) const {
  std::vector<codegen::GatherRole> made;
  for (const Role& role : roles_) {
    made.push_back(gather_role(role.shape, pass, role.group, owner_width_));
    made.back().is_fused = true;
  }
  return made;
}

void FusedTerms::bind(BindingTable& table) const {
  table.set(BufferRole::fused_owners, owners_);
  table.set(BufferRole::fused_starts, starts_);
  table.set(BufferRole::fused_index_columns, index_);
  table.set(BufferRole::fused_data_columns, data_);
}

}  // namespace topograd::runtime::vulkan
