// Rows of the Jacobian by the eliminated block that they read.
#pragma once

#include "../../../runtime/model/model.hpp"
#include "lists.hpp"
#include "normal_equations.hpp"
#include "panel.hpp"
#include "schur_layout.hpp"

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace topograd {

/// For each eliminated block, the instances that read it and kept columns, in the order of terms
/// and instances. No instance reads two eliminated blocks.
class EliminatedRows {
 public:
  ///   free    scalars that are the columns, ascending
  ///   blocks  eliminated ones, ascending
  EliminatedRows(const runtime::Model& model, std::span<const std::uint32_t> free,
                 const std::vector<Elimination::Block>& blocks);

  const SchurLayout& layout() const { return layout_; }
  /// Adds JₖᵀJₑ of the kept and the block's columns to a panel: a row for each neighbour.
  ///
  ///   scratch  kept between calls, so that its memory is used again
  void add_coupling(const JacobianRows& jacobians, std::uint32_t block, Panel& panel,
                    std::vector<double>& scratch) const;

 private:
  struct EliminatedSlot {
    std::uint16_t slot, at;  // column of the block
    friend auto operator<=>(const EliminatedSlot&, const EliminatedSlot&) = default;
  };
  /// Free slots of an instance: those of the block, and kept ones, ascending by their columns.
  struct Shape {
    std::vector<EliminatedSlot> eliminated;
    std::vector<std::uint16_t> kept;
    bool in_order = false;  // slots follow one another, and are the whole block in its order

    bool is_in_order(std::uint32_t width) const;
    friend auto operator<=>(const Shape&, const Shape&) = default;
  };
  struct Use {
    std::uint32_t term, instance, shape, runs;
  };
  /// Kept slots of a use, in Shape::kept, whose neighbours are adjacent.
  using Run = Panel::Run;
  struct Found;
  struct TermSize {
    std::uint32_t rows, slots;
  };

  void add_use(std::span<const SchurLayout::Position> positions,
               const std::vector<Elimination::Block>& blocks, Use use, Found& found);
  void find_uses(const runtime::Model& model, const std::vector<SchurLayout::Position>& positions,
                 const std::vector<Elimination::Block>& blocks, Found& found);
  SchurLayout find_layout(const runtime::Model& model, std::span<const std::uint32_t> free,
                          const std::vector<Elimination::Block>& blocks);
  ///   neighbour_of  by column: of its block's neighbours
  void add_runs(std::span<const std::uint32_t> columns, std::span<const std::uint32_t> neighbour_of,
                Use& use);

  std::vector<TermSize> terms_;
  std::vector<Shape> shapes_;
  Lists<Use> uses_;  // by block
  Lists<Run> runs_;  // by block
  SchurLayout layout_;
};

}  // namespace topograd
