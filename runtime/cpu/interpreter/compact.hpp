// Programs with stored outputs; equal, negated and constant outputs need no separate column.
#pragma once

#include "../../../ir/program.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace topograd::runtime::cpu {

/// How to compute an output from stored columns: scale times a column, or scale alone.
struct OutputSource {
  enum class Kind : std::uint8_t {
    Literal,  ///< scale
    Column,   ///< scale * output `index` of the compact program
    Data      ///< scale * data slot `index`
  };
  Kind kind = Kind::Literal;
  std::uint32_t index = 0;
  double scale = 0;
};

struct CompactProgram {
  ir::Program program;                ///< outputs are the columns
  std::vector<OutputSource> sources;  ///< by output of the original program
};

/// Removes outputs that are literals, data or negations of others. (The gradient of a distance has
/// six outputs and three columns.) Outputs from `compacted` on are kept, after the columns, and
/// have no sources.
CompactProgram compact(const ir::Program& program,
                       std::size_t compacted = std::numeric_limits<std::size_t>::max());

/// Program for J·p of one instance from its stored J. Parameter leaves are p; data slots are those
/// of the batch, then the columns of the compact program to which J's sources refer.
///
///   sources     (rows, columns) row-major, of J
///   leaves      of the residual
///   stored      number of columns of the compact program
ir::Program stored_jvp(std::span<const OutputSource> sources, std::size_t rows,
                       const ir::LeafCounts& leaves, std::uint32_t stored);

/// Program for the terms of Jᵀ(J·p) by slot, with the same leaves.
ir::Program stored_jtjp(std::span<const OutputSource> sources, std::size_t rows,
                        const ir::LeafCounts& leaves, std::uint32_t stored);

}  // namespace topograd::runtime::cpu
