// Evaluates long residual blocks, and makes them instances of topologies where these serve better.
#include "long_block.hpp"
#include "../traced_function.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <utility>

namespace topograd::detail {
namespace {

/// The block of unknowns that contains a scalar: its first scalar and its width.
std::pair<std::uint32_t, std::uint32_t> block_of(const Unknowns& unknowns, std::uint32_t scalar) {
  const ParameterArray& array = unknowns.arrays()[unknowns.array_number(scalar)];
  const std::uint32_t coordinate = (scalar - array.offset) % array.width;
  return {scalar - coordinate, array.width};
}

}  // namespace

LongBlock::LongBlock(const ProblemState& state, const RawTape& raw, const PlainProgram& plain)
    : state_(state),
      nodes_(raw.nodes.begin(), raw.nodes.end()),
      rows_(raw.rows.begin(), raw.rows.end()),
      sweep_(plain.program),
      uniforms_(plain.uniforms) {
  for (const std::uint32_t scalar : plain.parameters) {  // ascending
    const auto [offset, width] = block_of(state.unknowns, scalar);
    if (arguments_.offsets.empty() || arguments_.offsets.back() != offset) {
      arguments_.offsets.push_back(offset);
      arguments_.widths.push_back(width);
    }
    places_.push_back({static_cast<std::uint32_t>(arguments_.offsets.size() - 1), scalar - offset});
  }
  for (const std::uint32_t node : plain.data) {
    const TapeNode& leaf = nodes_[node];
    const bool bound = (leaf.head & kBound) != 0;
    data_.push_back({bound ? 0 : number_of(leaf), bound ? leaf.a : 0, bound});
  }
}

std::size_t LongBlock::bytes() const {
  return sizeof(*this) + nodes_.capacity() * sizeof(TapeNode) + sweep_.bytes() +
         places_.capacity() * sizeof(Place) + data_.capacity() * sizeof(Datum) +
         (rows_.capacity() + uniforms_.capacity()) * sizeof(std::uint32_t);
}

bool LongBlock::evaluate(const double* const* blocks, double* residuals, double** jacobians) const {
  struct Numbers {
    std::vector<double> parameters, data, uniforms;
    std::vector<autodiff::NodeSweep::Column> columns;
    autodiff::NodeSweep::Workspace work;
  };
  thread_local Numbers numbers;
  numbers.parameters.clear();
  for (const Place& place : places_)
    numbers.parameters.push_back(blocks[place.argument][place.coordinate]);
  const std::span<const double> entries =
      state_.data.size() == 0 ? std::span<const double>() : state_.data.numbers();
  numbers.data.clear();
  for (const Datum& datum : data_)
    numbers.data.push_back(datum.bound ? entries[datum.entry] : datum.number);
  numbers.uniforms.clear();
  for (const std::uint32_t uniform : uniforms_)
    numbers.uniforms.push_back(state_.uniforms[uniform]);
  const ir::Inputs<double> in{.parameters = numbers.parameters,
                              .data = numbers.data,
                              .uniforms = numbers.uniforms,
                              .tangents = {},
                              .seeds = {}};
  const std::span<double> out(residuals, rows_.size());
  if (jacobians == nullptr) {
    sweep_.evaluate(in, out, numbers.work);
    return true;
  }
  for (std::size_t k = 0; k < arguments_.widths.size(); ++k)
    if (jacobians[k] != nullptr)
      std::fill_n(jacobians[k], rows_.size() * arguments_.widths[k], 0.0);
  numbers.columns.clear();
  for (const Place& place : places_) {
    double* const first = jacobians[place.argument];
    numbers.columns.push_back(
        {first == nullptr ? nullptr : first + place.coordinate, arguments_.widths[place.argument]});
  }
  sweep_.linearize(in, out, numbers.columns, numbers.work);
  return true;
}

std::optional<std::uint64_t> LongBlocks::add(ProblemState& state, const RawTape& raw,
                                             const ResidualOptions& options, const Caller& caller) {
  if (raw.nodes.size() < kLeastNodes || !raw.guards.empty() || KernelsOnly::in_force())
    return std::nullopt;
  const std::uint64_t hash = shape_hash(raw);
  if (seen_[hash] >= kMostAlike) {
    trace(state, hash);
    return std::nullopt;
  }
  const PlainProgram plain = plain_program(
      raw, [](const TapeNode& node) { return node.a; }, caller);
  if (plain.parameters.size() > kMostUnknowns ||
      plain.parameters.size() * raw.rows.size() > kMostDerivatives)
    return std::nullopt;
  auto block = std::make_shared<const LongBlock>(state, raw, plain);
  const std::string_view label = options.label.empty() ? "long expression" : options.label;
  const std::uint64_t id =
      state.blocks.append(HostBlock{.function = block,
                                    .offsets = block->arguments().offsets,
                                    .widths = block->arguments().widths,
                                    .rows = static_cast<std::uint32_t>(raw.rows.size()),
                                    .loss = options.loss,
                                    .label = state.labels.number(label)});
  added_.push_back({std::move(block), id, hash});
  ++seen_[hash];
  return id;
}

void LongBlocks::trace(ProblemState& state, std::optional<std::uint64_t> hash) {
  for (const Added& added : added_) {
    if (hash && added.hash != *hash) continue;
    const std::optional<HostBlock> block = state.blocks.take_host_block(added.block.get());
    if (!block) continue;  // it was removed
    const std::uint32_t loss = state.loss_entry("add_residual", block->loss);
    const std::uint32_t program = state.blocks.losses[loss].program;
    const Caller caller = state.caller("add_residual", state.labels.text(block->label));
    const std::uint32_t group = match_tape(state, added.block->tape(), caller, program);
    state.blocks.put_back(*block, state.blocks.variant(group, program), state.tracing.row, loss);
  }
  std::erase_if(added_, [&](const Added& added) { return !hash || added.hash == *hash; });
}

void LongBlocks::settle(ProblemState& state) {
  if (added_.empty()) return;
  std::uint64_t own = 0, others = 0;
  for (const Added& added : added_) own += added.block->operations();
  for (const Group& group : state.blocks.groups)
    others += group.batch.size() * ir::operation_count(group.topology.program);
  if (others > own) trace(state);
}

}  // namespace topograd::detail
