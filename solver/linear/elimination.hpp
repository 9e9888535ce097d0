// Which blocks of unknowns can be eliminated each by itself: points seen by cameras.
#pragma once

#include "../../runtime/model/model.hpp"

#include <Eigen/SparseCore>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

using SparseMatrix = Eigen::SparseMatrix<double>;

/// Blocks of columns of which no two meet in an entry of the matrix.
struct Elimination {
  struct Block {
    std::uint32_t first = 0, width = 0;  ///< columns
  };
  std::vector<Block> blocks;     ///< ascending
  std::vector<Block> remaining;  ///< the others, likewise
  std::size_t eliminated = 0;    ///< columns in them
  std::size_t kept = 0;          ///< the other columns
  /// Steps from one kept block to another that lies far from it, where blocks are neighbours that
  /// meet by themselves or in an eliminated block: at least half the diameter of the Schur
  /// complement's graph, of the component whose block has the most neighbours.
  std::size_t reach = 0;

  /// Whether what remains is so small beside what goes that a factor of it is worth it.
  bool pays() const;
  /// Whether what remains is as wide a mesh as all was: nearly as many blocks, far apart. An
  /// iteration of conjugate gradients carries what it knows one step; on such graphs it takes a
  /// multiple of `reach` iterations either way, and coarse vectors take fewer.
  bool remains_wide() const;
};

/// Blocks that were asked for. Empty: blocks are found.
struct EliminationHint {
  /// By number of a parameter block among all of the problem's: 1 = to be eliminated.
  std::vector<std::uint8_t> blocks;
  /// Arrays of these blocks in their order, as messages call them.
  struct Array {
    std::string name;
    std::uint64_t blocks = 0;
  };
  std::vector<Array> arrays;

  bool empty() const { return blocks.empty(); }
};

/// Widest block that is eliminated.
inline constexpr std::uint32_t kWidestEliminated = 16;

/// Takes blocks in the order of their neighbours' number, each unless one of its neighbours was
/// taken.
///
///   lower     lower triangle of a symmetric matrix; its pattern is read
///   block_of  by column: number of its block; the columns of a block are neighbours
///   hint      blocks to take instead; those that are too wide are kept
///
/// Throws Error{InvalidArgument} if two blocks of a hint are neighbours.
/// Cost: linear in entries, but for a sort of the blocks.
/// Source: Li, Saad, BILUM: block versions of multielimination and multilevel ILU preconditioner
/// (1996), as Ceres Solver orders parameter blocks.
Elimination find_elimination(const SparseMatrix& lower, std::span<const std::uint32_t> block_of,
                             const EliminationHint& hint = {});
/// The same for JᵀJ over the model's free scalars, whose pattern need not be known for it, or with
/// energies for the Hessian.
///
/// Cost: Σ instances × b² for b blocks in an instance, and sorts.
Elimination find_elimination(const runtime::Model& model, const EliminationHint& hint = {});

}  // namespace topograd
