// Elimination tree and supernodes; fronts, their rows, and where entries of the matrix go.
#include "factor_plan.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/parallel.hpp"
#include "fill_order.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

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

namespace {

/// Columns, and rows of all fronts, up to which plans are made on the calling thread.
constexpr std::size_t kSmallPlan = 1024;

/// Results do not depend on the number of threads.
class Planner {
 public:
  Planner(const LowerPattern& lower, const BlockGraph& graph) : lower_(lower), graph_(graph) {}

  FactorPlan plan(List order) {
    const EliminationTree tree(graph_, std::move(order));
    count(tree);
    const Supernodes nodes = find_supernodes(graph_, tree);
    arrange(nodes);
    make_fronts(nodes);
    schedule(plan_);
    find_rows(nodes);
    find_parent_rows();
    find_entries(nodes);
    return std::move(plan_);
  }

 private:
  /// Parts of the work that run beside each other; each needs a list with a number for each column.
  std::size_t parts_of(std::size_t pieces) const {
    if (lower_.columns() <= kSmallPlan) return std::min<std::size_t>(pieces, 1);
    return std::min(pieces, static_cast<std::size_t>(ir::pool_threads()));
  }

  void count(const EliminationTree& tree) {
    for (std::uint32_t j = 0; j < tree.order.size(); ++j) {
      for (std::uint32_t k = 0; k < graph_.width(tree.order[j]); ++k) {
        const double entries = tree.rows[j] - k;
        plan_.nonzeros += entries;
        plan_.operations += entries * entries;
      }
    }
  }

  /// Orders the columns of the matrix.
  void arrange(const Supernodes& nodes) {
    position_.resize(lower_.columns());
    width_.resize(lower_.columns());
    for (const std::uint32_t block : nodes.blocks) {
      width_[plan_.order.size()] = graph_.width(block);
      for (std::uint32_t c = graph_.first[block]; c < graph_.first[block + 1]; ++c) {
        position_[c] = static_cast<std::uint32_t>(plan_.order.size());
        plan_.order.push_back(c);
      }
    }
  }

  void make_fronts(const Supernodes& nodes) {
    List parents;
    parents.reserve(nodes.nodes.size());
    for (const Supernodes::Node& node : nodes.nodes) parents.push_back(node.parent);
    Forest forest(parents);
    plan_.fronts.reserve(nodes.nodes.size());
    std::uint32_t first = 0, rows = 0;
    for (const Supernodes::Node& node : nodes.nodes) {
      Front& front = plan_.fronts.emplace_back();
      const auto f = static_cast<std::uint32_t>(plan_.fronts.size()) - 1;
      front.first = first;
      front.pivots = node.pivots;
      front.below = node.below;
      front.parent = node.parent;
      front.children = forest.starts[f];
      front.children_end = forest.starts[f + 1];
      front.rows = rows;
      front.panel = plan_.factor_size;
      front.right = plan_.right_size;
      if (front.panel_size() > std::numeric_limits<std::uint32_t>::max())
        throw Error(ErrorCode::Unsupported, "factorisation: a dense part of the factor has " +
                                                std::to_string(front.pivots) + " columns and " +
                                                std::to_string(front.pivots + front.below) +
                                                " rows, more than 32-bit offsets reach");
      plan_.factor_size += front.panel_size();
      plan_.right_size += std::uint64_t{front.tiles()} * kTile;
      first += node.pivots;
      rows += node.below;
    }
    plan_.children = std::move(forest.items);
    plan_.rows.resize(rows);
  }

  struct RowSearch {
    List mark;    // by position: the last front that met it
    List starts;  // positions of the blocks below the pivots of a front
  };

  /// Subtrees beside each other, then the fronts above them.
  void find_rows(const Supernodes& nodes) {
    const std::size_t tasks = plan_.tasks.size(), parts = parts_of(tasks);
    ir::parallel_for_beyond(1, std::size_t{0}, parts, [&](std::size_t part) {
      RowSearch search{List(lower_.columns(), kNoFront), {}};
      for (std::size_t t = part; t < tasks; t += parts)
        for (std::uint32_t f = plan_.tasks[t].begin; f < plan_.tasks[t].end; ++f)
          find_rows_of(f, nodes, search);
    });
    RowSearch search{List(lower_.columns(), kNoFront), {}};
    for (const std::uint32_t f : plan_.level_fronts) find_rows_of(f, nodes, search);
  }

  /// Rows of blocks that meet the pivots, and what the children have left.
  void find_rows_of(std::uint32_t f, const Supernodes& nodes, RowSearch& search) {
    const Front& front = plan_.fronts[f];
    List& starts = search.starts;
    starts.clear();
    const auto add = [&](std::uint32_t position) {
      if (position >= front.first + front.pivots && std::exchange(search.mark[position], f) != f)
        starts.push_back(position);
    };
    for (std::uint32_t k = nodes.nodes[f].begin; k < nodes.nodes[f].end; ++k)
      for (const std::uint32_t b : graph_.neighbours(nodes.blocks[k]))
        add(position_[graph_.first[b]]);
    for (std::uint32_t c = front.children; c < front.children_end; ++c)
      for (const std::uint32_t position : rows_of(plan_.fronts[plan_.children[c]]))
        if (width_[position] > 0) add(position);
    std::ranges::sort(starts);
    std::uint32_t* to = plan_.rows.data() + front.rows;
    for (const std::uint32_t start : starts)
      for (std::uint32_t k = 0; k < width_[start]; ++k) *to++ = start + k;
  }

  std::span<const std::uint32_t> rows_of(const Front& front) const {
    return std::span(plan_.rows).subspan(front.rows, front.below);
  }

