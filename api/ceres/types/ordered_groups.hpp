// OrderedGroups: elements in numbered groups.
#pragma once

#include "../../../ir/error.hpp"

#include <map>
#include <set>
#include <vector>

namespace ceres {

/// A partition of elements into groups numbered from 0; gaps are allowed.
template <typename T>
class OrderedGroups {
 public:
  /// Moves an element to a group; returns false for a negative group.
  bool AddElementToGroup(const T element, const int group) {
    if (group < 0) return false;
    Remove(element);
    element_to_group_[element] = group;
    group_to_elements_[group].insert(element);
    return true;
  }
  void Clear() {
    group_to_elements_.clear();
    element_to_group_.clear();
  }
  /// Returns true if the element was present.
  bool Remove(const T element) {
    const auto at = element_to_group_.find(element);
    if (at == element_to_group_.end()) return false;
    const auto group = group_to_elements_.find(at->second);
    group->second.erase(element);
    if (group->second.empty()) group_to_elements_.erase(group);
    element_to_group_.erase(at);
    return true;
  }
  int Remove(const std::vector<T>& elements) {
    int removed = 0;
    for (const T& element : elements) removed += Remove(element) ? 1 : 0;
    return removed;
  }
  /// Reverses the order of the groups.
  void Reverse() {
    if (group_to_elements_.empty()) return;
    std::map<int, std::set<T>> reversed;
    int number = group_to_elements_.rbegin()->first;
    for (auto group = group_to_elements_.rbegin(); group != group_to_elements_.rend(); ++group) {
      for (const T& element : group->second) element_to_group_[element] = number;
      reversed[number++] = group->second;
    }
    group_to_elements_.swap(reversed);
  }

  /// -1 if the element is not present.
  int GroupId(const T element) const {
    const auto at = element_to_group_.find(element);
    return at == element_to_group_.end() ? -1 : at->second;
  }
  bool IsMember(const T element) const { return element_to_group_.count(element) != 0; }
  int GroupSize(const int group) const {
    const auto at = group_to_elements_.find(group);
    return at == group_to_elements_.end() ? 0 : static_cast<int>(at->second.size());
  }
  int NumElements() const { return static_cast<int>(element_to_group_.size()); }
  int NumGroups() const { return static_cast<int>(group_to_elements_.size()); }
  /// The first group. There must be a group.
  /// Throws Error{InvalidArgument} if there is no group.
  int MinNonZeroGroup() const {
    if (group_to_elements_.empty())
      throw topograd::Error(topograd::ErrorCode::InvalidArgument,
                            "OrderedGroups: MinNonZeroGroup() expects a group, got none");
    return group_to_elements_.begin()->first;
  }
  const std::map<int, std::set<T>>& group_to_elements() const { return group_to_elements_; }
  const std::map<T, int>& element_to_group() const { return element_to_group_; }

 private:
  std::map<int, std::set<T>> group_to_elements_;
  std::map<T, int> element_to_group_;
};

using ParameterBlockOrdering = OrderedGroups<double*>;

}  // namespace ceres
