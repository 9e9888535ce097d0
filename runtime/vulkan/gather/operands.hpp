// Buffers that passes over terms read and write.
#pragma once

#include "../recording/context.hpp"

#include <cstdint>
#include <vector>

namespace topograd::runtime::vulkan {

/// Vectors that kernels read, in the precision of the engine.
struct Operands {
  const Buffer* x = nullptr;
  const Buffer* direction = nullptr;
  const Buffer* seeds = nullptr;
  const Buffer* uniforms = nullptr;
  const Buffer* scalars = nullptr;   ///< if set, kernels return at once unless Scalar::state is 0
  std::uint32_t seeds_stride = 0;    ///< gather: between rows of seeds
  const Buffer* failures = nullptr;  ///< cost: a u32 that counts instances that fail a guard
};

/// Target of the sums of an accumulating pass.
struct SumTarget {
  const Buffer* out = nullptr;
  std::uint64_t first = 0;  ///< position of owner 0's first sum
  bool overwrite = false;   ///< every owner is written by this set: store instead of adding
  /// Owners of single scalars only: position of each scalar's sum, instead of first + scalar.
  const std::vector<std::uint32_t>* positions = nullptr;
};

/// Targets of a pass with values (has_values) for results that are not summed by owner.
struct ValueSinks {
  const Buffer* costs = nullptr;  ///< partial sums
  std::uint32_t next = 0;         ///< next partial sum; moved past written ones
  const Buffer* rows = nullptr;   ///< in the order of TermColumns
};

class FusedTerms;

/// Further operands of a product of conjugate gradients that is fused with its direction.
struct FusedOperands {
  const Buffer* preconditioned = nullptr;
  const Buffer* damping = nullptr;
  const Buffer* next_direction = nullptr;
  const Buffer* decision = nullptr;
  const Buffer* partials = nullptr;  ///< sums of r·z and r·r
  std::uint32_t sums_count = 0;      ///< partial sums of each
  const Buffer* curvature = nullptr;
  std::uint32_t curvature_first = 0;  ///< position of the set's first sum of p·q
  /// Terms fused into the set's kernel; always the same, or null.
  const FusedTerms* fused_terms = nullptr;
};

/// Binds operands by role; a kernel reads those that it needs.
BindingTable bind_operands(const Operands& operands);
void bind_sinks(BindingTable& table, const ValueSinks& sinks);
/// Binds what a dispatch writes for owners first_output to last_output, `sums` numbers each: all of
/// the target or, beyond a range, the part around these owners. Returns the position of owner 0 in
/// what is bound, modulo 2^32.
std::uint32_t bind_target(const Context& context, BindingTable& table, const SumTarget& target,
                          std::uint32_t sums, std::uint32_t first_output,
                          std::uint32_t last_output);
/// Owners between the first and the last of a dispatch, at most, so that their sums fit a range.
///
///   scalars  owners are single scalars
std::uint64_t most_owners(const Context& context, std::uint32_t owner_width, bool scalars);

}  // namespace topograd::runtime::vulkan
