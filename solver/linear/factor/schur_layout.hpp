// Which kept columns each eliminated block meets.
#pragma once

#include "elimination.hpp"
#include "lists.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace topograd {

/// Eliminated blocks, kept columns, and where they meet. Kept columns have numbers of their own, in
/// the order of the matrix.
struct SchurLayout {
  ///   eliminated  blocks of columns, ascending
  ///   columns     of the whole matrix
  ///   neighbours  of each block: kept columns that meet it, ascending
  SchurLayout(const std::vector<Elimination::Block>& eliminated, std::size_t columns,
              Lists<std::uint32_t> neighbours);

  /// A column is kept if its block is kNone.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Position {
    std::uint32_t block;  // eliminated, or kNone
    std::uint32_t at;     // column of the block, or number of the kept column
  };
  /// Positions of all columns, as the constructor needs them for its neighbours.
  static std::vector<Position> positions_of(const std::vector<Elimination::Block>& eliminated,
                                            std::size_t columns);

  std::vector<Elimination::Block> blocks;
  std::vector<std::uint32_t> column;  // of the matrix, by kept column
  Lists<std::uint32_t> neighbours;    // of each block
  std::vector<std::size_t> E;         // start of a block's (width, neighbours) numbers, and the end
  std::vector<std::size_t> C;         // start of a block's (width, width) numbers, and the end
  struct Use {
    std::uint32_t block, at;  // the column is neighbours[block][at]
  };
  Lists<Use> uses;  // by kept column
  /// First columns of groups of adjacent kept columns that meet the same blocks, in adjacent
  /// rows, and the number of kept columns.
  std::vector<std::uint32_t> panels;

 private:
  void find_uses();
  void find_panels();
};

}  // namespace topograd
