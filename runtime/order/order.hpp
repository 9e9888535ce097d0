// Reorders a model so that parameter blocks that share residuals are neighbours in memory: finds
// the order from the index columns, makes the reordered model, and converts x between both orders.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../../ir/batch/unset_vector.hpp"
#include "../model/model.hpp"
#include "../plan/plan.hpp"

namespace topograd::runtime {

/// The parameter blocks that each instance of a term touches, one for each group of slots, in the
/// common numbering of all arrays.
struct TouchedBlocks {
  std::vector<SlotGroup> groups;
  ir::UnsetPagedVector<std::uint32_t> blocks;

  std::size_t width() const { return groups.size(); }
  std::size_t instances() const { return groups.empty() ? 0 : blocks.size() / width(); }
  std::span<const std::uint32_t> of(std::size_t i) const {
    return std::span(blocks).subspan(i * width(), width());
  }
};

/// A permutation of x (blocks stay in their array) and of the instances of each term. Empty vectors
/// mean the present order.
struct ModelOrder {
  std::vector<std::uint32_t> position;           ///< of each scalar of x in the new order
  std::vector<std::vector<std::uint32_t>> rows;  ///< by term: instance at each new index
  /// By term, in new numbers: input of reorder(), which releases it.
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
/// Returns the identity if the present order is as local as the one found, if everything fits a
/// cache, if a term's coordinates change between instances, or if order_choice() says so.
/// Otherwise it depends on the indices alone. Cost: linear in instances. Source: Cuthill & McKee,
/// Reducing the bandwidth of sparse symmetric matrices (1969).
ModelOrder find_order(const Model& model);

/// A model in another order, with its own batches.
struct OrderedModel {
  Model model;
  std::vector<std::unique_ptr<ir::Batch>> batches;
};
/// Makes the reordered model. Call once for each result of find_order().
OrderedModel reorder(const Model& model, ModelOrder& order);
/// Copies a term's data columns again; if `own`, only those that are on the host.
void refresh_data(const ir::Batch& source, std::span<const std::uint32_t> rows, ir::Batch& ordered,
                  bool own);

/// Environment variable that makes find_order() search (kFoundOrder, also if unset) or not
/// (kKeptOrder), to compare the two; read at each call.
inline constexpr const char* kOrderVariable = "TOPOGRAD_ORDER";
inline constexpr const char* kFoundOrder = "found";
inline constexpr const char* kKeptOrder = "kept";

/// A block with more neighbours than this is a hub: it connects nothing.
inline constexpr std::uint32_t kHub = 512;

/// Blocks that share an instance, as lists by block; hubs have empty lists.
class Neighbours {
 public:
  /// Lists are in the order of terms and instances for any number of threads.
  Neighbours(std::span<const TouchedBlocks> terms, std::uint32_t blocks);

  std::span<const std::uint32_t> of(std::uint32_t block) const {
    return std::span(list_).subspan(start_[block], start_[block + 1] - start_[block]);
  }
  bool have_hubs() const { return hubs_; }

  void expect_start(std::uint32_t block) const { __builtin_prefetch(&start_[block]); }
  void expect_list(std::uint32_t block) const { __builtin_prefetch(list_.data() + start_[block]); }

 private:
  ir::PagedVector<std::uint32_t> start_;
  ir::UnsetPagedVector<std::uint32_t> list_;
  bool hubs_ = false;
};

}  // namespace topograd::runtime
