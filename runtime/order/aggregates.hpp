// Blocks of unknowns gathered into connected groups of about the same size.
#pragma once

#include "../model/model.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace topograd::runtime {

inline constexpr std::uint32_t kNoAggregate = ~0u;

/// Groups of neighbouring blocks, found from the index columns alone.
struct Aggregates {
  /// By array: its blocks never meet one another in a residual and each of them belongs to
  /// neighbours in other arrays (the rotation of a vertex): they follow these.
  std::vector<std::uint8_t> follows;
  /// By block, arrays one after the other; kNoAggregate where it belongs to none: blocks that very
  /// many residuals share, and small components.
  std::vector<std::uint32_t> of_block;
  std::uint32_t count = 0;
  /// Pairs (a, b), a < b, of aggregates that a residual touches both; sorted.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
};

/// Blocks of an aggregate at least, and of a component that gets one.
inline constexpr std::uint32_t kSmallestAggregate = 8;

using MostAggregates = std::function<std::uint32_t(std::span<const std::uint8_t> follows)>;

/// Balls around seeds that lie further apart than a radius, which is the smallest that gives at
/// most `most` of them; none where each component of the graph had to have one.
///
/// Depends on the index columns of residual terms alone; energies connect nothing. Cost: linear in
/// instances, times the logarithm of the radius.
///
///   most  how many there may be, given Aggregates::follows
Aggregates find_aggregates(const Model& model, const MostAggregates& most);

}  // namespace topograd::runtime
