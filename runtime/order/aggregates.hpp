// Grouping of blocks of unknowns into connected groups of about the same size.
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
  /// By array: true if its blocks never share a residual and each of them belongs to neighbours in
  /// other arrays (the rotation of a vertex): they follow these.
  std::vector<std::uint8_t> follows;
  /// By block, arrays one after the other; kNoAggregate for blocks that very many residuals share,
  /// and for small components.
  std::vector<std::uint32_t> of_block;
  std::uint32_t count = 0;
  /// Pairs (a, b), a < b, of aggregates that share a residual; sorted.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
};

/// Least number of blocks of an aggregate, and of a component that gets one.
inline constexpr std::uint32_t kSmallestAggregate = 8;

using MostAggregates = std::function<std::uint32_t(std::span<const std::uint8_t> follows)>;

/// Finds balls around seeds that are further apart than a radius, the smallest that gives at most
/// `most` of them; none if there are too many components.
///
/// Depends on the index columns of residual terms alone; energies connect nothing. Cost: linear in
/// instances, times the logarithm of the radius.
///
///   most  largest number, given Aggregates::follows
Aggregates find_aggregates(const Model& model, const MostAggregates& most);

}  // namespace topograd::runtime
