// Inversion of index columns: for every owner, the instances that touch it.
#include "plan.hpp"

#include "../../ir/machine/parallel.hpp"
#include "partition.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace topograd::runtime {
namespace {

/// One entry before sorting: its owner, role and instance.
struct OwnedEntry {
  std::uint32_t owner;
  std::uint32_t role;
  std::uint32_t instance;
};

/// Entries grouped by owner and role: key = owner * roles + role.
struct Sorted {
  std::vector<std::uint32_t> owners;     // owners with entries, ascending
  std::vector<std::uint32_t> starts;     // owners * roles + 1
  std::vector<std::uint32_t> instances;  // by entry, ascending in each (owner, role)
};

class Inverter {
 public:
  Inverter(const ir::Batch& batch, std::span<const SlotGroup> groups, GatherPlan& plan,
           std::uint64_t owners)
      : batch_(batch), groups_(groups), plan_(plan), owners_(owners) {}

  Sorted sort() const {
    const std::uint64_t entries = batch_.size() * plan_.roles.size();
    return entries * 8 < owners_ ? sort_few() : sort_many();
  }

 private:
  Sorted sort_few() const {
    std::vector<OwnedEntry> entries;
    std::vector<std::uint32_t> owners(batch_.size());
    for (std::uint32_t role = 0; role < plan_.roles.size(); ++role) {
      copy_owners(role, 0, owners);
      for (std::uint32_t i = 0; i < owners.size(); ++i) entries.push_back({owners[i], role, i});
    }
    std::stable_sort(entries.begin(), entries.end(), [](const OwnedEntry& a, const OwnedEntry& b) {
      return std::pair(a.owner, a.role) < std::pair(b.owner, b.role);
    });
    Sorted sorted;
    const auto roles = plan_.roles.size();
    for (const OwnedEntry& e : entries) {
      if (sorted.owners.empty() || sorted.owners.back() != e.owner) {
        sorted.owners.push_back(e.owner);
        sorted.starts.resize(sorted.owners.size() * roles, 0);
      }
      ++sorted.starts[(sorted.owners.size() - 1) * roles + e.role];
      sorted.instances.push_back(e.instance);
    }
    sorted.starts.push_back(0);
    std::exclusive_scan(sorted.starts.begin(), sorted.starts.end(), sorted.starts.begin(), 0u);
    return sorted;
  }

  Sorted sort_many() const {
    const auto roles = static_cast<std::uint32_t>(plan_.roles.size());
    const Partition<> by_key = by_owner_and_role();
    std::vector<std::uint32_t> starts(owners_ * roles + 1, 0);
    by_key.each_bucket([&](std::span<const Keyed> items, std::size_t place, std::uint32_t first,
                           std::uint32_t beyond) {
      for (const Keyed& item : items) ++starts[item.key + 1];
      // Starts of the next bucket's first key are this one's end.
      auto at = static_cast<std::uint32_t>(place);
      for (std::uint32_t key = first; key < beyond; ++key) at = starts[key + 1] += at;
    });
    Sorted sorted;
    sorted.instances.resize(starts.back());
    by_key.each_bucket(
        [&](std::span<const Keyed> items, std::size_t, std::uint32_t first, std::uint32_t beyond) {
          std::vector<std::uint32_t> next(starts.begin() + first, starts.begin() + beyond);
          for (const Keyed& item : items) sorted.instances[next[item.key - first]++] = item.value;
        });
    bool all = true;
    for (std::uint64_t owner = 0; all && owner < owners_; ++owner) {
      all = starts[owner * roles] != starts[(owner + 1) * roles];
    }
    if (all) {
      sorted.owners.resize(owners_);
      std::iota(sorted.owners.begin(), sorted.owners.end(), 0u);
      sorted.starts = std::move(starts);
      return sorted;
    }
    for (std::uint64_t owner = 0; owner < owners_; ++owner) {
      if (starts[owner * roles] == starts[(owner + 1) * roles]) continue;
      sorted.owners.push_back(static_cast<std::uint32_t>(owner));
      sorted.starts.insert(sorted.starts.end(), &starts[owner * roles],
                           &starts[owner * roles] + roles);
    }
    sorted.starts.push_back(starts.back());
    return sorted;
  }

