// The state of a problem, and instances of topologies from the rows of residuals.
#include "problem_state.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "callables.hpp"

namespace topograd::detail {
namespace {

/// The entries of a column's rows, relative to an array of `size` numbers that begins at entry
/// `first`; null if a row's number does not come from this array.
ir::ResidentColumn::Indices indices_of(const Group& group, std::uint32_t column,
                                       std::uint32_t first, std::size_t size) {
  const std::size_t rows = group.batch.size(), columns = group.batch.data_columns();
  if (rows == 0 || group.sources.empty()) return nullptr;
  auto indices = std::make_shared<std::vector<std::uint32_t>>(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint32_t index = group.sources[i * columns + column] - first;
    if (index >= size) return nullptr;
    (*indices)[i] = index;
  }
  return indices;
}

/// The first node of the open segment, whose nodes may all belong to the residual.
std::uint64_t open_segment() { return tape.mark - tape.tag; }

/// The tape's open segment as the residual's raw tape; false if a row lies before it.
bool rows_in_open_segment(ProblemState& state, std::span<const Value> rows) {
  const std::uint64_t size = tape.size - open_segment();
  state.tracing.raw_rows.resize(rows.size());
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const std::uint64_t position = rows[k].bits() - tape.mark;
    if (position >= size) return false;
    state.tracing.raw_rows[k] = static_cast<std::uint32_t>(position);
  }
  state.tracing.raw_guards.clear();
  if (tape.branches == 0) return true;
  for (const BranchMark& branch : open_branches()) {
    if (branch.condition < open_segment()) return false;
    state.tracing.raw_guards.push_back(
        {static_cast<std::uint32_t>(branch.condition - open_segment()), branch.taken});
  }
  return true;
}

RawTape open_tape(const ProblemState& state) {
  return {{tape.nodes + open_segment(), tape.size - open_segment()},
          state.tracing.raw_rows,
          state.tracing.raw_guards};
}

/// Stores the open segment as another way to trace the slots of `leaves` (of the compact tape).
void remember_open_tape(ProblemState& state, std::span<const Value> rows, const LeafMap& leaves,
                        std::uint32_t group, BlockKind kind) {
  const std::span<const std::uint64_t> ids = state.tracing.compact.ids();
  const std::uint64_t size = tape.size - open_segment();
  const bool worth_it = size > ids.size() && size <= 2 * ids.size() + 64;
  if (!worth_it || ids.front() < open_segment() || !rows_in_open_segment(state, rows)) return;
  state.shapes(kind).add(open_tape(state), leaves.moved(ids, open_segment()), group);
}

/// The nodes that the rows need, also from before the open segment, and no others.
void collect_nodes(ProblemState& state, std::span<const Value> rows, const Caller& caller) {
  state.tracing.compact.assign(row_nodes(rows, caller));
  ++state.statistics.slow_matches;
  state.statistics.nodes_traced += state.tracing.compact.view().nodes.size();
}

/// Matches the nodes that were collected.
std::uint32_t match_slowly(ProblemState& state, std::span<const Value> rows, const Caller& caller,
                           std::uint32_t loss_program) {
  LeafMap leaves;
  const std::uint32_t group =
      match_tape(state, state.tracing.compact.view(), caller, loss_program, &leaves);
  remember_open_tape(state, rows, leaves, group, caller.block);
  return group;
}

}  // namespace

ProblemState::ProblemState() : serial(next_serial()) { enter_problem(*this); }
ProblemState::~ProblemState() { leave_problem(*this); }

Callables& ProblemState::callables_of(BlockKind kind) {
  std::unique_ptr<Callables>& kept = callables[static_cast<std::size_t>(kind)];
  if (kept == nullptr) kept = std::make_unique<Callables>();
  return *kept;
}

Caller ProblemState::caller(std::string_view call, std::string_view label, BlockKind kind) const {
  return {.call = call,
          .label = label,
          .number = blocks.ledger(kind).blocks,
          .problem = serial,
          .parameters = unknowns.scalars(),
          .uniforms = uniforms.size(),
          .data = data.size(),
          .block = kind,
          .state = this};
}

