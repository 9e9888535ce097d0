// Appends, finds and removes a problem's instances; losses, labels, and outputs of constraints.
#include "blocks.hpp"

#include "../../ir/error.hpp"
#include "../../ir/program.hpp"
#include "../../ir/topology/topology.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace topograd::detail {
namespace {

std::uint64_t hash_of(std::uint32_t program, std::span<const double> uniforms) {
  std::uint64_t hash = program;
  for (const double u : uniforms) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(u)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

/// Number of an equal program, + 1; the program is added if there is none.
std::uint32_t program_number(std::deque<ir::Program>& programs, const ir::Program& program) {
  const auto known = std::find(programs.begin(), programs.end(), program);
  const auto number = static_cast<std::uint32_t>(known - programs.begin());
  if (known == programs.end()) programs.push_back(program);
  return number + 1;
}

}  // namespace

std::uint32_t Labels::number(std::string_view text) {
  if (text.empty()) return 0;
  if (texts_[last_] == text) return last_;  // loops repeat their label
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return last_ = known->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  texts_.emplace_back(text);
  numbers_.emplace(texts_.back(), number);
  return last_ = number;
}

std::uint32_t LossTable::entry(const char* call, const Loss& loss, std::vector<double>& uniforms,
                               bool built_in) {
  if (loss.is_trivial() && !built_in) return kTrivialLoss;
  if (last_ != kTrivialLoss && entries_[last_].loss == loss) return last_;
  if (loss.is_host())
    throw Error(ErrorCode::Unsupported,
                std::string(call) + ": the loss " + loss.describe() +
                    " is opaque code; only host residuals can have it, write it with Loss::custom");
  const std::vector<double> numbers = loss.uniforms();
  const std::uint32_t program = program_number(programs_, *loss.program());
  const std::uint64_t hash = hash_of(program, numbers);
  const auto [first, beyond] = by_hash_.equal_range(hash);
  for (auto at = first; at != beyond; ++at)
    if (entries_[at->second].program == program && entries_[at->second].loss == loss)
      return last_ = at->second;
  last_ = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({loss, program, static_cast<std::uint32_t>(uniforms.size()), 0});
  by_hash_.emplace(hash, last_);
  uniforms.insert(uniforms.end(), numbers.begin(), numbers.end());
  return last_;
}

void LossTable::replace(std::uint32_t number, const Loss& loss, std::vector<double>& uniforms) {
  LossEntry& entry = entries_[number];
  const std::vector<double> numbers = loss.uniforms();
  const std::uint64_t hash =
      hash_of(entry.program, std::span(uniforms).subspan(entry.first_uniform, numbers.size()));
  std::erase_if(by_hash_,
                [&](const auto& item) { return item.first == hash && item.second == number; });
  std::ranges::copy(numbers, uniforms.begin() + entry.first_uniform);
  by_hash_.emplace(hash_of(entry.program, numbers), number);
  entry.loss = loss;
}

void LossTable::add_users(std::uint32_t entry, std::uint64_t count) {
  if (entry != kTrivialLoss) entries_[entry].users += count;
}

void LossTable::remove_user(std::uint32_t entry) {
  if (entry != kTrivialLoss) --entries_[entry].users;
}

std::uint32_t LossTable::at_uniform(std::uint32_t uniform) const {
  const auto after = std::upper_bound(
      entries_.begin() + 1, entries_.end(), uniform,
      [](std::uint32_t u, const LossEntry& entry) { return u < entry.first_uniform; });
  return static_cast<std::uint32_t>(after - entries_.begin()) - 1;
}

std::uint32_t LossTable::uniform_count(std::uint32_t program) const {
  return program == 0 ? 0 : programs_[program - 1].leaves.uniforms;
}

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

ir::Program penalty_program(const ir::Program& plain, BlockKind kind) {
  ir::Graph graph;
  const std::vector<ir::Id> moved = ir::append(graph, plain);
  ir::LeafCounts leaves = plain.leaves;
  const ir::Id weight = graph.leaf(ir::Op::Uniform, leaves.uniforms++);
  const std::uint32_t shifts = leaves.data;
  const auto rows = static_cast<std::uint32_t>(plain.outputs.size());
  leaves.data += 2 * rows;
  std::vector<ir::Id> outputs;
  for (std::uint32_t k = 0; k < rows; ++k) {
    const ir::Id shift = graph.leaf(ir::Op::Data, shifts + k);
    const ir::Id scale = graph.leaf(ir::Op::Data, shifts + rows + k);
    const ir::Id scaled = graph.add(ir::Op::Mul, scale, moved[plain.outputs[k]]);
    ir::Id distance = graph.add(ir::Op::Sub, shift, scaled);
    if (kind == BlockKind::inequality) distance = graph.add(ir::Op::Relu, distance);
    outputs.push_back(graph.add(ir::Op::Mul, weight, distance));
  }
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : plain.guards)
    guards.push_back({moved[guard.condition], guard.expected});
  return graph.extract(outputs, leaves, guards);
}

