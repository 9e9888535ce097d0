// Appends, finds and removes the instances of a problem.
#include "blocks.hpp"
#include "../../ir/error.hpp"
#include "../../ir/topology/topology.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace topograd::detail {
namespace {

/// The group's program as the user wrote it.
ir::Program written(const Group& group) {
  if (is_constraint(group.kind)) return group.plain;
  ir::Program program = group.topology.program;
  program.leaves.uniforms -= group.hidden_uniforms;
  return program;
}

Group make_group(ir::Topology topology, BlockKind kind, std::uint32_t loss_program,
                 std::uint32_t loss_uniforms) {
  ir::Program plain;
  std::uint32_t hidden_data = 0;
  if (is_constraint(kind)) {
    plain = std::move(topology.program);
    topology.program = penalty_program(plain, kind);
    topology.hash = ir::canonicalize(topology.program).topology.hash;
    loss_uniforms = 1;
    hidden_data = 2 * static_cast<std::uint32_t>(plain.outputs.size());
  } else {
    topology.program.leaves.uniforms += loss_uniforms;
  }
  const ir::LeafCounts leaves = topology.program.leaves;
  return {.topology = std::move(topology),
          .kind = kind,
          .loss_program = loss_program,
          .hidden_uniforms = loss_uniforms,
          .hidden_data = hidden_data,
          .plain = std::move(plain),
          .barrier = {},
          .variants = {},
          .batch = ir::Batch(leaves.parameters, leaves.uniforms, leaves.data),
          .runs = {},
          .sources = {},
          .ids = {}};
}

}  // namespace

std::uint32_t Blocks::group_of(const ir::Topology& topology, BlockKind kind,
                               std::uint32_t loss_program) {
  const auto [first, beyond] = group_of_hash_.equal_range(topology.hash);
  for (auto at = first; at != beyond; ++at) {
    const Group& group = groups[at->second];
    if (group.kind == kind && written(group) == topology.program) return at->second;
  }
  const auto number = static_cast<std::uint32_t>(groups.size());
  groups.push_back(make_group(topology, kind, loss_program, losses.uniform_count(loss_program)));
  group_of_hash_.emplace(topology.hash, number);
  return number;
}

std::uint32_t Blocks::variant(std::uint32_t number, std::uint32_t loss_program) {
  if (groups[number].loss_program == loss_program) return number;
  for (const std::uint32_t other : groups[number].variants)
    if (groups[other].loss_program == loss_program) return other;
  const auto added = static_cast<std::uint32_t>(groups.size());
  groups.push_back(make_group({written(groups[number]), groups[number].topology.hash},
                              groups[number].kind, loss_program,
                              losses.uniform_count(loss_program)));
  std::vector<std::uint32_t> family = groups[number].variants;
  family.push_back(number);
  for (const std::uint32_t member : family) groups[member].variants.push_back(added);
  groups[added].variants = std::move(family);
  return added;
}

std::uint64_t Blocks::append(std::uint32_t number, const Row& values, std::uint32_t label,
                             std::uint32_t loss) {
  Group& group = groups[number];
  Ledger& kind = ledger(group.kind);
  const std::uint64_t id = kind.next_id;
  const auto instance = static_cast<std::uint32_t>(group.batch.size());
  const bool plain = group.runs.empty() && label == 0;
  if (!plain && (group.runs.empty() || group.runs.back().label != label))
    group.runs.push_back({id, label});
  if (!values.sources.empty() || !group.sources.empty()) {
    const std::size_t columns = group.batch.data_columns();
    group.sources.resize(std::size_t{instance} * columns, kNoSource);
    group.sources.insert(group.sources.end(), values.sources.begin(), values.sources.end());
    group.sources.resize((std::size_t{instance} + 1) * columns, kNoSource);
  }
  const std::uint64_t row_number = kind.first_row + kind.rows;
  if (group.hidden_uniforms == 0) {
    group.batch.append(values.indices, values.data, row_number);
  } else {
    std::vector<std::uint32_t>& indices = indices_;
    indices.assign(values.indices.begin(), values.indices.end());
    for (std::uint32_t k = 0; k < group.hidden_uniforms; ++k)
      indices.push_back(hidden_uniform(group, loss, k));
    padded_.assign(values.data.begin(), values.data.end());
    for (std::uint32_t k = 0; k < group.hidden_data; ++k)
      padded_.push_back(hidden_number(k, group.hidden_data));
    group.batch.append(indices, padded_, row_number);
  }
  losses.add_users(loss);
  kind.next_id += group.outputs();
  kind.rows += group.outputs();
  ++kind.blocks;
  ++version;
  if (kind.removed_any) {
    group.ids.push_back(id);
    kind.locations.resize(kind.next_id);
    kind.locations[id] = {number, instance};
  }
  return id;
}

