// Fundamental supernodes, relaxed amalgamation, and the order of children.
#include "supernodes.hpp"

#include <algorithm>
#include <cstddef>

namespace topograd::runtime {
namespace {

using List = std::vector<std::uint32_t>;

struct Building {
  std::uint32_t pivots = 0, below = 0;
  std::uint32_t parent = kNoFront;
  bool merged = false;               // into its parent
  std::uint32_t head = 0, tail = 0;  // places of its first and last block
};

double time_of(const Building& node) { return front_time(node.pivots, node.below); }

/// Chains of places whose patterns are nested, in a postorder.
///
///   next  by place: the one after it in its node
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