std::uint32_t ProblemState::group_of(const ir::Canonical& canonical, BlockKind kind,
                                     std::uint32_t loss_program) {
  if (is_constraint(kind) && blocks.penalty_uniform == kNoUniform) {
    blocks.penalty_uniform = static_cast<std::uint32_t>(uniforms.size());
    uniforms.insert(uniforms.end(), {0, 0});
    ++versions.uniforms;
  }
  const std::size_t before = blocks.groups.size();
  const std::uint32_t group = blocks.group_of(canonical.topology, kind, loss_program);
  if (blocks.groups.size() > before && !canonical.exact) ++statistics.canonical_misses;
  return group;
}

std::uint32_t ProblemState::loss_entry(const char* call, const Loss& loss) {
  const std::size_t before = uniforms.size();
  const std::uint32_t entry = blocks.losses.entry(call, loss, uniforms);
  if (uniforms.size() > before) ++versions.uniforms;
  return entry;
}

void ProblemState::set_loss(std::uint64_t first, std::uint64_t last, const Loss& loss) {
  blocks.set_loss(first, last, loss, uniforms);
  ++versions.uniforms;
}

void ProblemState::set_data(std::uint32_t first, std::span<const double> values) {
  data.set(first, values);
  for (Group& group : blocks.groups) {
    const std::uint32_t columns = group.batch.data_columns();
    for (std::uint32_t c = 0; c < columns; ++c) {
      const ir::ResidentColumn* const resident = group.batch.resident(c);
      if (resident && group.sources[c] - first < values.size()) group.batch.forget_resident(c);
    }
    for (std::size_t k = 0; k < group.sources.size(); ++k) {
      const std::uint32_t entry = group.sources[k] - first;
      if (entry >= values.size()) continue;
      group.batch.set_data(k / columns, static_cast<std::uint32_t>(k % columns), values[entry]);
    }
  }
  ++versions.data;
}

/// A column whose rows all come from this array reads the numbers in place; others get copies.
void ProblemState::set_data(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values) {
  const std::size_t size = values->size();
  for (Group& group : blocks.groups) {
    const std::uint32_t columns = group.batch.data_columns();
    for (std::uint32_t c = 0; c < columns; ++c) {
      const bool reads = [&] {
        for (std::size_t k = c; k < group.sources.size(); k += columns) {
          if (group.sources[k] - first < size) return true;
        }
        return false;
      }();
      if (!reads) continue;
      const ir::ResidentColumn* const before = group.batch.resident(c);
      ir::ResidentColumn::Indices indices =
          before ? before->indices : indices_of(group, c, first, size);
      if (!indices) return set_data(first, std::span<const double>(values->read()));
      group.batch.set_resident(c, {values, std::move(indices)});
    }
  }
  data.set(first, std::move(values));
  ++versions.data;
}

void DataArrays::append(std::span<const double> values) {
  numbers_.insert(numbers_.end(), values.begin(), values.end());
}

void DataArrays::forget(std::uint32_t first) {
  std::erase_if(away_, [first](const Resident& resident) { return resident.first == first; });
  all_here_ = away_.empty();
}

void DataArrays::set(std::uint32_t first, std::span<const double> values) {
  std::ranges::copy(values, numbers_.begin() + first);
  forget(first);
}

void DataArrays::set(std::uint32_t first, std::shared_ptr<const ir::ResidentData> values) {
  forget(first);
  away_.push_back({first, std::move(values)});
  all_here_ = false;
}

void DataArrays::bring() const {
  const std::lock_guard lock(mutex_);
  while (!away_.empty()) {
    std::ranges::copy(away_.back().numbers->read(), numbers_.begin() + away_.back().first);
    away_.pop_back();
  }
  all_here_.store(true, std::memory_order_release);
}

std::uint32_t match_tape(ProblemState& state, const RawTape& raw, const Caller& caller,
                         std::uint32_t loss_program, LeafMap* leaves) {
  RawShapes& shapes = state.shapes(caller.block);
  if (const RawShape* known = shapes.match(raw, state.data.numbers(), state.tracing.row)) {
    if (leaves != nullptr) *leaves = known->leaves();
    if (state.unknowns.removed_any()) state.check_present(known->topology(), caller);
    return known->topology();
  }
  Extraction extraction = extract(
      raw, [](const TapeNode& node) { return node.a; }, caller);
  const std::uint32_t group = state.group_of(extraction.canonical, caller.block, loss_program);
  ++state.statistics.canonical_forms;
  shapes.add(raw, extraction.leaves, group);
  RawShape(raw, extraction.leaves, group).read(raw, state.data.numbers(), state.tracing.row);
  if (leaves != nullptr) *leaves = std::move(extraction.leaves);
  return group;
}

