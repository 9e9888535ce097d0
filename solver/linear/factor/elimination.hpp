// Blocks of unknowns that can be eliminated separately: found, or named by the user.
#pragma once

#include "../../../frontend/problem.hpp"
#include "../../../runtime/model/model.hpp"
#include "../../options.hpp"

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
  std::vector<Block> remaining;  ///< all other blocks, ascending
  std::size_t eliminated = 0;    ///< columns in them
  std::size_t kept = 0;          ///< the other columns
  /// Steps between two kept blocks that are far apart, where blocks are neighbours if they meet
  /// directly or in an eliminated block: at least half the diameter of the Schur complement's
  /// graph, in the component of the block with the most neighbours.
  std::size_t reach = 0;

  /// True if the remainder is so much smaller than the eliminated part that a factor of it pays.
  bool pays() const;
  /// True if the remainder is as wide a mesh as the whole: nearly as many blocks, far apart. CG
  /// propagates information by one graph edge per iteration; on such graphs it takes a multiple of
  /// `reach` iterations either way, and coarse vectors take fewer.
  bool remains_wide() const;
};

/// Requested blocks. Empty: blocks are searched.
struct EliminationHint {
  /// By number of a parameter block among all of the problem's: 1 = eliminate.
  std::vector<std::uint8_t> blocks;
  /// Arrays of these blocks in order, with their names for messages.
  struct Array {
    std::string name;
    std::uint64_t blocks = 0;
  };
  std::vector<Array> arrays;

  bool empty() const { return blocks.empty(); }
};

/// Width of the widest block that is eliminated.
inline constexpr std::uint32_t kWidestEliminated = 16;

/// Selects blocks in the order of their number of neighbours, each unless one of its neighbours was
/// selected.
///
///   lower     lower triangle of a symmetric matrix; its pattern is read
///   block_of  by column: number of its block; the columns of a block are neighbours
///   hint      blocks to select instead; those that are too wide are kept
///
/// Throws Error{InvalidArgument} if two blocks of a hint are neighbours.
/// Cost: linear in entries, plus a sort of the blocks.
/// Source: Li, Saad, BILUM: block versions of multielimination and multilevel ILU preconditioner
/// (1996), as Ceres Solver orders parameter blocks.
Elimination find_elimination(const SparseMatrix& lower, std::span<const std::uint32_t> block_of,
                             const EliminationHint& hint = {});
/// The same for JᵀJ over the model's free scalars, without computing its pattern, or with energies
/// for the Hessian.
///
/// Cost: Σ instances × b² for b blocks in an instance, and sorts.
Elimination find_elimination(const runtime::Model& model, const EliminationHint& hint = {});

/// The blocks of the lowest group, or none if there is only one group.
///
/// Throws Error{InvalidArgument} for a negative group, Error{WrongProblem} for arrays of another
/// problem, and Problem's error for a block that does not exist.
EliminationHint elimination_hint(const Problem& problem, const SolverOptions& options);

}  // namespace topograd
