// Fronts, their rows, and where entries of the matrix go.
#include "factor_plan.hpp"

#include "../../ir/error.hpp"
#include "../../ir/machine/parallel.hpp"
#include "elimination_tree.hpp"
#include "factor_schedule.hpp"
#include "fill_order.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace topograd::runtime {
namespace {

using List = std::vector<std::uint32_t>;

/// Parts of the work that run beside each other; each needs a list with a number for each column.
std::size_t parts_of(std::size_t pieces) {
  return std::min<std::size_t>(pieces, std::max(std::thread::hardware_concurrency(), 1u));
}

/// Results do not depend on the number of threads.
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
    schedule(plan_);
    find_rows(nodes);
    find_places();
    find_entries();
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

  struct RowSearch {
    List mark;    // by place: the last front that met it
    List starts;  // places of the blocks below the pivots of a front
  };

  /// Subtrees beside each other, then the fronts above them.
  void find_rows(const Supernodes& nodes) {
    const std::size_t tasks = plan_.tasks.size(), parts = parts_of(tasks);
    ir::parallel_for(std::size_t{0}, parts, [&](std::size_t part) {
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
    const auto add = [&](std::uint32_t place) {
      if (place >= front.first + front.pivots && std::exchange(search.mark[place], f) != f)
        starts.push_back(place);
    };
    for (std::uint32_t k = nodes.nodes[f].begin; k < nodes.nodes[f].end; ++k)
      for (const std::uint32_t b : graph_.neighbours(nodes.blocks[k])) add(place_[graph_.first[b]]);
    for (std::uint32_t c = front.children; c < front.children_end; ++c)
      for (const std::uint32_t place : rows_of(plan_.fronts[plan_.children[c]]))
        if (width_[place] > 0) add(place);
    std::ranges::sort(starts);
    std::uint32_t* to = plan_.rows.data() + front.rows;
    for (const std::uint32_t start : starts)
      for (std::uint32_t k = 0; k < width_[start]; ++k) *to++ = start + k;
  }

  std::span<const std::uint32_t> rows_of(const Front& front) const {
    return std::span(plan_.rows).subspan(front.rows, front.below);
  }

  /// Numbers of the rows in the parent: both lists ascend.
  void find_places() {
    plan_.places.resize(plan_.rows.size());
    ir::parallel_for(std::size_t{0}, plan_.fronts.size(), [&](std::size_t f) {
      const Front& front = plan_.fronts[f];
      if (front.parent == kNoFront) return;
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
    });
  }

  using Entries = std::vector<FactorPlan::Entry>;

  /// Lists entries of ranges of fronts, and joins the lists.
  void find_entries() {
    const std::size_t parts = parts_of(plan_.fronts.size());
    std::vector<Entries> lists(parts);
    const auto begin_of = [&](std::size_t part) { return plan_.fronts.size() * part / parts; };
    ir::parallel_for(std::size_t{0}, parts, [&](std::size_t part) {
      Entries& entries = lists[part];
      // Numbers of the front's rows, by place. Those of other rows are not read.
      const auto number = std::make_unique_for_overwrite<std::uint32_t[]>(lower_.columns());
      for (std::size_t f = begin_of(part); f < begin_of(part + 1); ++f) {
        Front& front = plan_.fronts[f];
        const std::span<const std::uint32_t> rows = rows_of(front);
        for (std::uint32_t k = 0; k < front.pivots; ++k) number[front.first + k] = k;
        for (std::uint32_t k = 0; k < front.below; ++k) number[rows[k]] = front.pivot_rows() + k;
        front.entries = static_cast<std::uint32_t>(entries.size());
        for (std::uint32_t k = 0; k < front.pivots; ++k)
          add_entries(front, k, number.get(), entries);
        front.entries_end = static_cast<std::uint32_t>(entries.size());
      }
    });
    std::vector<std::uint32_t> first(parts + 1);
    for (std::size_t part = 0; part < parts; ++part)
      first[part + 1] = first[part] + static_cast<std::uint32_t>(lists[part].size());
    plan_.entries.resize(first[parts]);
    ir::parallel_for(std::size_t{0}, parts, [&](std::size_t part) {
      std::ranges::copy(lists[part], plan_.entries.begin() + first[part]);
      for (std::size_t f = begin_of(part); f < begin_of(part + 1); ++f) {
        plan_.fronts[f].entries += first[part];
        plan_.fronts[f].entries_end += first[part];
      }
    });
  }

  /// Entries of the matrix between pivot k and what is eliminated with it or later.
  void add_entries(const Front& front, std::uint32_t k, const std::uint32_t* number,
                   Entries& entries) const {
    const std::uint32_t column = plan_.order[front.first + k];
    const auto add = [&](std::uint32_t other, std::uint32_t value) {
      if (place_[other] < front.first + k) return;
      const std::uint32_t row = number[place_[other]];
      const std::uint32_t at = row / kTile * kTile * front.pivots + kTile * k + row % kTile;
      entries.push_back({value, at});
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
