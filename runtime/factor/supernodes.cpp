// Elimination tree, postorder and column counts; fundamental supernodes and relaxed amalgamation.
#include "supernodes.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "../../ir/machine/parallel.hpp"

namespace topograd::runtime {
namespace {

using List = std::vector<std::uint32_t>;

List inverse(const List& order) {
  List position(order.size());
  for (std::uint32_t k = 0; k < order.size(); ++k) position[order[k]] = k;
  return position;
}

/// The graph with positions in the order for blocks: neighbours are near, since orders are nearly
/// postorders.
struct PermutedGraph {
  PermutedGraph(const BlockGraph& graph, const List& order) : starts(order.size() + 1) {
    const List position = inverse(order);
    const auto n = static_cast<std::uint32_t>(order.size());
    for (std::uint32_t k = 0; k < n; ++k)
      starts[k + 1] = starts[k] + static_cast<std::uint32_t>(graph.neighbours(order[k]).size());
    items.resize(starts.back());
    ir::parallel_for_beyond(ir::kLightCalls, std::uint32_t{0}, n, [&](std::uint32_t k) {
      std::uint32_t* to = items.data() + starts[k];
      for (const std::uint32_t neighbour : graph.neighbours(order[k])) *to++ = position[neighbour];
    });
  }

  std::span<const std::uint32_t> neighbours(std::uint32_t k) const {
    return std::span(items).subspan(starts[k], starts[k + 1] - starts[k]);
  }