  /// Numbers of the rows in the parent: both lists ascend.
  void find_parent_rows() {
    plan_.parent_rows.resize(plan_.rows.size());
    const std::size_t most = plan_.rows.size() <= kSmallPlan ? plan_.fronts.size() : 1;
    ir::parallel_for_beyond(most, std::size_t{0}, plan_.fronts.size(), [&](std::size_t f) {
      const Front& front = plan_.fronts[f];
      if (front.parent == kNoFront) return;
      const Front& parent = plan_.fronts[front.parent];
      const std::span<const std::uint32_t> above = rows_of(parent);
      std::uint32_t at = 0;
      for (std::uint32_t k = 0; k < front.below; ++k) {
        const std::uint32_t row = plan_.rows[front.rows + k];
        if (row < parent.first + parent.pivots) {
          plan_.parent_rows[front.rows + k] = row - parent.first;
          continue;
        }
        while (above[at] != row) ++at;
        plan_.parent_rows[front.rows + k] = parent.pivot_rows() + at;
      }
    });
  }

  void find_entries(const Supernodes& nodes) {
    const std::size_t parts = parts_of(plan_.fronts.size());
    const auto each_part = [&](const auto& work) {
      ir::parallel_for_beyond(1, std::size_t{0}, parts, [&](std::size_t part) {
        work(static_cast<std::uint32_t>(plan_.fronts.size() * part / parts),
             static_cast<std::uint32_t>(plan_.fronts.size() * (part + 1) / parts));
      });
    };
    each_part([&](std::uint32_t begin, std::uint32_t end) {
      for (std::uint32_t f = begin; f < end; ++f)
        for (std::uint32_t k = nodes.nodes[f].begin; k < nodes.nodes[f].end; ++k)
          plan_.fronts[f].entries_end += count_entries(nodes.blocks[k]);
    });
    std::uint32_t count = 0;
    for (Front& front : plan_.fronts) {
      front.entries = count;
      front.entries_end = count += front.entries_end;
    }
    plan_.entries.resize(count);
    each_part([&](std::uint32_t begin, std::uint32_t end) {
      // Numbers of the front's rows, by position. Those of other rows are not read.
      const auto number = std::make_unique_for_overwrite<std::uint32_t[]>(lower_.columns());
      for (std::uint32_t f = begin; f < end; ++f) {
        const Front& front = plan_.fronts[f];
        const std::span<const std::uint32_t> rows = rows_of(front);
        for (std::uint32_t k = 0; k < front.pivots; ++k) number[front.first + k] = k;
        for (std::uint32_t k = 0; k < front.below; ++k) number[rows[k]] = front.pivot_rows() + k;
        FactorPlan::Entry* to = plan_.entries.data() + front.entries;
        for (std::uint32_t k = nodes.nodes[f].begin; k < nodes.nodes[f].end; ++k)
          to = add_entries(front, nodes.blocks[k], number.get(), to);
      }
    });
  }

  /// Entries between a block and what is eliminated with it or later.
  std::uint32_t count_entries(std::uint32_t block) const {
    const std::uint32_t first = graph_.first[block], width = graph_.width(block);
    std::uint32_t count = width * (width - 1) / 2;
    for (std::uint32_t c = first; c < first + width; ++c) count += lower_.has_diagonal(c) ? 1 : 0;
    for (const std::uint32_t other : graph_.neighbours(block))
      if (position_[graph_.first[other]] > position_[first]) count += width * graph_.width(other);
    return count;
  }

  /// Lists them from `to` on. Returns where the list ends.
  FactorPlan::Entry* add_entries(const Front& front, std::uint32_t block,
                                 const std::uint32_t* number, FactorPlan::Entry* to) const {
    const std::uint32_t first = graph_.first[block], width = graph_.width(block);
    const std::uint32_t pivot = position_[first] - front.first;
    const auto add = [&](std::uint32_t value, std::uint32_t row, std::uint32_t column) {
      *to++ = {value, row / kTile * kTile * front.pivots + kTile * column + row % kTile};
    };
    for (std::uint32_t k = 0; k < width; ++k) {
      const std::uint32_t below = lower_.below(first + k);
      if (lower_.has_diagonal(first + k)) add(below - 1, pivot + k, pivot + k);
      for (std::uint32_t i = k + 1; i < width; ++i) add(below + i - k - 1, pivot + i, pivot + k);
    }
    for (std::uint32_t n = graph_.starts[block]; n < graph_.starts[block + 1]; ++n) {
      const std::uint32_t other = graph_.items[n], position = position_[graph_.first[other]];
      if (position < position_[first]) continue;
      const std::uint32_t row = number[position];
      if (other > block) {  // the block's columns have the entries
        for (std::uint32_t k = 0; k < width; ++k) {
          const std::uint32_t value = lower_.below(first + k) + graph_.offsets[n] - k;
          for (std::uint32_t i = 0; i < graph_.width(other); ++i)
            add(value + i, row + i, pivot + k);
        }
        continue;
      }
      for (std::uint32_t i = 0; i < graph_.width(other); ++i) {
        const std::uint32_t value = lower_.below(graph_.first[other] + i) + graph_.offsets[n] - i;
        for (std::uint32_t k = 0; k < width; ++k) add(value + k, row + i, pivot + k);
      }
    }
    return to;
  }

  const LowerPattern& lower_;
  const BlockGraph& graph_;
  List position_;  // of the columns of the matrix
  List width_;     // of the block that begins at a position, or 0
  FactorPlan plan_;
};

}  // namespace

FactorPlan make_factor_plan(const LowerPattern& lower) {
  const BlockGraph graph(lower);
  return Planner(lower, graph).plan(fill_reducing_order(graph));
}

FactorPlan make_factor_plan(const LowerPattern& lower, List order) {
  const BlockGraph graph(lower);
  return Planner(lower, graph).plan(std::move(order));
}

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
