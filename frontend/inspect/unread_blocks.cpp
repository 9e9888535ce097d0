// Finds unknowns that no residual reads, and rows that are 0 whatever the unknowns are.
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

constexpr std::size_t kRows = ir::Batch::kBlockRows;

/// Calls f(first, count) for each block of rows, on all threads.
template <class F>
void for_blocks(const ir::Batch& batch, const F& f) {
  ir::parallel_for_beyond(
      1, std::size_t{0}, (batch.size() + kRows - 1) / kRows,
      [&](std::size_t block) { f(block * kRows, std::min(kRows, batch.size() - block * kRows)); });
}

/// Marks the scalars that the instances of a topology read.
///
///   skipped  by instance, 1 = not this one; empty: none
void mark(const ir::Batch& batch, std::span<const std::uint8_t> skipped,
          std::vector<std::uint8_t>& read) {
  for_blocks(batch, [&](std::size_t first, std::size_t count) {
    std::array<std::uint32_t, kRows> rows;
    const std::span part(rows.data(), count);
    for (std::uint32_t column = 0; column < batch.parameter_columns(); ++column) {
      batch.copy_index_column(column, first, part);
      for (std::size_t k = 0; k < count; ++k) {
        if (!skipped.empty() && skipped[first + k] != 0) continue;
        // Threads that only read a mark do not wait for one another.
        const std::atomic_ref<std::uint8_t> is_read(read[rows[k]]);
        if (is_read.load(std::memory_order_relaxed) == 0)
          is_read.store(1, std::memory_order_relaxed);
      }
    }
  });
}

/// True for `x != 0` of a leaf x with data or a uniform.
bool asks_for_weight(const ir::Program& program, const ir::Node& node) {
  if (node.op != ir::Op::Ne) return false;
  const auto is = [&](ir::Id id, bool zero) {
    const ir::Node& operand = program.nodes[id];
    return zero ? operand.op == ir::Op::Literal && operand.literal() == 0
                : operand.op == ir::Op::Data || operand.op == ir::Op::Uniform;
  };
  return (is(node.args[0], false) && is(node.args[1], true)) ||
         (is(node.args[0], true) && is(node.args[1], false));
}

/// The leaves with data or uniforms of which one alone makes the output 0 where it is 0.
std::vector<ir::Node> factors(const ir::Program& program, ir::Id output) {
  std::vector<ir::Node> found;
  std::vector<ir::Id> open{output};
  while (!open.empty()) {
    const ir::Node& node = program.nodes[open.back()];
    open.pop_back();
    switch (node.op) {
      case ir::Op::Data:
      case ir::Op::Uniform: found.push_back(node); break;
      case ir::Op::Mul: open.insert(open.end(), {node.args[0], node.args[1]}); break;
      case ir::Op::Div:
      case ir::Op::Neg:
      case ir::Op::Abs:
      case ir::Op::Sqrt:
      case ir::Op::Square: open.push_back(node.args[0]); break;
      case ir::Op::Select: {
        const ir::Node& other = program.nodes[node.args[2]];
        if (other.op != ir::Op::Literal || other.literal() != 0) break;
        open.push_back(node.args[1]);
        const ir::Node& condition = program.nodes[node.args[0]];
        if (asks_for_weight(program, condition))
          open.insert(open.end(), {condition.args[0], condition.args[1]});
        break;
      }
      default: break;
    }
  }
  return found;
}

/// Sets the flag of each instance for which one of the leaves is 0.
void find_zeros(const Problem& problem, const ir::Batch& batch, std::span<const ir::Node> leaves,
                std::span<std::uint8_t> zero) {
  for (const ir::Node& leaf : leaves) {
    const bool uniform = leaf.op == ir::Op::Uniform;
    // Numbers that a device computes are not fetched to be counted.
    if (!uniform && batch.resident(leaf.slot()) != nullptr) continue;
    for_blocks(batch, [&](std::size_t first, std::size_t count) {
      std::array<double, kRows> numbers;
      std::array<std::uint32_t, kRows> indices;
      if (uniform) {
        batch.copy_index_column(batch.parameter_columns() + leaf.slot(), first,
                                std::span(indices.data(), count));
        for (std::size_t k = 0; k < count; ++k) numbers[k] = problem.uniforms()[indices[k]];
      } else {
        batch.copy_data_column(leaf.slot(), first, std::span(numbers.data(), count));
      }
      for (std::size_t k = 0; k < count; ++k)
        if (numbers[k] == 0) zero[first + k] = 1;
    });
  }
}