  List starts, items;
};

/// Source: Liu (1990), algorithm 4.2, with path compression.
List find_parents(const PermutedGraph& permuted) {
  const std::size_t n = permuted.starts.size() - 1;
  List parent(n, kNoFront), ancestor(n, kNoFront);
  for (std::uint32_t k = 0; k < n; ++k) {
    for (std::uint32_t i : permuted.neighbours(k)) {
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
  ///   permuted  in an equivalent order
  ///   earlier   by position of the tree: its position there
  ///   number    the inverse
  RowCounts(const BlockGraph& graph, const EliminationTree& tree, const PermutedGraph& permuted,
            const List& earlier, const List& number)
      : graph_(graph),
        tree_(tree),
        permuted_(permuted),
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
      for (const std::uint32_t neighbour : permuted_.neighbours(earlier_[j])) {
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
  std::uint32_t width(std::uint32_t position) const { return graph_.width(tree_.order[position]); }

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
  const PermutedGraph& permuted_;
  const List &earlier_, &number_;
  List first_;                   // first descendant of a position
  List last_first_, last_leaf_;  // of the last leaf of a row's subtree
  List ancestor_;                // with path compression
};

struct Building {
  std::uint32_t pivots = 0, below = 0;
  std::uint32_t parent = kNoFront;
  bool merged = false;               // into its parent
  std::uint32_t head = 0, tail = 0;  // positions of its first and last block
};

double time_of(const Building& node) { return front_time(node.pivots, node.below); }

/// Chains of positions whose patterns are nested, in a postorder.
///
///   next  by position: the one after it in its node
std::vector<Building> fundamental(const BlockGraph& graph, const EliminationTree& tree,
                                  List& next) {
  std::vector<Building> out;
  const auto n = static_cast<std::uint32_t>(tree.order.size());
  List node_of(n);
  for (std::uint32_t j = 0; j < n; ++j) {
    const std::uint32_t width = graph.width(tree.order[j]);
    const bool follows = j > 0 && tree.parent[j - 1] == j && tree.children[j] == 1 &&
                         out.back().below == tree.rows[j];
    if (follows) {
      next[out.back().tail] = j;
    } else {
      out.emplace_back().head = j;
    }
    Building& node = out.back();
    node.tail = j;
    node.pivots += width;
    node.below = tree.rows[j] - width;
    node_of[j] = static_cast<std::uint32_t>(out.size()) - 1;
  }
  for (std::uint32_t j = 0; j < n; ++j)
    if (tree.parent[j] != kNoFront && node_of[tree.parent[j]] != node_of[j])
      out[node_of[j]].parent = node_of[tree.parent[j]];
  return out;
}

/// The nodes that are not merged, as a forest; the others are roots without children.
Forest forest_of(const std::vector<Building>& nodes) {
  List parents;
  parents.reserve(nodes.size());
  for (const Building& node : nodes) parents.push_back(node.merged ? kNoFront : node.parent);
  return Forest(parents);
}

/// Merges children into their parents, from the leaves on, the largest child first.
void merge(std::vector<Building>& nodes, List& next) {
  Forest forest = forest_of(nodes);
  for (std::uint32_t p = 0; p < nodes.size(); ++p) {
    const std::span<std::uint32_t> of = forest.children(p);
    std::ranges::stable_sort(of, std::ranges::greater{},
                             [&](std::uint32_t c) { return nodes[c].pivots; });
    Building& parent = nodes[p];
    for (const std::uint32_t c : of) {
      Building& child = nodes[c];
      const std::uint32_t pivots = child.pivots + parent.pivots;
      if (front_time(pivots, parent.below) > time_of(child) + time_of(parent)) continue;
      parent.pivots = pivots;
      next[child.tail] = parent.head;
      parent.head = child.head;
      child.merged = true;
    }
  }
}

/// Size of an update matrix, up to a factor.
double update_of(const Building& node) {
  return static_cast<double>(node.below) * static_cast<double>(node.below);
}

}  // namespace

EliminationTree::EliminationTree(const BlockGraph& graph, List given) : order(std::move(given)) {
  const PermutedGraph permuted(graph, order);
  const List parents = find_parents(permuted);
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
  rows = RowCounts(graph, *this, permuted, by_number, number).count();
}

double front_time(std::uint32_t pivots, std::uint32_t below) {
  constexpr double kFront = 150, kPerColumn = 25;        // loops and pivots
  constexpr double kPerProduct = 0.06, kPerEntry = 0.7;  // multiply-adds; assembly
  const double k = tiled(pivots), m = tiled(below), columns = pivots;
  const double products = columns * (k * k / 3 + k * m + m * m / 2);
  const double entries = columns * (k + m) + m * m / 2;
  return kFront + kPerColumn * columns + kPerProduct * products + kPerEntry * entries;
}

Supernodes find_supernodes(const BlockGraph& graph, const EliminationTree& tree) {
  List next(tree.order.size());
  std::vector<Building> nodes = fundamental(graph, tree, next);
  merge(nodes, next);
  const auto kept = [&](std::uint32_t k) {
    while (k != kNoFront && nodes[k].merged) k = nodes[k].parent;
    return k;
  };
  for (Building& node : nodes) node.parent = kept(node.parent);

  // Liu: the child whose subtree needs most beyond what it leaves comes first.
  std::vector<double> peak(nodes.size());
  Forest forest = forest_of(nodes);
  for (std::uint32_t p = 0; p < nodes.size(); ++p) {
    const std::span<std::uint32_t> of = forest.children(p);
    std::ranges::stable_sort(of, std::ranges::greater{},
                             [&](std::uint32_t c) { return peak[c] - update_of(nodes[c]); });
    double left = 0;
    for (const std::uint32_t c : of) {
      peak[p] = std::max(peak[p], left + peak[c]);
      left += update_of(nodes[c]);
    }
    peak[p] = std::max(peak[p], left + update_of(nodes[p]));
  }

  // A postorder in which children keep that order.
  Supernodes out;
  List number(nodes.size(), kNoFront), order;
  out.blocks.reserve(tree.order.size());
  for (const std::uint32_t k : postorder(forest)) {
    if (nodes[k].merged) continue;
    number[k] = static_cast<std::uint32_t>(order.size());
    order.push_back(k);
  }
  for (const std::uint32_t k : order) {
    const Building& node = nodes[k];
    Supernodes::Node& to = out.nodes.emplace_back();
    to.pivots = node.pivots;
    to.below = node.below;
    to.parent = node.parent == kNoFront ? kNoFront : number[node.parent];
    to.begin = static_cast<std::uint32_t>(out.blocks.size());
    for (std::uint32_t j = node.head;; j = next[j]) {
      out.blocks.push_back(tree.order[j]);
      if (j == node.tail) break;
    }
    to.end = static_cast<std::uint32_t>(out.blocks.size());
  }
  return out;
}

}  // namespace topograd::runtime