  /// All entries, ascending by instance for each key, owner * roles + role.
  Partition<> by_owner_and_role() const {
    const auto roles = static_cast<std::uint32_t>(plan_.roles.size());
    const auto emit = [&](std::size_t first, std::size_t count, auto sink) {
      std::vector<std::uint32_t> owners(ir::Batch::kBlockRows);
      for (std::size_t at = first; at < first + count; at += owners.size()) {
        owners.resize(std::min(ir::Batch::kBlockRows, first + count - at));
        for (std::uint32_t role = 0; role < roles; ++role) {
          copy_owners(role, at, owners);
          for (std::size_t i = 0; i < owners.size(); ++i)
            sink(Keyed{owners[i] * roles + role, static_cast<std::uint32_t>(at + i)});
        }
      }
    };
    return Partition<>(batch_.size(), static_cast<std::uint32_t>(owners_ * roles), emit);
  }

  /// Owners of instances from `first` on, in a role.
  void copy_owners(std::uint32_t role, std::size_t first, std::span<std::uint32_t> owners) const {
    const SlotGroup& group = groups_[plan_.roles[role]];
    const auto base = static_cast<std::uint32_t>(plan_.x_first + group.coordinates[0]);
    batch_.copy_index_column(group.slots[0], first, owners);
    for (std::uint32_t& owner : owners) owner = (owner - base) / plan_.owner_width;
  }

  const ir::Batch& batch_;
  std::span<const SlotGroup> groups_;
  GatherPlan& plan_;
  std::uint64_t owners_;
};

/// Removes owners whose `width` scalars from x_first + owner * width on are all fixed. Returns the
/// number of owners, with or without entries.
std::uint64_t leave_out(Sorted& sorted, const GatherPlan& plan, std::uint64_t owners,
                        std::span<const std::uint8_t> constant) {
  const auto fixed = [&](std::uint64_t owner) {
    const auto scalars =
        constant.subspan(plan.x_first + owner * plan.owner_width, plan.owner_width);
    return std::ranges::all_of(scalars, [](std::uint8_t c) { return c != 0; });
  };
  const std::size_t roles = plan.roles.size();
  Sorted kept;
  for (std::size_t k = 0; k < sorted.owners.size(); ++k) {
    if (fixed(sorted.owners[k])) continue;
    const std::uint32_t first = sorted.starts[k * roles];
    const auto shift = static_cast<std::uint32_t>(kept.instances.size()) - first;
    kept.owners.push_back(sorted.owners[k]);
    for (std::size_t r = 0; r < roles; ++r)
      kept.starts.push_back(sorted.starts[k * roles + r] + shift);
    kept.instances.insert(kept.instances.end(), sorted.instances.begin() + first,
                          sorted.instances.begin() + sorted.starts[(k + 1) * roles]);
  }
  kept.starts.push_back(static_cast<std::uint32_t>(kept.instances.size()));
  sorted = std::move(kept);
  std::uint64_t moving = 0;
  for (std::uint64_t owner = 0; owner < owners; ++owner) moving += fixed(owner) ? 0 : 1;
  return moving;
}

/// Splits owners into work items and lists how partial sums are combined.
class Cutter {
 public:
  Cutter(Sorted sorted, GatherPlan& plan) : sorted_(std::move(sorted)), plan_(plan) {}

  void cut() {
    if (all_are_light()) {
      plan_.light_items = plan_.direct_items = static_cast<std::uint32_t>(sorted_.owners.size());
      plan_.owners = sorted_.owners;
      plan_.outputs = std::move(sorted_.owners);
      plan_.starts = std::move(sorted_.starts);
      plan_.instances = std::move(sorted_.instances);
      return;
    }
    reserve(sorted_.owners.size());
    add_whole_owners(0, kLightOwner);
    plan_.light_items = static_cast<std::uint32_t>(plan_.owners.size());
    add_whole_owners(kLightOwner, kSegment);
    plan_.direct_items = static_cast<std::uint32_t>(plan_.owners.size());
    add_heavy_owners();
    plan_.starts.push_back(entries_);
    copy_instances();
    combine();
  }