std::vector<std::uint64_t> row_nodes(std::span<const Value> rows, const Caller& caller) {
  if (rows.empty()) caller.fail(ErrorCode::Shape, "expected at least one row, got none");
  std::vector<std::uint64_t> nodes;
  for (const Value& row : rows) {
    if (row.bits() == 0)
      caller.fail(ErrorCode::StaleValue, "a default-constructed Value has no expression");
    nodes.push_back(node_of(row.bits()));
    if (nodes.back() >= tape.size)
      caller.fail(ErrorCode::StaleValue,
                  "a Value belongs to another thread, or its thread has ended");
  }
  return nodes;
}

void check_block(std::size_t rows, const Loss& loss, const Caller& caller) {
  if (caller.block == BlockKind::residual) return;
  if (caller.block == BlockKind::energy && rows != 1)
    caller.fail(ErrorCode::Shape, "expected one number, got " + std::to_string(rows) + " rows");
  if (loss != Loss{})
    caller.fail(ErrorCode::InvalidArgument,
                "a robust loss belongs to a residual, not to " +
                    std::string(is_constraint(caller.block) ? "a constraint" : "an energy"));
}

std::optional<std::uint64_t> trace_parts(ProblemState& state, std::span<const Value> rows,
                                         std::size_t width, const ResidualOptions& options,
                                         std::size_t least) {
  const FinishResidual finish;
  const Caller caller = state.caller("add_residual", options.label, BlockKind::residual);
  collect_nodes(state, rows, caller);
  return state.long_blocks.add_parts(state, state.tracing.compact.view(), width, options, caller,
                                     least);
}

bool repeat_most(ProblemState& state, std::span<const Value> rows) {
  constexpr std::size_t kMany = 64, kTimes = 4;
  collect_nodes(state, rows, state.caller("add_residual", "", BlockKind::residual));
  const RawTape raw = state.tracing.compact.view();
  if (raw.nodes.size() < kMany || !raw.guards.empty()) return false;
  TapeParts parts;
  const std::size_t together = parts.count_operations(raw.nodes, raw.rows);
  std::size_t apart = 0;
  for (std::size_t row = 0; row < raw.rows.size() && apart <= kTimes * together; ++row)
    apart += parts.count_operations(raw.nodes, raw.rows.subspan(row, 1));
  return together >= kMany && apart > kTimes * together;
}

std::uint64_t trace_block(ProblemState& state, std::span<const Value> rows,
                          const ResidualOptions& options, BlockKind kind) {
  const FinishResidual finish;
  std::uint32_t group = 0;
  const std::uint32_t loss = state.loss_entry("add_residual", options.loss);
  const std::uint32_t loss_program = state.blocks.losses[loss].program;
  const char* call = add_call(kind);
  const RawShape* known = nullptr;
  // If nothing was appended since the last residual, the open segment belongs to that residual.
  const bool reads_new_mark = !shared_nodes().empty() && shared_nodes().back() >= open_segment();
  if (!rows.empty() && tape.limit != 0 && !reads_new_mark && rows_in_open_segment(state, rows))
    known = state.shapes(kind).match(open_tape(state), state.data.numbers(), state.tracing.row);
  if (known != nullptr) {
    group = known->topology();
    if (state.unknowns.removed_any())
      state.check_present(group, state.caller(call, options.label, kind));
    ++state.statistics.fast_matches;
    state.statistics.nodes_traced += tape.size - open_segment();
  } else {
    const Caller caller = state.caller(call, options.label, kind);
    if (kind == BlockKind::residual && !shared_nodes().empty())
      if (const auto id = state.shared_rows.add(state, rows, options, caller)) return *id;
    collect_nodes(state, rows, caller);
    if (kind == BlockKind::residual) {
      const RawTape raw = state.tracing.compact.view();
      if (const auto id = state.long_blocks.add(state, raw, options, caller)) return *id;
    }
    group = match_slowly(state, rows, caller, loss_program);
  }
  return state.blocks.append(state.blocks.variant(group, loss_program), state.tracing.row,
                             state.labels.number(options.label), loss);
}

}  // namespace topograd::detail
