// Collects the nodes that rows need.
#include "raw_tape.hpp"

#include <algorithm>

namespace topograd::detail {

std::uint32_t CompactTape::position(std::uint64_t id) const {
  if (id >= open_begin_) return place_[id - open_begin_];
  const auto last = ids_.begin() + static_cast<std::ptrdiff_t>(older_);
  return static_cast<std::uint32_t>(std::lower_bound(ids_.begin(), last, id) - ids_.begin());
}

/// Collects the nodes of the open segment that rows and conditions need, in descending order, and
/// what they need of older nodes.
void CompactTape::collect_open(std::span<const std::uint64_t> rows) {
  constexpr std::uint32_t kNeeded = 1;
  open_begin_ = tape.mark - tape.tag;
  open_begin_ = std::min(open_begin_, tape.size);
  place_.assign(tape.size - open_begin_, 0);
  const auto need = [&](std::uint64_t id) {
    if (id >= open_begin_) {
      place_[id - open_begin_] = kNeeded;
    } else {
      open_.push_back(id);
      std::push_heap(open_.begin(), open_.end());
    }
  };
  for (const std::uint64_t row : rows) need(row);
  for (const BranchMark& branch : branches_) need(branch.condition);
  for (std::size_t k = place_.size(); k-- > 0;) {
    if (place_[k] != kNeeded) continue;
    const std::uint64_t id = open_begin_ + k;
    ids_.push_back(id);
    const TapeNode& node = tape.nodes[id];
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int j = 0; j < ir::arity(node.op()); ++j) need(id - back[j]);
  }
}

/// The ids of all nodes that rows and conditions need, ascending.
void CompactTape::collect(std::span<const std::uint64_t> rows) {
  ids_.clear();
  open_.clear();
  collect_open(rows);
  const std::size_t newer = ids_.size();
  // Older nodes may lie anywhere. In descending order, by a heap, no node is seen twice.
  while (!open_.empty()) {
    const std::uint64_t id = open_.front();
    std::pop_heap(open_.begin(), open_.end());
    open_.pop_back();
    if (ids_.size() > newer && ids_.back() == id) continue;
    ids_.push_back(id);
    const TapeNode& node = tape.nodes[id];
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int k = 0; k < ir::arity(node.op()); ++k) {
      open_.push_back(id - back[k]);
      std::push_heap(open_.begin(), open_.end());
    }
  }
  older_ = ids_.size() - newer;
  std::reverse(ids_.begin(), ids_.end());
  for (std::size_t k = older_; k < ids_.size(); ++k)
    place_[ids_[k] - open_begin_] = static_cast<std::uint32_t>(k);
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
