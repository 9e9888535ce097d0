// Look-up, and what leaves a full table.
#include "kernel_table.hpp"

#include <algorithm>

namespace topograd::runtime::hybrid {

const KernelTimes* KernelTable::find(Hash128 hash) const {
  const auto found = kernels_.find(hash);
  return found == kernels_.end() ? nullptr : &found->second;
}

KernelTimes* KernelTable::find(Hash128 hash) {
  const auto found = kernels_.find(hash);
  return found == kernels_.end() ? nullptr : &found->second;
}

KernelTimes& KernelTable::make(Hash128 hash, std::string_view operation) {
  if (KernelTimes* found = find(hash)) return *found;
  if (kernels_.size() >= most_) forget_oldest();
  KernelTimes& made = kernels_[hash];
  made.used = ++tick_;
  made.operation = operation;
  return made;
}

void KernelTable::use(Hash128 hash) {
  if (KernelTimes* found = find(hash)) found->used = ++tick_;
}

std::uint64_t KernelTable::room() const {
  return most_ - std::min<std::uint64_t>(most_, kernels_.size());
}

/// Removes a quarter, so that a full table is not searched for every new kernel.
void KernelTable::forget_oldest() {
  std::vector<std::uint64_t> ticks;
  for (const auto& [hash, kernel] : kernels_) ticks.push_back(kernel.used);
  const auto cut = ticks.begin() + static_cast<std::ptrdiff_t>(ticks.size() / 4);
  std::nth_element(ticks.begin(), cut, ticks.end());
  std::erase_if(kernels_, [&](const auto& entry) { return entry.second.used <= *cut; });
}

Side& KernelTable::last_side(std::span<const TaskShape> tasks) {
  const auto at = [](const TaskShape& task) {
    return static_cast<std::size_t>(size_class(task.work()));
  };
  if (tasks.size() == 1) return find(tasks[0].kernel)->sides[at(tasks[0])];
  Hash128 hash;
  for (const TaskShape& task : tasks) {
    hash.add(task.kernel.high);
    hash.add(task.kernel.low);
    hash.add(at(task));
  }
  if (together_.size() >= most_) together_.clear();
  return together_[hash];
}

void KernelTable::shift(std::size_t target, const DriftWatch::Change& change) {
  for (auto& [hash, kernel] : kernels_) {
    if (target < kernel.targets.size() && !kernel.targets[target].moved_lately())
      kernel.targets[target].shift(change);
  }
}

}  // namespace topograd::runtime::hybrid
