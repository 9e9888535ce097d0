// Makes an instance of a topology from the rows of a residual.
#include "problem_state.hpp"

namespace topograd::detail {
namespace {

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
