// A locality order of parameter blocks and instances, found from the index columns.
#pragma once

#include "../../ir/batch/pages.hpp"
#include "../model/model.hpp"
#include "../plan/plan.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace topograd::runtime {

/// The parameter blocks that each instance of a term touches, one for each group of slots, by
/// numbers that count the blocks of all arrays.
struct TouchedBlocks {
  std::vector<SlotGroup> groups;
  ir::PagedVector<std::uint32_t> blocks;

  std::size_t width() const { return groups.size(); }
  std::size_t instances() const { return groups.empty() ? 0 : blocks.size() / width(); }
  std::span<const std::uint32_t> of(std::size_t i) const {
    return std::span(blocks).subspan(i * width(), width());
  }
};

/// A permutation of x (blocks of an array change places within it) and of the instances of each
/// term. Empty vectors stand for the order that is there.
struct ModelOrder {
  std::vector<std::uint32_t> position;           ///< of each scalar of x in the new order
  std::vector<std::vector<std::uint32_t>> rows;  ///< by term: instance at each new place
  /// By term, under new numbers: what reorder() needs besides, and lets go of.
  std::vector<TouchedBlocks> touched;

  bool identity() const { return position.empty(); }
  /// ordered[position[k]] = x[k], and back.
  void apply(std::span<const double> x, std::span<double> ordered) const;
  void undo(std::span<const double> ordered, std::span<double> x) const;
};

/// Orders blocks by breadth-first search over the instances that connect them, and instances by the
/// first block that they touch, so that neighbours in the mesh are neighbours in memory. Blocks
/// that very many instances share connect nothing and keep their order.
///
/// Gives the identity where the present order is as local as the one found, where all fits a cache,
/// where a term's coordinates change between instances, and where order_choice.hpp says so. Depends
/// on the indices else. Cost: linear in instances. Source: Cuthill & McKee, Reducing the bandwidth
/// of sparse symmetric matrices (1969).
ModelOrder find_order(const Model& model);

/// A model in another order, with batches of its own.
struct OrderedModel {
  Model model;
  std::vector<std::unique_ptr<ir::Batch>> batches;
};
/// Once for each order that find_order() gives.
OrderedModel reorder(const Model& model, ModelOrder& order);
/// Copies a term's data columns again, those that lie on the host only if `own`.
void refresh_data(const ir::Batch& source, std::span<const std::uint32_t> rows, ir::Batch& ordered,
                  bool own);

}  // namespace topograd::runtime
