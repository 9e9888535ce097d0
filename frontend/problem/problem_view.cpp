// Problem: the calls that a solver makes.
#include "../../ir/error.hpp"
#include "../problem.hpp"
#include "callables.hpp"
#include "problem_state.hpp"

#include <algorithm>
#include <string>

namespace topograd {
namespace {

void check_size(const char* call, std::size_t size, std::size_t expected) {
  if (size != expected)
    throw Error(ErrorCode::Shape, std::string(call) + ": expected " + std::to_string(expected) +
                                      " numbers, got " + std::to_string(size));
}

}  // namespace

std::size_t Problem::parameter_count() const { return whole(state_).unknowns.scalars(); }
std::size_t Problem::residual_count() const { return whole(state_).blocks.residuals.rows; }
std::size_t Problem::residual_block_count() const { return whole(state_).blocks.residuals.blocks; }
std::size_t Problem::energy_count() const { return whole(state_).blocks.energies.blocks; }
std::size_t Problem::constraint_count() const { return whole(state_).blocks.constraints.rows; }
std::size_t Problem::topology_count() const { return whole(state_).blocks.groups.size(); }

const ir::Topology& Problem::topology(std::size_t t) const {
  return whole(state_).blocks.groups[t].topology;
}

BlockKind Problem::kind(std::size_t t) const { return whole(state_).blocks.groups[t].kind; }
bool Problem::is_energy(std::size_t t) const {
  return whole(state_).blocks.groups[t].kind == BlockKind::energy;
}

const ir::Batch& Problem::batch(std::size_t t) const {
  whole(state_).blocks.number_rows();
  return whole(state_).blocks.groups[t].batch;
}

std::string_view Problem::label(std::size_t t) const {
  for (const detail::Run& run : whole(state_).blocks.groups[t].runs)
    if (run.label != 0) return whole(state_).labels.text(run.label);
  return {};
}

std::string_view Problem::label(std::size_t t, std::size_t instance) const {
  const detail::ProblemState& state = whole(state_);
  return state.labels.text(state.blocks.run_of(state.blocks.groups[t], instance).label);
}

const ir::Program* Problem::loss_program(std::size_t t) const {
  return whole(state_).blocks.losses.program(whole(state_).blocks.groups[t].loss_program);
}

Loss Problem::loss(std::size_t t, std::size_t instance) const {
  return whole(state_)
      .blocks.losses[whole(state_).blocks.loss_of(whole(state_).blocks.groups[t], instance)]
      .loss;
}

std::span<const ParameterArray> Problem::arrays() const { return whole(state_).unknowns.arrays(); }
std::span<const double> Problem::uniforms() const { return whole(state_).uniforms; }
std::span<const std::uint8_t> Problem::constant_mask() const {
  return whole(state_).unknowns.constants();
}
std::span<const double> Problem::lower_bounds() const { return whole(state_).unknowns.lower(); }
std::span<const double> Problem::upper_bounds() const { return whole(state_).unknowns.upper(); }
bool Problem::has_manifolds() const { return whole(state_).unknowns.has_manifolds(); }
const Manifold* Problem::manifold(std::size_t array, std::size_t block) const {
  return whole(state_).unknowns.manifold(array, block);
}
std::span<const HostBlock> Problem::host_blocks() const {
  detail::ProblemState& state = whole(state_);
  state.shared_rows.settle(state, false);
  state.blocks.number_rows();
  return state.blocks.host_blocks;
}
std::string_view Problem::host_label(std::size_t block) const {
  return whole(state_).labels.text(whole(state_).blocks.host_blocks[block].label);
}
Versions Problem::versions() const {
  const detail::ProblemState& state = whole(state_);
  Versions versions = state.versions;
  versions.structure += state.blocks.version;
  versions.constants = state.unknowns.version();
  return versions;
}

void Problem::read_x(std::span<double> x) const {
  check_size("read_x", x.size(), whole(state_).unknowns.scalars());
  whole(state_).unknowns.check_lenders();
  for (const ParameterArray& a : whole(state_).unknowns.arrays()) {
    const std::size_t count = std::size_t{a.blocks} * a.width;
    if (a.values == nullptr) {
      std::fill_n(x.data() + a.offset, count, 0.0);
    } else {
      std::copy_n(a.values, count, x.data() + a.offset);
    }
  }
}

void Problem::write_x(std::span<const double> x) const {
  check_size("write_x", x.size(), whole(state_).unknowns.scalars());
  for (const ParameterArray& a : whole(state_).unknowns.arrays())
    if (a.values != nullptr)
      std::copy_n(x.data() + a.offset, std::size_t{a.blocks} * a.width, a.values);
}

Place Problem::locate(std::uint64_t row) const {
  for (std::size_t t = 0; t < topology_count(); ++t) {
    if (kind(t) != BlockKind::residual) continue;
    const ir::Batch& instances = batch(t);
    const std::uint64_t outputs = whole(state_).blocks.groups[t].outputs();
    for (std::size_t k = 0; k < instances.size(); ++k) {
      const std::uint64_t output = row - instances.residual_row(k);
      if (output < outputs) return {t, k, static_cast<std::uint32_t>(output), label(t, k)};
    }
  }
  for (std::size_t k = 0; k < host_blocks().size(); ++k) {
    const HostBlock& block = whole(state_).blocks.host_blocks[k];
    if (row - block.row < block.rows)
      return {Place::kHost, k, static_cast<std::uint32_t>(row - block.row), host_label(k)};
  }
  throw Error(ErrorCode::InvalidArgument,
              "locate: row " + detail::index_text(row) + " is out of range (problem has " +
                  std::to_string(whole(state_).blocks.residuals.rows) + ")");
}

TraceStatistics Problem::statistics() const {
  TraceStatistics statistics = whole(state_).statistics;
  statistics.residual_blocks = whole(state_).blocks.residuals.blocks;
  statistics.energies = whole(state_).blocks.energies.blocks;
  return statistics;
}

std::size_t Problem::bytes() const {
  const detail::ProblemState& s = whole(state_);
  const std::size_t locations = s.blocks.residuals.locations.capacity() +
                                s.blocks.energies.locations.capacity() +
                                s.blocks.constraints.locations.capacity();
  std::size_t total = s.data.bytes() + s.uniforms.capacity() * 8 +
                      s.unknowns.constants().capacity() + locations * sizeof(detail::Location);
  for (const detail::RawShapes& shapes : s.raw_shapes) total += shapes.bytes();
  for (const auto& callables : s.callables)
    if (callables != nullptr)
      for (const auto& [id, map] : callables->maps) total += map->bytes();
  for (const detail::Group& g : s.blocks.groups) {
    total += g.batch.bytes() + g.runs.capacity() * sizeof(detail::Run) +
             g.sources.capacity() * sizeof(std::uint32_t) + g.ids.capacity() * 8;
  }
  return total;
}

}  // namespace topograd
