// Instances of a problem: appending, finding and removing them.
#include <topograd/frontend/problem_state.hpp>

#include <algorithm>

namespace topograd::detail {

Caller ProblemState::caller(std::string_view call, std::string_view label, bool energy) const {
  return {.call = call,
          .label = label,
          .number = ledger(energy).blocks,
          .problem = serial,
          .parameters = scalars,
          .uniforms = uniforms.size(),
          .data = data.size(),
          .energy = energy};
}

std::uint32_t ProblemState::group_of(const ir::Canonical& canonical, bool energy) {
  const ir::Topology& topology = canonical.topology;
  const auto [first, beyond] = group_of_hash.equal_range(topology.hash);
  for (auto at = first; at != beyond; ++at) {
    const Group& group = groups[at->second];
    if (group.energy == energy && group.topology.program == topology.program) return at->second;
  }
  const auto number = static_cast<std::uint32_t>(groups.size());
  const ir::LeafCounts& leaves = topology.program.leaves;
  groups.push_back(
      {topology, energy, ir::Batch(leaves.parameters, leaves.uniforms, leaves.data), {}, {}, {}});
  group_of_hash.emplace(topology.hash, number);
  if (!canonical.exact) ++statistics.canonical_misses;
  return number;
}

std::uint32_t ProblemState::label_number(std::string_view label) {
  if (label.empty()) return 0;
  const auto known = label_numbers.find(label);
  if (known != label_numbers.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(labels.size());
  labels.emplace_back(label);
  label_numbers.emplace(labels.back(), number);
  return number;
}

std::uint64_t ProblemState::append(std::uint32_t number, const Row& values, std::uint32_t label,
                                   Loss loss) {
  Group& group = groups[number];
  Ledger& kind = ledger(group.energy);
  const std::uint64_t id = kind.next_id;
  const auto instance = static_cast<std::uint32_t>(group.batch.size());
  const bool plain = group.runs.empty() && label == 0 && loss == Loss{};
  if (!plain &&
      (group.runs.empty() || group.runs.back().label != label || group.runs.back().loss != loss))
    group.runs.push_back({id, label, loss});
  if (!values.sources.empty() || !group.sources.empty()) {
    group.sources.resize(std::size_t{instance} * values.data.size(), kNoSource);
    group.sources.insert(group.sources.end(), values.sources.begin(), values.sources.end());
    group.sources.resize((std::size_t{instance} + 1) * values.data.size(), kNoSource);
  }
  group.batch.append(values.indices, values.data, kind.rows);
  kind.next_id += group.outputs();
  kind.rows += group.outputs();
  ++kind.blocks;
  ++versions.structure;
  if (kind.removed_any) {
    group.ids.push_back(id);
    kind.locations.resize(kind.next_id);
    kind.locations[id] = {number, instance};
  }
  return id;
}

std::uint64_t ProblemState::id_of(const Group& group, std::size_t instance) const {
  const bool listed = ledger(group.energy).removed_any;
  return listed ? group.ids[instance] : group.batch.residual_row(instance);
}

Run ProblemState::run_of(const Group& group, std::size_t instance) const {
  const auto after = std::upper_bound(group.runs.begin(), group.runs.end(), id_of(group, instance),
                                      [](std::uint64_t id, const Run& run) { return id < run.id; });
  return after == group.runs.begin() ? Run{} : *(after - 1);
}

void ProblemState::index_blocks(bool energy) {
  Ledger& kind = ledger(energy);
  kind.locations.resize(kind.next_id);
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    if (group.energy != energy) continue;
    for (std::uint32_t k = 0; k < group.batch.size(); ++k) {
      // Before the first removal an id is the number of the block's first row.
      group.ids.push_back(group.batch.residual_row(k));
      kind.locations[group.ids.back()] = {g, k};
    }
  }
  kind.removed_any = true;
}

void ProblemState::remove(std::uint64_t id, bool energy) {
  Ledger& kind = ledger(energy);
  if (!kind.removed_any) index_blocks(energy);
  if (id >= kind.locations.size() || kind.locations[id].group >= groups.size())
    throw Error(ErrorCode::InvalidArgument, std::string("remove: the ") +
                                                (energy ? "energy" : "residual") +
                                                " is not there, or was removed before");
  const Location at = kind.locations[id];
  Group& group = groups[at.group];
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
  kind.rows -= group.outputs();
  --kind.blocks;
  ++versions.structure;
  kind.rows_moved = true;
}

void ProblemState::number_rows() {
  for (Ledger* kind : {&residuals, &energies}) {
    if (!kind->rows_moved) continue;
    std::uint64_t next = 0;
    for (const Location& at : kind->locations) {
      if (at.group >= groups.size()) continue;
      groups[at.group].batch.set_residual_row(at.instance, next);
      next += groups[at.group].outputs();
    }
    kind->rows_moved = false;
  }
}

}  // namespace topograd::detail
