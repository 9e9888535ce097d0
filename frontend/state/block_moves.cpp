// Changes the losses of blocks, and moves blocks between groups.
#include "../../ir/error.hpp"
#include "blocks.hpp"

#include <algorithm>

namespace topograd::detail {
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