std::vector<ir::Batch::NewRows> Blocks::append_many(std::uint32_t number, const Many& many,
                                                    std::uint32_t label, std::uint32_t loss) {
  Group& group = groups[number];
  Ledger& kind = ledger(group.kind);
  const bool plain = group.runs.empty() && label == 0;
  if (!plain && (group.runs.empty() || group.runs.back().label != label))
    group.runs.push_back({many.first_id, label});
  std::vector<ir::Batch::NewRows> added = group.batch.append_rows(many.count);
  if (many.sources)
    group.sources.resize(group.batch.size() * group.batch.data_columns(), kNoSource);
  losses.add_users(loss, many.count);
  kind.next_id += many.count * group.outputs();
  kind.rows += many.count * group.outputs();
  kind.blocks += many.count;
  version += many.count;
  if (kind.removed_any) {
    group.ids.resize(group.batch.size());
    kind.locations.resize(kind.next_id);
  }
  return added;
}

std::uint64_t Blocks::id_of(const Group& group, std::size_t instance) const {
  const bool listed = ledger(group.kind).removed_any;
  return listed ? group.ids[instance] : group.batch.residual_row(instance);
}

Run Blocks::run_of(const Group& group, std::size_t instance) const {
  const auto after = std::upper_bound(group.runs.begin(), group.runs.end(), id_of(group, instance),
                                      [](std::uint64_t id, const Run& run) { return id < run.id; });
  return after == group.runs.begin() ? Run{} : *(after - 1);
}

void Blocks::index_blocks(Ledger& kind) {
  if (kind.removed_any) return;
  kind.locations.resize(kind.next_id);
  for (std::uint32_t k = 0; &kind == &residuals && k < host_blocks.size(); ++k)
    kind.locations[host_blocks[k].id] = {kHostGroup, k};
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    if (&ledger(group.kind) != &kind) continue;
    for (std::uint32_t k = 0; k < group.batch.size(); ++k) {
      // Before the first removal an id is the number of the block's first row.
      group.ids.push_back(group.batch.residual_row(k));
      kind.locations[group.ids.back()] = {g, k};
    }
  }
  kind.removed_any = true;
}

void Blocks::remove(std::uint64_t id, BlockKind block) {
  Ledger& kind = ledger(block);
  index_blocks(kind);
  const bool host = id < kind.locations.size() && kind.locations[id].group == kHostGroup;
  if (!host && (id >= kind.locations.size() || kind.locations[id].group >= groups.size()))
    throw Error(ErrorCode::InvalidArgument,
                "remove: the " + std::string(noun(block)) + " is not there, or was removed before");
  if (host) {
    kind.rows -= host_blocks[kind.locations[id].instance].rows;
    remove_host_block(kind.locations[id].instance);
  } else {
    kind.rows -= groups[kind.locations[id].group].outputs();
    take_out(kind, id);
  }
  --kind.blocks;
  ++version;
  kind.rows_moved = true;
}

void Blocks::remove_host_block(std::uint32_t number) {
  std::vector<Location>& locations = residuals.locations;
  locations[host_blocks[number].id] = {};
  if (number + 1 < host_blocks.size()) {
    host_blocks[number] = std::move(host_blocks.back());
    locations[host_blocks[number].id].instance = number;
  }
  host_blocks.pop_back();
}

std::uint64_t Blocks::append(HostBlock block) {
  const std::uint64_t id = residuals.next_id;
  block.id = id;
  block.row = residuals.rows;
  residuals.next_id += block.rows;
  residuals.rows += block.rows;
  ++residuals.blocks;
  ++version;
  if (residuals.removed_any) {
    residuals.locations.resize(residuals.next_id);
    residuals.locations[id] = {kHostGroup, static_cast<std::uint32_t>(host_blocks.size())};
  }
  host_blocks.push_back(std::move(block));
  return id;
}

void Blocks::take_out(Ledger& kind, std::uint64_t id) {
  const Location at = kind.locations[id];
  Group& group = groups[at.group];
  losses.remove_user(loss_of(group, at.instance));
  const std::size_t columns = group.batch.data_columns();
  const std::size_t moved = group.batch.remove(at.instance);
  kind.locations[group.ids[moved]] = at;
  kind.locations[id] = {};
  group.ids[at.instance] = group.ids[moved];
  group.ids.pop_back();
  if (!group.sources.empty()) {
    std::copy_n(group.sources.begin() + static_cast<std::ptrdiff_t>(moved * columns), columns,
                group.sources.begin() + static_cast<std::ptrdiff_t>(at.instance * columns));
    group.sources.resize(moved * columns);
  }
}

void Blocks::number_rows() {
  if (constraints.blocks > 0 && constraints.first_row != residuals.rows) {
    index_blocks(constraints);
    constraints.first_row = residuals.rows;
    constraints.rows_moved = true;
  }
  for (Ledger* kind : {&residuals, &energies, &constraints}) {
    if (!kind->rows_moved) continue;
    std::uint64_t next = kind->first_row;
    for (const Location& at : kind->locations) {
      if (at.group == kHostGroup) {
        host_blocks[at.instance].row = next;
        next += host_blocks[at.instance].rows;
      }
      if (at.group >= groups.size()) continue;
      groups[at.group].batch.set_residual_row(at.instance, next);
      next += groups[at.group].outputs();
    }
    kind->rows_moved = false;
  }
}

}  // namespace topograd::detail
