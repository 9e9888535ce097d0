// Internal: loops over blocks of arrays in a fixed order, and launches that access items by index.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../../ir/machine/parallel.hpp"
#include "../run/storage.hpp"

namespace topograd::ops {

inline constexpr std::size_t kBlock = std::size_t{1} << 14;

/// f(block, first, n) for each block of elements, in any order.
template <class F>
void for_blocks(std::size_t count, const F& f, std::size_t block = kBlock) {
  const std::size_t blocks = (count + block - 1) / block;
  const auto one = [&](std::size_t b) { f(b, b * block, std::min(block, count - b * block)); };
  if (blocks == 1) return one(0);
  ir::parallel_for(std::size_t{0}, blocks, one);
}

inline std::size_t block_count(std::size_t count, std::size_t block = kBlock) {
  return (count + block - 1) / block;
}

/// Combines the states of all blocks pairwise; the order depends only on the length.
template <class State, class Body, class Combine>
State reduce_blocks(std::size_t count, State identity, const Body& body, const Combine& combine,
                    std::size_t block = kBlock) {
  std::vector<State> states(block_count(count, block), identity);
  for_blocks(
      count, [&](std::size_t b, std::size_t first, std::size_t n) { states[b] = body(first, n); },
      block);
  if (states.empty()) return identity;
  for (std::size_t width = states.size(); width > 1; width = (width + 1) / 2) {
    for (std::size_t k = 0; k < width / 2; ++k)
      states[k] = combine(states[2 * k], states[2 * k + 1]);
    if (width % 2 == 1) states[width / 2] = states[width - 1];
  }
  return states[0];
}

/// Throws Error{OutOfDeviceMemory} if the device cannot bind the whole slice, because accesses
/// through indices cannot be divided.
void check_reached(const char* call, const OpBackend& backend, const Slice& slice);

/// Invocations per workgroup.
std::uint32_t index_workgroup(const OpBackend& backend);

/// Items per launch, so that bindings begin at whole chunks.
///
///   widest  bytes of an item in the widest binding
std::uint64_t index_chunk(const OpBackend& backend, std::size_t widest);

}  // namespace topograd::ops
