// Collects the nodes that rows need.
#include "raw_tape.hpp"

#include <algorithm>

namespace topograd::detail {

std::uint32_t CompactTape::position(std::uint64_t id) const {
  return static_cast<std::uint32_t>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin());
}

/// The ids of all nodes that rows and conditions need, ascending.
void CompactTape::collect(std::span<const std::uint64_t> rows) {
  // A heap of nodes to visit: in descending order no node is seen twice.
  ids_.clear();
  open_.assign(rows.begin(), rows.end());
  for (const BranchMark& branch : branches_) open_.push_back(branch.condition);
  std::make_heap(open_.begin(), open_.end());
  while (!open_.empty()) {
    const std::uint64_t id = open_.front();
    std::pop_heap(open_.begin(), open_.end());
    open_.pop_back();
    if (!ids_.empty() && ids_.back() == id) continue;
    ids_.push_back(id);
    const TapeNode& node = tape.nodes[id];
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int k = 0; k < ir::arity(node.op()); ++k) {
      open_.push_back(id - back[k]);
      std::push_heap(open_.begin(), open_.end());
    }
  }
  std::reverse(ids_.begin(), ids_.end());
}

void CompactTape::assign(std::span<const std::uint64_t> rows) {
  branches_.clear();
  collect(rows);
  // A condition may depend on earlier branches.
  while (tape.branches != 0) {
    std::vector<BranchMark> found = branches_of(ids_);
    if (found.size() == branches_.size()) break;
    branches_ = std::move(found);
    collect(rows);
  }

  nodes_.clear();
  for (std::uint32_t at = 0; at < ids_.size(); ++at) {
    TapeNode node = tape.nodes[ids_[at]];
    const int arity = ir::arity(node.op());
    if (arity > 0) node.a = at - position(ids_[at] - node.a);
    if (arity > 1) node.b = at - position(ids_[at] - node.b);
    if (arity > 2) node.c = at - position(ids_[at] - node.c);
    nodes_.push_back(node);
  }
  rows_.clear();
  for (const std::uint64_t row : rows) rows_.push_back(position(row));
  guards_.clear();
  for (const BranchMark& branch : branches_)
    guards_.push_back({position(branch.condition), branch.taken});
}

}  // namespace topograd::detail