ir::Program barrier_program(const ir::Program& plain) {
  ir::Graph graph;
  const std::vector<ir::Id> moved = ir::append(graph, plain);
  ir::LeafCounts leaves = plain.leaves;
  const ir::Id weight = graph.leaf(ir::Op::Uniform, leaves.uniforms++);
  ir::Id sum = ir::kNone;
  for (const ir::Id output : plain.outputs) {
    const ir::Id shift = graph.leaf(ir::Op::Data, leaves.data++);
    const ir::Id log = graph.add(ir::Op::Log, graph.add(ir::Op::Add, moved[output], shift));
    sum = sum == ir::kNone ? log : graph.add(ir::Op::Add, sum, log);
  }
  leaves.data += static_cast<std::uint32_t>(plain.outputs.size());  // the scales
  const ir::Id zero = graph.literal(0);
  const ir::Id energy =
      graph.add(ir::Op::Select, graph.add(ir::Op::Ne, weight, zero),
                graph.add(ir::Op::Neg, graph.add(ir::Op::Mul, weight, sum)), zero);
  std::vector<ir::Guard> guards;
  for (const ir::Guard& guard : plain.guards)
    guards.push_back({moved[guard.condition], guard.expected});
  return graph.extract(std::vector<ir::Id>{energy}, leaves, guards);
}

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

namespace {

std::uint32_t label_at(const Group& group, std::uint64_t id) {
  const auto after = std::upper_bound(group.runs.begin(), group.runs.end(), id,
                                      [](std::uint64_t i, const Run& run) { return i < run.id; });
  return after == group.runs.begin() ? 0 : (after - 1)->label;
}

/// Sets the label of one id; the labels of other ids stay.
void set_label(Group& group, std::uint64_t id, std::uint32_t label) {
  const std::uint32_t before = label_at(group, id), next = label_at(group, id + 1);
  if (before == label) return;
  std::erase_if(group.runs, [&](const Run& run) { return run.id == id || run.id == id + 1; });
  const auto at = std::lower_bound(group.runs.begin(), group.runs.end(), id,
                                   [](const Run& run, std::uint64_t i) { return run.id < i; });
  group.runs.insert(at, {Run{id, label}, Run{id + 1, next}});
}

}  // namespace

std::uint32_t Blocks::loss_of(const Group& group, std::size_t instance) const {
  if (group.loss_program == 0) return kTrivialLoss;
  const std::uint32_t column = group.batch.index_columns() - group.hidden_uniforms;
  return losses.at_uniform(group.batch.index(instance, column));
}

void Blocks::set_loss(std::uint64_t first, std::uint64_t last, const Loss& loss,
                      std::vector<double>& uniforms) {
  index_blocks(residuals);
  const std::vector<Location>& locations = residuals.locations;
  std::vector<std::uint64_t> traced;
  std::vector<std::uint32_t> host;
  for (std::uint64_t id = first; id < last && id < locations.size(); ++id) {
    if (locations[id].group < groups.size()) traced.push_back(id);
    if (locations[id].group == kHostGroup) host.push_back(locations[id].instance);
  }
  if (traced.empty() && host.empty())
    throw Error(ErrorCode::InvalidArgument,
                "set_loss: the residual is not there, or was removed before");
  if (!traced.empty() && loss.is_host()) losses.entry("set_loss", loss, uniforms);  // throws
  for (const std::uint32_t k : host) host_blocks[k].loss = loss;
  if (!host.empty()) ++version;
  if (!traced.empty()) set_traced_loss(traced, loss, uniforms);
}

void Blocks::set_traced_loss(std::span<const std::uint64_t> traced, const Loss& loss,
                             std::vector<double>& uniforms) {
  const std::vector<Location>& locations = residuals.locations;
  const auto entry_of = [&](std::uint64_t id) {
    return loss_of(groups[locations[id].group], locations[id].instance);
  };
  const std::uint32_t old = entry_of(traced.front());
  const bool one = std::ranges::all_of(traced, [&](auto id) { return entry_of(id) == old; });
  const bool in_place = one && old != kTrivialLoss && losses[old].users == traced.size() &&
                        *loss.program() == *losses.program(losses[old].program);
  if (in_place) {
    losses.replace(old, loss, uniforms);
    return;
  }
  for (const std::uint64_t id : traced) {
    // A block that loses its loss stays in its group, whose kernels exist.
    const ir::Program* const program = losses.program(groups[locations[id].group].loss_program);
    const bool built_in = program != nullptr && *program == *Loss().program();
    move_instance(id, losses.entry("set_loss", loss, uniforms, built_in));
  }
  ++version;
}

