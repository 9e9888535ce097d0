// Loads of a program's leaves: columns, constants, and what an owner holds itself.
#pragma once

#include "program.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::codegen {

/// From so many loads or stores of one kind on, a loop over an array makes them: drivers' compilers
/// take time with the square of the number of accesses to buffers.
inline constexpr std::size_t kLeastLooped = 64;

/// Names of a request's leaves, each one different from all others of the shader.
LeafNames leaf_names(const KernelRequest& request, const ir::LeafCounts& leaves);

/// A parameter slot whose value (and direction) is at hand already.
struct OwnSlot {
  std::uint32_t slot = 0;
  std::string value, direction;
};

/// Where an instance's leaves are found.
struct LeafPlace {
  const ColumnLayout& layout;
  std::string_view row;       ///< variable that counts rows of the columns: "i" or "e"
  std::string_view seed_row;  ///< variable that counts rows of the seeds
  std::vector<OwnSlot> own;
  bool fused = false;  ///< tangents are preconditioned + beta * direction
  // where columns are, and how far from each other
  BufferRole index_columns = BufferRole::index_columns;
  BufferRole data_columns = BufferRole::data_columns;
  std::string_view stride = "stride";
  std::string_view counter = row;  ///< what steps of flexible index columns are multiplied by
};

/// Entry `position` of the direction of a fused kernel.
std::string fused_direction(std::string_view position, Precision precision, Shader& shader);

/// Writes the loads of all live leaves of `prepared`, and of the index columns that `targets` need;
/// names of own slots are replaced by what is at hand. Returns the position in x of each target
/// slot.
std::vector<std::string> write_loads(const Prepared& prepared, const LeafPlace& place,
                                     const std::vector<std::uint32_t>& targets, Precision precision,
                                     LeafNames& names, Shader& shader);

/// Bytes of the columns that write_loads reads for one row.
std::uint32_t column_bytes(const Prepared& prepared, const LeafPlace& place,
                           const std::vector<std::uint32_t>& targets, Precision precision);

}  // namespace topograd::codegen