 private:
  void reserve(std::size_t items) {
    plan_.owners.reserve(items);
    plan_.outputs.reserve(items);
    plan_.starts.reserve(items * roles() + 1);
    from_.reserve(items * roles());
  }
  std::uint32_t entries_of(std::size_t k) const {
    return sorted_.starts[(k + 1) * roles()] - sorted_.starts[k * roles()];
  }
  std::size_t roles() const { return plan_.roles.size(); }
  bool all_are_light() const {
    for (std::size_t k = 0; k < sorted_.owners.size(); ++k) {
      if (entries_of(k) > kLightOwner) return false;
    }
    return true;
  }

  /// Adds one item for each owner with more than `above` and at most `most` entries.
  void add_whole_owners(std::uint32_t above, std::uint32_t most) {
    for (std::size_t k = 0; k < sorted_.owners.size(); ++k) {
      const std::uint32_t n = entries_of(k);
      if (n > above && n <= most) add_item(k, sorted_.owners[k], 0, n);
    }
  }

  void add_heavy_owners() {
    for (std::size_t k = 0; k < sorted_.owners.size(); ++k) {
      const std::uint32_t n = entries_of(k);
      if (n <= kSegment) continue;
      heavy_first_.push_back(plan_.partials);
      heavy_owner_.push_back(sorted_.owners[k]);
      const std::uint32_t length = segment_length(n);
      for (std::uint32_t first = 0; first < n; first += length) {
        add_item(k, plan_.partials++, first, std::min(n, first + length));
      }
    }
    heavy_first_.push_back(plan_.partials);
  }

  /// Length of segments: as few as possible, of about equal length.
  static std::uint32_t segment_length(std::uint32_t entries) {
    const std::uint32_t segments = (entries + kSegment - 1) / kSegment;
    return (entries + segments - 1) / segments;
  }

  /// Adds an item for entries [begin, end) of owner k, counted over its roles; each role's part
  /// keeps its range.
  void add_item(std::size_t k, std::uint32_t output, std::uint32_t begin, std::uint32_t end) {
    plan_.owners.push_back(sorted_.owners[k]);
    plan_.outputs.push_back(output);
    const std::uint32_t base = sorted_.starts[k * roles()];
    for (std::size_t r = 0; r < roles(); ++r) {
      const std::uint32_t low = sorted_.starts[k * roles() + r] - base;
      const std::uint32_t high = sorted_.starts[k * roles() + r + 1] - base;
      const std::uint32_t first = std::max(low, begin), beyond = std::min(high, end);
      plan_.starts.push_back(entries_);
      from_.push_back(base + first);
      entries_ += beyond > first ? beyond - first : 0;
    }
  }

  void copy_instances() {
    plan_.instances.resize(entries_);
    constexpr std::size_t kGrain = 1 << 12;
    ir::parallel_for(tbb::blocked_range<std::size_t>(0, from_.size(), kGrain), [&](const auto& r) {
      for (std::size_t k = r.begin(); k < r.end(); ++k) {
        const std::uint32_t count = plan_.starts[k + 1] - plan_.starts[k];
        std::copy_n(sorted_.instances.begin() + from_[k], count,
                    plan_.instances.begin() + plan_.starts[k]);
      }
    });
  }

  void combine() {
    while (!heavy_owner_.empty()) {
      GatherPlan::Level inner, last{.to_owners = true};
      std::vector<std::uint32_t> next_first, next_owner;
      for (std::size_t k = 0; k < heavy_owner_.size(); ++k) {
        const std::uint32_t first = heavy_first_[k], end = heavy_first_[k + 1];
        if (end - first <= kSegment) {
          last.first.insert(last.first.end(), {first, end});
          last.target.push_back(heavy_owner_[k]);
          continue;
        }
        next_first.push_back(plan_.partials);
        next_owner.push_back(heavy_owner_[k]);
        const std::uint32_t length = segment_length(end - first);
        for (std::uint32_t at = first; at < end; at += length) {
          inner.first.insert(inner.first.end(), {at, std::min(end, at + length)});
          inner.target.push_back(plan_.partials++);
        }
      }
      next_first.push_back(plan_.partials);
      if (!last.target.empty()) plan_.levels.push_back(std::move(last));
      if (!inner.target.empty()) plan_.levels.push_back(std::move(inner));
      heavy_first_ = std::move(next_first);
      heavy_owner_ = std::move(next_owner);
    }
  }