void Blocks::move_instance(std::uint64_t id, std::uint32_t to) {
  Ledger& kind = residuals;
  const Location at = kind.locations[id];
  Group& from = groups[at.group];
  const std::uint32_t before = loss_of(from, at.instance);
  const std::uint32_t columns = from.batch.index_columns() - from.hidden_uniforms;
  if (from.loss_program == losses[to].program) {
    for (std::uint32_t k = 0; k < from.hidden_uniforms; ++k)
      from.batch.set_index(at.instance, columns + k, losses[to].first_uniform + k);
    losses.remove_user(before);
    losses.add_users(to);
    return;
  }
  move_block(id, variant(at.group, losses[to].program), row_of(at), to);
}

Location Blocks::locate(std::uint64_t id, BlockKind kind) {
  index_blocks(ledger(kind));
  return ledger(kind).locations[id];
}

Row Blocks::row_of(const Location& at) const {
  const Group& group = groups[at.group];
  const std::uint32_t columns = group.batch.index_columns() - group.hidden_uniforms;
  const std::size_t stored = group.batch.data_columns(), numbers = stored - group.hidden_data;
  Row values;
  for (std::uint32_t k = 0; k < columns; ++k)
    values.indices.push_back(group.batch.index(at.instance, k));
  for (std::uint32_t k = 0; k < numbers; ++k) {
    values.data.push_back(group.batch.data(at.instance, k));
    if (!group.sources.empty()) values.sources.push_back(group.sources[at.instance * stored + k]);
  }
  return values;
}

void Blocks::move(std::uint64_t id, std::uint32_t group, const Row& values) {
  const Location at = locate(id, groups[group].kind);
  const std::uint32_t loss = loss_of(groups[at.group], at.instance);
  move_block(id, variant(group, losses[loss].program), values, loss);
  ++version;
}

void Blocks::move_block(std::uint64_t id, std::uint32_t target, const Row& values,
                        std::uint32_t loss) {
  Ledger& kind = ledger(groups[target].kind);
  const Location at = kind.locations[id];
  const Kept kept{id, groups[at.group].batch.residual_row(at.instance),
                  label_at(groups[at.group], id)};
  take_out(kind, id);
  append_kept(kind, kept, target, values, loss);
}

HostBlock* Blocks::change_host_block(std::uint64_t id) {
  index_blocks(residuals);
  number_rows();
  const Location at = residuals.locations[id];
  if (at.group != kHostGroup) return nullptr;
  ++version;
  return &host_blocks[at.instance];
}

std::optional<HostBlock> Blocks::take_host_block(std::uint64_t id) {
  HostBlock* const found = change_host_block(id);
  if (found == nullptr) return std::nullopt;
  HostBlock block = *found;
  remove_host_block(residuals.locations[id].instance);
  return block;
}

void Blocks::put_back(const HostBlock& block, std::uint32_t group, const Row& values,
                      std::uint32_t loss) {
  append_kept(residuals, {block.id, block.row, block.label}, group, values, loss);
  ++version;
}

void Blocks::put_back_on_host(std::uint64_t id, std::vector<HostBlock> blocks) {
  take_out(residuals, id);
  for (HostBlock& block : blocks) {
    residuals.locations[block.id] = {kHostGroup, static_cast<std::uint32_t>(host_blocks.size())};
    host_blocks.push_back(std::move(block));
  }
  ++version;
}

void Blocks::append_kept(Ledger& kind, const Kept& kept, std::uint32_t target, const Row& values,
                         std::uint32_t loss) {
  // append() assigns new numbers; this block keeps its id, row and label.
  const std::uint64_t ids = kind.next_id, all_rows = kind.rows;
  append(target, values, label_at(groups[target], kind.next_id), loss);
  Group& group = groups[target];
  const std::size_t instance = group.batch.size() - 1;
  kind.next_id = ids;
  kind.rows = all_rows;
  --kind.blocks;
  kind.locations.resize(kind.next_id);
  kind.locations[kept.id] = {target, static_cast<std::uint32_t>(instance)};
  group.ids[instance] = kept.id;
  group.batch.set_residual_row(instance, kept.first_row);
  set_label(group, kept.id, kept.label);
}

}  // namespace topograd::detail
