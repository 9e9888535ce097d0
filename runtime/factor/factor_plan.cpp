// Fronts, their rows, and where entries of the matrix go.
#include "factor_plan.hpp"

#include "../../ir/error.hpp"
#include "elimination_tree.hpp"
#include "factor_schedule.hpp"
#include "fill_order.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace topograd::runtime {
namespace {

using List = std::vector<std::uint32_t>;

class Planner {
 public:
  Planner(const LowerPattern& lower, const LeftEntries& left, const BlockGraph& graph)
      : lower_(lower), left_(left), graph_(graph) {}

  FactorPlan plan(List order) {
    const EliminationTree tree(graph_, std::move(order));
    count(tree);
    const Supernodes nodes = find_supernodes(graph_, tree);
    place(nodes);
    make_fronts(nodes);
    find_rows(nodes);
    find_places();
    find_entries();
    schedule(plan_);
    return std::move(plan_);
  }

 private:
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
  void place(const Supernodes& nodes) {
    place_.resize(lower_.columns());
    width_.resize(lower_.columns());
    for (const std::uint32_t block : nodes.blocks) {
      width_[plan_.order.size()] = graph_.width(block);
      for (std::uint32_t c = graph_.first[block]; c < graph_.first[block + 1]; ++c) {
        place_[c] = static_cast<std::uint32_t>(plan_.order.size());
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

  /// Rows of blocks that meet the pivots, and what the children have left.
  void find_rows(const Supernodes& nodes) {
    List mark(lower_.columns(), kNoFront), starts;
    for (std::uint32_t f = 0; f < plan_.fronts.size(); ++f) {
      const Front& front = plan_.fronts[f];
      starts.clear();  // places of the blocks below the pivots
      const auto add = [&](std::uint32_t place) {
        if (place >= front.first + front.pivots && std::exchange(mark[place], f) != f)
          starts.push_back(place);
      };
      for (std::uint32_t k = nodes.nodes[f].begin; k < nodes.nodes[f].end; ++k)
        for (const std::uint32_t b : graph_.neighbours(nodes.blocks[k]))
          add(place_[graph_.first[b]]);
      for (std::uint32_t c = front.children; c < front.children_end; ++c)
        for (const std::uint32_t place : rows_of(plan_.fronts[plan_.children[c]]))
          if (width_[place] > 0) add(place);
      std::ranges::sort(starts);
      std::uint32_t* to = plan_.rows.data() + front.rows;
      for (const std::uint32_t start : starts)
        for (std::uint32_t k = 0; k < width_[start]; ++k) *to++ = start + k;
    }
  }

  std::span<const std::uint32_t> rows_of(const Front& front) const {
    return std::span(plan_.rows).subspan(front.rows, front.below);
  }

  /// Numbers of the rows in the parent: both lists ascend.
  void find_places() {
    plan_.places.resize(plan_.rows.size());
    for (const Front& front : plan_.fronts) {
      if (front.parent == kNoFront) continue;
      const Front& parent = plan_.fronts[front.parent];
      const std::span<const std::uint32_t> above = rows_of(parent);
      std::uint32_t at = 0;
      for (std::uint32_t k = 0; k < front.below; ++k) {
        const std::uint32_t row = plan_.rows[front.rows + k];
        if (row < parent.first + parent.pivots) {
          plan_.places[front.rows + k] = row - parent.first;
          continue;
        }
        while (above[at] != row) ++at;
        plan_.places[front.rows + k] = parent.pivot_rows() + at;
      }
    }
  }

  void find_entries() {
    plan_.entries.reserve(lower_.rows.size());
    List number(lower_.columns());  // of the front's row, by place
    for (Front& front : plan_.fronts) {
      const std::span<const std::uint32_t> rows = rows_of(front);
      for (std::uint32_t k = 0; k < front.pivots; ++k) number[front.first + k] = k;
      for (std::uint32_t k = 0; k < front.below; ++k) number[rows[k]] = front.pivot_rows() + k;
      front.entries = static_cast<std::uint32_t>(plan_.entries.size());
      for (std::uint32_t k = 0; k < front.pivots; ++k) add_entries(front, k, number);
      front.entries_end = static_cast<std::uint32_t>(plan_.entries.size());
    }
  }

  /// Entries of the matrix between pivot k and what is eliminated with it or later.
  void add_entries(const Front& front, std::uint32_t k, const List& number) {
    const std::uint32_t column = plan_.order[front.first + k];
    const auto add = [&](std::uint32_t other, std::uint32_t value) {
      if (place_[other] < front.first + k) return;
      const std::uint32_t row = number[place_[other]];
      const std::uint32_t at = row / kTile * kTile * front.pivots + kTile * k + row % kTile;
      plan_.entries.push_back({value, at});
    };
    for (int v = lower_.starts[column]; v < lower_.starts[column + 1]; ++v)
      add(static_cast<std::uint32_t>(lower_.rows[static_cast<std::size_t>(v)]),
          static_cast<std::uint32_t>(v));
    for (std::uint32_t v = left_.starts[column]; v < left_.starts[column + 1]; ++v)
      add(left_.columns[v], left_.values[v]);
  }

  const LowerPattern& lower_;
  const LeftEntries& left_;
  const BlockGraph& graph_;
  List place_;  // of the columns of the matrix
  List width_;  // of the block that begins at a place, or 0
  FactorPlan plan_;
};

}  // namespace

FactorPlan make_factor_plan(const LowerPattern& lower) {
  const LeftEntries left(lower);
  const BlockGraph graph(lower, left);
  return Planner(lower, left, graph).plan(fill_reducing_order(graph));
}

FactorPlan make_factor_plan(const LowerPattern& lower, List order) {
  const LeftEntries left(lower);
  const BlockGraph graph(lower, left);
  return Planner(lower, left, graph).plan(std::move(order));
}

}  // namespace topograd::runtime
