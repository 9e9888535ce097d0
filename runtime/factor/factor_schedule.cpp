// Tasks, levels and places of update matrices.
#include "factor_schedule.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace topograd::runtime {
namespace {

/// A task is a subtree of at most this part of the work: enough of them that a thread that ends
/// early finds another one.
constexpr double kLargestTask = 1.0 / 32;
/// Nanoseconds that are not worth another task.
constexpr double kSmallestTask = 50'000;

/// Numbers of a workspace, from which pieces are taken where they first fit.
class Space {
 public:
  explicit Space(std::uint64_t begin) : end_(begin) {}

  std::uint64_t take(std::uint64_t size) {
    if (size == 0) return 0;
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
      if (gap->second < size) continue;
      const auto [at, length] = *gap;
      gaps_.erase(gap);
      if (length > size) gaps_.emplace(at + size, length - size);
      return at;
    }
    std::uint64_t at = end_;
    if (!gaps_.empty() && std::prev(gaps_.end())->first + std::prev(gaps_.end())->second == end_) {
      at = std::prev(gaps_.end())->first;
      gaps_.erase(std::prev(gaps_.end()));
    }
    end_ = at + size;
    return at;
  }

  void give_back(std::uint64_t at, std::uint64_t size) {
    if (size == 0) return;
    auto gap = gaps_.emplace(at, size).first;
    if (const auto next = std::next(gap); next != gaps_.end() && at + size == next->first) {
      gap->second += next->second;
      gaps_.erase(next);
    }
    if (gap == gaps_.begin()) return;
    const auto before = std::prev(gap);
    if (before->first + before->second != at) return;
    before->second += gap->second;
    gaps_.erase(gap);
  }

  /// Takes over what is free in an adjacent space.
  void append(const Space& other) {
    end_ = other.end_;
    for (const auto& [at, size] : other.gaps_) give_back(at, size);
  }

  std::uint64_t end() const { return end_; }

 private:
  std::uint64_t end_;
  std::map<std::uint64_t, std::uint64_t> gaps_;  // begin and size; never adjacent
};

void take_update(Space& space, Front& front) { front.update = space.take(front.update_size()); }

void give_back_children(Space& space, const FactorPlan& plan, const Front& front) {
  for (std::uint32_t c = front.children; c < front.children_end; ++c) {
    const Front& child = plan.fronts[plan.children[c]];
    space.give_back(child.update, child.update_size());
  }
}

void find_levels(FactorPlan& plan) {
  for (Front& front : plan.fronts)
    for (std::uint32_t c = front.children; c < front.children_end; ++c)
      front.level = std::max(front.level, plan.fronts[plan.children[c]].level + 1);
}

/// Whole subtrees, side by side in one task while they are small. `outside`: fronts above them.
void find_tasks(FactorPlan& plan, std::vector<std::uint32_t>& outside) {
  const auto n = static_cast<std::uint32_t>(plan.fronts.size());
  std::vector<double> time(n);          // of the subtree
  std::vector<std::uint32_t> begin(n);  // first front of the subtree
  double total = 0;
  for (std::uint32_t f = 0; f < n; ++f) {
    const Front& front = plan.fronts[f];
    const double own = front_time(front.pivots, front.below);
    total += own;
    time[f] = own;
    begin[f] = f;
    for (std::uint32_t c = front.children; c < front.children_end; ++c) {
      time[f] += time[plan.children[c]];
      begin[f] = std::min(begin[f], begin[plan.children[c]]);
    }
  }
  const double most = std::max(total * kLargestTask, kSmallestTask);
  std::vector<double> times;
  for (std::uint32_t f = n; f-- > 0;) {
    if (time[f] > most) {
      outside.push_back(f);
      continue;
    }
    const bool joins =
        !plan.tasks.empty() && plan.tasks.back().begin == f + 1 && times.back() + time[f] <= most;
    if (joins) {
      plan.tasks.back().begin = begin[f];
      times.back() += time[f];
    } else {
      plan.tasks.push_back({begin[f], f + 1});
      times.push_back(time[f]);
    }
    f = begin[f];
  }
  std::vector<std::uint32_t> by_time(plan.tasks.size());
  for (std::uint32_t t = 0; t < by_time.size(); ++t) by_time[t] = t;
  std::ranges::stable_sort(by_time, std::ranges::greater{},
                           [&](std::uint32_t t) { return times[t]; });
  const std::vector<FactorPlan::Task> tasks = plan.tasks;
  for (std::uint32_t t = 0; t < by_time.size(); ++t) plan.tasks[t] = tasks[by_time[t]];
}

}  // namespace

void schedule(FactorPlan& plan) {
  find_levels(plan);
  std::vector<std::uint32_t>& outside = plan.level_fronts;
  find_tasks(plan, outside);
  std::ranges::sort(outside);
  std::ranges::stable_sort(outside, {}, [&](std::uint32_t f) { return plan.fronts[f].level; });
  for (std::uint32_t k = 0; k < outside.size(); ++k)
    if (k == 0 || plan.fronts[outside[k]].level != plan.fronts[outside[k - 1]].level)
      plan.level_starts.push_back(k);
  plan.level_starts.push_back(static_cast<std::uint32_t>(outside.size()));

  // Each task has a space of its own, since tasks run at one time.
  Space space(0);
  for (const FactorPlan::Task& task : plan.tasks) {
    Space own(space.end());
    for (std::uint32_t f = task.begin; f < task.end; ++f) {
      take_update(own, plan.fronts[f]);
      give_back_children(own, plan, plan.fronts[f]);
    }
    space.append(own);
  }
  // The fronts of a level run at one time; their children's matrices live until all are through.
  for (std::size_t l = 0; l + 1 < plan.level_starts.size(); ++l) {
    const std::span level = std::span(outside).subspan(
        plan.level_starts[l], plan.level_starts[l + 1] - plan.level_starts[l]);
    for (const std::uint32_t f : level) take_update(space, plan.fronts[f]);
    for (const std::uint32_t f : level) give_back_children(space, plan, plan.fronts[f]);
  }
  plan.workspace_size = space.end();
}

}  // namespace topograd::runtime