  Sorted sorted_;
  GatherPlan& plan_;
  std::vector<std::uint32_t> from_;  // by item and role: its first entry in sorted_
  std::uint32_t entries_ = 0;
  std::vector<std::uint32_t> heavy_first_, heavy_owner_;
};

/// Sorts terms by scalar, in the order of slots and instances.
Sorted sort_terms(const ir::Batch& batch, std::span<const std::uint32_t> slots,
                  std::uint64_t scalars) {
  const std::size_t rows = batch.size();
  std::vector<std::uint32_t> next(scalars + 1, 0), column(rows);
  for (const std::uint32_t slot : slots) {
    batch.copy_index_column(slot, 0, column);
    for (const std::uint32_t index : column) ++next[index];
  }
  Sorted sorted;
  std::uint32_t entries = 0;
  for (std::uint64_t scalar = 0; scalar < scalars; ++scalar) {
    const std::uint32_t count = std::exchange(next[scalar], entries);
    if (count == 0) continue;
    sorted.owners.push_back(static_cast<std::uint32_t>(scalar));
    sorted.starts.push_back(entries);
    entries += count;
  }
  sorted.starts.push_back(entries);
  sorted.instances.resize(entries);
  for (std::size_t k = 0; k < slots.size(); ++k) {
    batch.copy_index_column(slots[k], 0, column);
    for (std::size_t i = 0; i < rows; ++i)
      sorted.instances[next[column[i]]++] = static_cast<std::uint32_t>(k * rows + i);
  }
  return sorted;
}

}  // namespace

std::vector<GatherPlan> invert_terms(const ir::Batch& batch, std::span<const std::uint32_t> slots,
                                     std::uint64_t scalars,
                                     std::span<const std::uint8_t> constant) {
  GatherPlan plan{.array = kScalars, .roles = {0}, .of_terms = true};
  Sorted sorted = sort_terms(batch, slots, scalars);
  std::uint64_t owners = scalars;
  if (!constant.empty()) owners = leave_out(sorted, plan, owners, constant);
  plan.covers_all = sorted.owners.size() == owners;
  Cutter(std::move(sorted), plan).cut();
  if (plan.owners.empty()) return {};
  return {std::move(plan)};
}

std::vector<GatherPlan> invert(const ir::Batch& batch, std::span<const SlotGroup> groups,
                               std::span<const ParameterArray> arrays, std::uint64_t scalars,
                               std::span<const std::uint8_t> constant) {
  std::vector<GatherPlan> plans;
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const std::uint32_t array = groups[g].array;
    auto plan = std::find_if(plans.begin(), plans.end(), [&](auto& p) { return p.array == array; });
    if (plan == plans.end()) plan = plans.insert(plans.end(), GatherPlan{.array = array});
    plan->roles.push_back(g);
  }
  for (GatherPlan& plan : plans) {
    const bool single = plan.array == kScalars;
    plan.x_first = single ? 0 : arrays[plan.array].offset;
    plan.owner_width = single ? 1 : arrays[plan.array].width;
    std::uint64_t owners = single ? scalars : arrays[plan.array].blocks;
    Sorted sorted = Inverter(batch, groups, plan, owners).sort();
    if (!constant.empty()) owners = leave_out(sorted, plan, owners, constant);
    plan.covers_all = sorted.owners.size() == owners;
    Cutter(std::move(sorted), plan).cut();
  }
  std::erase_if(plans, [](const GatherPlan& plan) { return plan.owners.empty(); });
  return plans;
}

}  // namespace topograd::runtime
