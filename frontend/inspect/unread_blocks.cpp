// Finds unknowns that no residual reads.
#include "unread_blocks.hpp"
#include "../../ir/machine/parallel.hpp"
#include "array_names.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>

namespace topograd {
namespace {

/// Marks the scalars that the instances of a topology read.
void mark(const ir::Batch& batch, std::vector<std::uint8_t>& read) {
  constexpr std::size_t kRows = ir::Batch::kBlockRows;
  ir::parallel_for(std::size_t{0}, (batch.size() + kRows - 1) / kRows, [&](std::size_t block) {
    std::array<std::uint32_t, kRows> rows;
    const std::span part(rows.data(), std::min(kRows, batch.size() - block * kRows));
    for (std::uint32_t column = 0; column < batch.parameter_columns(); ++column) {
      batch.copy_index_column(column, block * kRows, part);
      for (const std::uint32_t scalar : part) {
        // Threads that only read a mark do not wait for one another.
        const std::atomic_ref<std::uint8_t> is_read(read[scalar]);
        if (is_read.load(std::memory_order_relaxed) == 0)
          is_read.store(1, std::memory_order_relaxed);
      }
    }
  });
}

}  // namespace

std::string block_text(const Problem& problem, const UnreadBlock& block) {
  const ParameterArray& array = problem.arrays()[block.array];
  return block_text(ArrayName{array.name, block.array, array.blocks, array.width}, block.block);
}

std::vector<std::uint8_t> read_scalars(const Problem& problem) {
  std::vector<std::uint8_t> read(problem.parameter_count());
  for (std::size_t t = 0; t < problem.topology_count(); ++t) mark(problem.batch(t), read);
  for (const HostBlock& host : problem.host_blocks()) {
    for (std::size_t k = 0; k < host.offsets.size(); ++k)
      std::fill_n(read.begin() + host.offsets[k], host.widths[k], std::uint8_t{1});
  }
  return read;
}

std::vector<UnreadBlock> unread_blocks(const Problem& problem) {
  return unread_blocks(problem, read_scalars(problem));
}

std::vector<UnreadBlock> unread_blocks(const Problem& problem, std::span<const std::uint8_t> read) {
  std::vector<UnreadBlock> found;
  const std::span<const ParameterArray> arrays = problem.arrays();
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    if (arrays[a].values == nullptr) continue;  // gap of a removed array
    for (std::size_t b = 0; b < arrays[a].blocks; ++b) {
      const auto begin =
          read.begin() + static_cast<std::ptrdiff_t>(arrays[a].offset + b * arrays[a].width);
      if (std::none_of(begin, begin + arrays[a].width, [](std::uint8_t r) { return r != 0; }))
        found.push_back({a, b});
    }
  }
  return found;
}

}  // namespace topograd
