// The plan of a sparse Cholesky factorisation where many fronts run at one time: lists by level.
#pragma once

#include "factor_plan.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Rows and columns of a tile of the fronts here, and columns of one step of a factorisation.
inline constexpr std::uint32_t kFrontTile = 32;

/// Fronts by level, a level being all fronts that have as many ancestors: each is as late as it can
/// be, so that an update matrix lives for two levels. Work is listed by items, a tile of a front
/// each, so that all fronts of a level are one dispatch. Numbers below are positions in the lists
/// and in the memory of a device; everything is a pure function of the FactorPlan.
struct LevelPlan {
  /// Words of a front: where its panel begins in its range, pivots, rows below, where its update
  /// matrix begins, its vector, first position in the order, its children (fronts begin ... end −
  /// 1), its rows in `parent_rows` and `row_scalars`, and its cuts.
  ///
  /// A panel has pivots + below rows of `pivots` numbers, then the reciprocals of the diagonal of
  /// L. An update matrix is a lower triangle, packed by rows.
  static constexpr std::uint32_t kFrontWords = 10;
  /// An entry of the matrix.
  struct Entry {
    Entry() {}  // NOLINT(modernize-use-equals-default): several threads fill a list of them
    Entry(std::uint32_t from, std::uint32_t to, std::uint32_t r, std::uint32_t c)
        : value(from), at(to), row(r), column(c) {}

    std::uint32_t value;        ///< position in the matrix
    std::uint32_t at;           ///< position in the panels of its range
    std::uint32_t row, column;  ///< scalars
  };
  static constexpr std::uint32_t kEntryWords = sizeof(Entry) / sizeof(std::uint32_t);
  /// Words of an item: front, and its tile: row + 65536 column.
  static constexpr std::uint32_t kItemWords = 2;

  struct Items {
    std::uint32_t first = 0, count = 0;
  };
  /// Numbers that are bound together.
  struct Piece {
    std::uint64_t first = 0;  ///< a multiple of kAlignment
    std::uint64_t count = 0;
  };
  /// Panels of successive levels that are bound together; positions in them count from its first.
  struct Range {
    Piece panels;
    Items entries;
  };
  /// The fronts of a level, or some of them where they are too large for one range: update matrices
  /// are then bound by pieces, too.
  struct Level {
    std::uint32_t range = 0;
    std::uint32_t side = 0;  ///< which of both buffers its update matrices are in
    Piece updates;           ///< its update matrices
    Piece children;          ///< those of its children, on the other side
    Items assemble;          ///< tiles of pivots' columns, of fronts with children
    Items update;            ///< tiles of update matrices
    Items gather;            ///< tiles of rows
    Items below;             ///< tiles of pivots, of fronts with rows below
    /// By step: tiles of rows from the step's pivots on, tiles behind its columns among pivots'
    /// columns, and tiles of pivots up to its own.
    std::vector<Items> panel, trailing, backward;
  };
  /// How much a device binds at one time.
  struct Limits {
    std::uint64_t numbers = ~std::uint32_t{0};
    std::uint64_t words = ~std::uint32_t{0};
  };

  std::vector<Level> levels;  ///< leaves of the longest branch first, roots last
  std::vector<Range> ranges;  ///< each of one or several levels
  std::vector<std::uint32_t> fronts, items;
  std::vector<Entry> entries;
  /// By row below the pivots of a front: its number in the parent, and its scalar.
  std::vector<std::uint32_t> parent_rows, row_scalars;
  /// By front with a parent, from its cuts on: the first of its rows that lies at row 32 t of the
  /// parent or behind it, for t = 0 up to the number of the parent's tiles of rows.
  std::vector<std::uint32_t> cuts;
  std::vector<std::uint32_t> pivot_scalars;  ///< scalar by position
  std::uint32_t scalars = 0;                 ///< 1 + the largest one

  static constexpr std::uint32_t kAlignment = 128;  ///< numbers, entries and items
  std::uint64_t panels = 0;                         ///< numbers of the factor
  std::uint64_t updates[2] = {};        ///< numbers of update matrices of even and odd levels
  std::uint64_t vectors = 0;            ///< numbers of a solve's workspace
  std::uint64_t most_numbers = 0;       ///< that are bound together
  std::uint64_t most_words = 0;         ///< of one list that are bound together
  double operations = 0, nonzeros = 0;  ///< of the FactorPlan

  std::uint32_t unknowns() const { return static_cast<std::uint32_t>(pivot_scalars.size()); }
  /// The entries, kEntryWords words each.
  std::span<const std::uint32_t> entry_words() const {
    return {reinterpret_cast<const std::uint32_t*>(entries.data()), entries.size() * kEntryWords};
  }
  std::uint64_t words() const;    ///< u32 of all lists that a device holds
  std::uint64_t numbers() const;  ///< of factor, update matrices and vectors
  /// Bytes of a device from the first factorisation to the last solve, with numbers of that size.
  std::uint64_t bytes(std::uint32_t number) const { return 4 * words() + number * numbers(); }
};

/// Lists for a plan.
///
///   lower      the pattern that was planned
///   positions  by entry of the pattern: where its value lies; empty: where it lies in the pattern
///   scalars    by column of the pattern: its position in vectors; empty: its number
///   limits     kept where fronts are not too large for them: see most_numbers and most_words
///
/// Throws Error{Unsupported} if offsets do not fit 32 bits.
LevelPlan make_level_plan(const FactorPlan& plan, const LowerPattern& lower,
                          const LevelPlan::Limits& limits = {},
                          std::span<const std::uint32_t> positions = {},
                          std::span<const std::uint32_t> scalars = {});

}  // namespace topograd::runtime