/// The instances of a topology of residuals that have rows of weight 0.
struct LeftOut {
  std::uint64_t rows = 0;
  std::vector<std::uint8_t> whole;  ///< by instance: 1 if all of its rows are; empty: no instance
};

LeftOut left_out(const Problem& problem, std::size_t t) {
  LeftOut out;
  if (problem.kind(t) != BlockKind::residual) return out;
  const ir::Program& program = problem.topology(t).program;
  const ir::Batch& batch = problem.batch(t);
  bool all = true;  // rows have factors
  std::vector<std::uint8_t> zero;
  for (const ir::Id output : program.outputs) {
    const std::vector<ir::Node> leaves = factors(program, output);
    all = all && !leaves.empty();
    if (leaves.empty()) continue;
    zero.assign(batch.size(), 0);
    find_zeros(problem, batch, leaves, zero);
    out.rows += static_cast<std::uint64_t>(std::ranges::count(zero, std::uint8_t{1}));
    if (out.whole.empty()) out.whole.assign(batch.size(), 1);
    for (std::size_t i = 0; i < zero.size(); ++i) out.whole[i] &= zero[i];
  }
  if (!all || out.rows == 0) out.whole.clear();
  return out;
}

void mark_host(const Problem& problem, std::vector<std::uint8_t>& read) {
  for (const HostBlock& host : problem.host_blocks()) {
    for (std::size_t k = 0; k < host.offsets.size(); ++k)
      std::fill_n(read.begin() + host.offsets[k], host.widths[k], std::uint8_t{1});
  }
}

}  // namespace

std::string block_text(const Problem& problem, const UnreadBlock& block) {
  const ParameterArray& array = problem.arrays()[block.array];
  return block_text(ArrayName{array.name, block.array, array.blocks, array.width}, block.block);
}

std::vector<std::uint8_t> read_scalars(const Problem& problem) {
  std::vector<std::uint8_t> read(problem.parameter_count());
  for (std::size_t t = 0; t < problem.topology_count(); ++t) mark(problem.batch(t), {}, read);
  mark_host(problem, read);
  return read;
}

std::uint64_t rows_left_out(const Problem& problem) {
  std::uint64_t rows = 0;
  for (std::size_t t = 0; t < problem.topology_count(); ++t) rows += left_out(problem, t).rows;
  return rows;
}

std::vector<std::uint8_t> scalars_with_data(const Problem& problem) {
  std::vector<std::uint8_t> read(problem.parameter_count());
  for (std::size_t t = 0; t < problem.topology_count(); ++t)
    mark(problem.batch(t), left_out(problem, t).whole, read);
  mark_host(problem, read);
  return read;
}

std::uint64_t free_coordinates(const Problem& problem, std::span<const std::uint8_t> read) {
  const std::span<const std::uint8_t> fixed = problem.constant_mask();
  const auto moves = [&](std::size_t k) { return read[k] != 0 && (fixed.empty() || !fixed[k]); };
  const bool manifolds = problem.has_manifolds();
  std::uint64_t sum = 0;
  for (std::size_t a = 0; a < problem.arrays().size(); ++a) {
    const ParameterArray& array = problem.arrays()[a];
    if (array.values == nullptr) continue;  // gap of a removed array
    for (std::size_t b = 0; b < array.blocks; ++b) {
      std::uint64_t scalars = 0;
      for (std::size_t k = 0; k < array.width; ++k)
        scalars += moves(array.offset + b * array.width + k) ? 1 : 0;
      const Manifold* const manifold = manifolds ? problem.manifold(a, b) : nullptr;
      if (manifold == nullptr)
        sum += scalars;
      else if (scalars > 0)
        sum += static_cast<std::uint64_t>(manifold->tangent_size());
    }
  }
  return sum;
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
