// Elimination tree, postorder and column counts.
#include "elimination_tree.hpp"

#include "../../ir/machine/short_loop.hpp"

#include <cstddef>
#include <span>
#include <utility>

namespace topograd::runtime {
namespace {

using List = std::vector<std::uint32_t>;

List inverse(const List& order) {
  List place(order.size());
  for (std::uint32_t k = 0; k < order.size(); ++k) place[order[k]] = k;
  return place;
}

/// The graph with places for blocks: neighbours are near, since orders are nearly postorders.
struct Places {
  Places(const BlockGraph& graph, const List& order) : starts(order.size() + 1) {
    const List place = inverse(order);
    const auto n = static_cast<std::uint32_t>(order.size());
    for (std::uint32_t k = 0; k < n; ++k)
      starts[k + 1] = starts[k] + static_cast<std::uint32_t>(graph.neighbours(order[k]).size());
    items.resize(starts.back());
    ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, n, [&](std::uint32_t k) {
      std::uint32_t* to = items.data() + starts[k];
      for (const std::uint32_t neighbour : graph.neighbours(order[k])) *to++ = place[neighbour];
    });
  }

  std::span<const std::uint32_t> neighbours(std::uint32_t k) const {
    return std::span(items).subspan(starts[k], starts[k + 1] - starts[k]);
  }

  List starts, items;
};

/// Source: Liu (1990), algorithm 4.2, with path compression.
List find_parents(const Places& places) {
  const std::size_t n = places.starts.size() - 1;
  List parent(n, kNoFront), ancestor(n, kNoFront);
  for (std::uint32_t k = 0; k < n; ++k) {
    for (std::uint32_t i : places.neighbours(k)) {
      while (i < k) {
        const std::uint32_t next = std::exchange(ancestor[i], k);
        if (next == kNoFront) parent[i] = k;
        if (next == kNoFront || next == k) break;
        i = next;
      }
    }
  }
  return parent;
}

/// Numbers of rows by the leaves of row subtrees, without the pattern of the factor.
///
/// Source: Gilbert, Ng, Peyton, An Efficient Algorithm to Compute Row and Column Counts for Sparse
/// Cholesky Factorization, SIAM J. Matrix Anal. Appl. 15 (1994); Davis, Direct Methods for Sparse
/// Linear Systems (2006), section 4.5. A row of a block counts as often as the block is wide.
class RowCounts {
 public:
  ///   places   in an equivalent order
  ///   earlier  by place of the tree: its place there
  ///   number   the inverse
  RowCounts(const BlockGraph& graph, const EliminationTree& tree, const Places& places,
            const List& earlier, const List& number)
      : graph_(graph),
        tree_(tree),
        places_(places),
        earlier_(earlier),
        number_(number),
        first_(tree.order.size()),
        last_first_(tree.order.size(), kNoFront),
        last_leaf_(tree.order.size(), kNoFront),
        ancestor_(tree.order.size()) {}

  List count() {
    const auto n = static_cast<std::uint32_t>(tree_.order.size());
    List rows(n);  // differences until the last loop; they wrap around below zero
    for (std::uint32_t j = 0; j < n; ++j) first_[j] = ancestor_[j] = j;
    for (std::uint32_t j = 0; j < n; ++j) {
      if (tree_.children[j] == 0) rows[j] = width(j);
      if (tree_.parent[j] != kNoFront && first_[j] < first_[tree_.parent[j]])
        first_[tree_.parent[j]] = first_[j];
    }
    for (std::uint32_t j = 0; j < n; ++j) {
      if (tree_.parent[j] != kNoFront) rows[tree_.parent[j]] -= width(j);
      for (const std::uint32_t neighbour : places_.neighbours(earlier_[j])) {
        const std::uint32_t i = number_[neighbour];
        if (i > j) add_leaf(rows, i, j);
      }
      if (tree_.parent[j] != kNoFront) ancestor_[j] = tree_.parent[j];
    }
    for (std::uint32_t j = 0; j < n; ++j)
      if (tree_.parent[j] != kNoFront) rows[tree_.parent[j]] += rows[j];
    return rows;
  }

 private:
  std::uint32_t width(std::uint32_t place) const { return graph_.width(tree_.order[place]); }

  /// Counts row i from j upward, if j is a leaf of the row's subtree, up to where an earlier leaf
  /// has counted it already.
  void add_leaf(List& rows, std::uint32_t i, std::uint32_t j) {
    if (last_first_[i] != kNoFront && first_[j] <= last_first_[i]) return;
    last_first_[i] = first_[j];
    rows[j] += width(i);
    const std::uint32_t before = std::exchange(last_leaf_[i], j);
    if (before != kNoFront) rows[common_ancestor(before)] -= width(i);
  }

  std::uint32_t common_ancestor(std::uint32_t from) {
    std::uint32_t top = from;
    while (top != ancestor_[top]) top = ancestor_[top];
    while (from != top) from = std::exchange(ancestor_[from], top);
    return top;
  }

  const BlockGraph& graph_;
  const EliminationTree& tree_;
  const Places& places_;
  const List &earlier_, &number_;
  List first_;                   // first descendant of a place
  List last_first_, last_leaf_;  // of the last leaf of a row's subtree
  List ancestor_;                // with path compression
};

}  // namespace

EliminationTree::EliminationTree(const BlockGraph& graph, List given) : order(std::move(given)) {
  const Places places(graph, order);
  const List parents = find_parents(places);
  const List by_number = postorder(Forest(parents)), number = inverse(by_number);
  const List blocks = order;
  parent.resize(order.size());
  children.resize(order.size());
  for (std::uint32_t k = 0; k < order.size(); ++k) {
    const std::uint32_t up = parents[by_number[k]];
    order[k] = blocks[by_number[k]];
    parent[k] = up == kNoFront ? kNoFront : number[up];
    if (up != kNoFront) ++children[parent[k]];
  }
  rows = RowCounts(graph, *this, places, by_number, number).count();
}

}  // namespace topograd::runtime
