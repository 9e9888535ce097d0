// Walks of a tape from its rows, and measured costs of operations.
#include "tape_part.hpp"

#include <algorithm>
#include <utility>

namespace topograd::detail {
namespace {

// Measured with one thread on chains of 20 to 400 steps and on normals of 1 to 2,000 triangles, s:
// an operation of a sweep, for each unknown of its derivatives, and a block; an operation of a
// kernel of the interpreter with its derivatives, for all lanes.
constexpr double kSweptOperation = 2e-9, kSweptDerivative = 0.4e-9, kBlock = 30e-9;
constexpr double kKernelOperation = 20e-9, kLanes = 16;

}  // namespace

void TapeParts::find_needed(std::span<const TapeNode> nodes, std::span<const std::uint32_t> rows) {
  if (seen_.size() < nodes.size()) seen_.resize(nodes.size(), 0);
  if (++stamp_ == 0) {
    std::ranges::fill(seen_, 0);
    ++stamp_;
  }
  open_.clear();
  const auto need = [&](std::uint32_t at) {
    if (std::exchange(seen_[at], stamp_) != stamp_) open_.push_back(at);
  };
  for (const std::uint32_t row : rows) need(row);
  for (std::size_t k = 0; k < open_.size(); ++k) {
    const std::uint32_t at = open_[k];
    const TapeNode& node = nodes[at];
    const std::uint32_t back[3] = {node.a, node.b, node.c};
    for (int j = 0; j < ir::arity(node.op()); ++j) need(at - back[j]);
  }
}

std::size_t TapeParts::count_operations(std::span<const TapeNode> nodes,
                                        std::span<const std::uint32_t> rows) {
  find_needed(nodes, rows);
  return static_cast<std::size_t>(
      std::ranges::count_if(open_, [&](std::uint32_t at) { return !ir::is_leaf(nodes[at].op()); }));
}

RawTape TapeParts::extract(std::span<const TapeNode> nodes, std::span<const std::uint32_t> rows) {
  find_needed(nodes, rows);
  std::ranges::sort(open_);
  if (where_.size() < nodes.size()) where_.resize(nodes.size());
  part_.clear();
  for (const std::uint32_t at : open_) {
    TapeNode node = nodes[at];
    where_[at] = static_cast<std::uint32_t>(part_.size());
    std::uint32_t* const back[3] = {&node.a, &node.b, &node.c};
    for (int j = 0; j < ir::arity(node.op()); ++j) *back[j] = where_[at] - where_[at - *back[j]];
    part_.push_back(node);
  }
  part_rows_.clear();
  for (const std::uint32_t row : rows) part_rows_.push_back(where_[row]);
  return {part_, part_rows_};
}

double swept_seconds(std::size_t operations, std::size_t unknowns, std::size_t blocks) {
  const double operation = kSweptOperation + kSweptDerivative * static_cast<double>(unknowns);
  return static_cast<double>(operations) * operation + static_cast<double>(blocks) * kBlock;
}

double KernelTime::seconds(std::size_t alike) const {
  double out = 0;
  for (const auto& [operations, count] : instances_) {
    const double lanes = static_cast<double>(count * alike) / kLanes;
    out += static_cast<double>(operations) * kKernelOperation * std::max(lanes, 1.0) /
           static_cast<double>(alike);
  }
  return out;
}

double KernelTime::least_seconds() const {
  return static_cast<double>(total_) * kKernelOperation / kLanes;
}

}  // namespace topograd::detail
