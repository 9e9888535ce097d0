// Types of Solver's options and reports: iterations and callbacks, groups of blocks, CRSMatrix.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "../../../ir/error.hpp"
#include "types.hpp"

namespace ceres {

/// Row r has entries rows[r] .. rows[r + 1] - 1 of `cols` and `values`, columns ascending.
struct CRSMatrix {
  int num_rows = 0;
  int num_cols = 0;
  std::vector<int> cols;
  std::vector<int> rows;  ///< num_rows + 1 positions
  std::vector<double> values;
};

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

/// One trial step. Fields that no algorithm of the library sets keep these defaults.
struct IterationSummary {
  int iteration = 0;  ///< 0 for the start
  bool step_is_valid = false;
  bool step_is_nonmonotonic = false;
  bool step_is_successful = false;
  double cost = 0;         ///< of the current point after the step
  double cost_change = 0;  ///< decrease from the previous point
  double gradient_max_norm = 0;
  double gradient_norm = 0;
  double step_norm = 0;
  double relative_decrease = 0;
  double trust_region_radius = 0;
  double eta = 0;
  double step_size = 0;
  int line_search_function_evaluations = 0;
  int line_search_gradient_evaluations = 0;
  int line_search_iterations = 0;
  int linear_solver_iterations = 0;
  double iteration_time_in_seconds = 0;
  double step_solver_time_in_seconds = 0;
  double cumulative_time_in_seconds = 0;
};

/// Called after every iteration, in the order of Solver::Options::callbacks; the result can end the
/// solve.
class IterationCallback {
 public:
  virtual ~IterationCallback();
  virtual CallbackReturnType operator()(const IterationSummary& summary) = 0;
};

/// Called before cost functions are evaluated at a point, with the point in the user's memory.
///
/// A problem with such a callback runs all cost functions on the CPU, because they may read data
/// that the callback prepares.
class EvaluationCallback {
 public:
  virtual ~EvaluationCallback();
  virtual void PrepareForEvaluation(bool evaluate_jacobians, bool new_evaluation_point) = 0;
};

}  // namespace ceres
