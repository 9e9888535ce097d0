// A problem while it is solved: changes are refused; weights of constraints are written.
#include "problem_use.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../ir/error.hpp"
#include "../../ir/topology/topology.hpp"
#include "../problem/problem_state.hpp"

namespace topograd {

std::uint64_t Penalties::first_row() const {
  detail::ProblemState& state = require_not_moved_from(problem_.state_);
  state.blocks.number_rows();
  return state.blocks.constraints.first_row;
}

void Penalties::set_weights(double equalities, double inequalities) {
  detail::ProblemState& state = require_not_moved_from(problem_.state_);
  if (state.blocks.penalty_uniform == detail::kNoUniform) return;
  state.uniforms[state.blocks.penalty_uniform] = equalities;
  state.uniforms[state.blocks.penalty_uniform + 1] = inequalities;
  ++state.versions.uniforms;
}

void Penalties::set_column(std::uint32_t half, std::span<const double> numbers) {
  const std::uint64_t first = first_row();
  detail::ProblemState& state = require_not_moved_from(problem_.state_);
  for (detail::Group& group : state.blocks.groups) {
    if (!is_constraint(group.kind)) continue;
    const std::uint32_t rows = group.hidden_data / 2;
    const std::uint32_t column = group.batch.data_columns() - group.hidden_data + half * rows;
    for (std::size_t i = 0; i < group.batch.size(); ++i) {
      const std::uint64_t row = group.batch.residual_row(i) - first;
      for (std::uint32_t k = 0; k < rows; ++k)
        group.batch.set_data(i, column + k, numbers[row + k]);
    }
  }
  ++state.versions.data;
}

const ir::Program& Penalties::plain(const Problem& problem, std::size_t topology) {
  return require_not_moved_from(problem.state_).blocks.groups[topology].plain;
}

const ir::Topology& Penalties::barrier(const Problem& problem, std::size_t topology) {
  detail::Group& group = require_not_moved_from(problem.state_).blocks.groups[topology];
  if (!group.barrier) {
    ir::Program program = detail::barrier_program(group.plain);
    const ir::Hash128 hash = ir::canonicalize(program).topology.hash;
    group.barrier = std::make_unique<const ir::Topology>(ir::Topology{std::move(program), hash});
  }
  return *group.barrier;
}

void detail::refuse_change(const char* call) {
  throw Error(ErrorCode::InvalidArgument,
              std::string(call) +
                  ": the problem is being solved; expected the call before solve() begins or after "
                  "it has returned, got it from a callback or from a residual on the host");
}

Problem::Problem(std::shared_ptr<detail::ProblemState> state)
    : state_(std::move(state)), is_view_(true) {}

Problem::~Problem() {
  if (state_ == nullptr || is_view_) return;
  state_->ended = this;
  if (state_->solve == nullptr) return;
  state_->solve->before_end();
  state_->solve->ended = true;
}

// NOLINTNEXTLINE(performance-noexcept-*,bugprone-exception-*)
Problem::Problem(Problem&& other) : is_view_(other.is_view_) {
  if (other.state_ != nullptr && !is_view_) detail::changing(other.state_, "Problem: move");
  state_ = std::move(other.state_);
  // The containers may have been moved with the problem to other addresses.
  if (state_ != nullptr && !is_view_) state_->unknowns.forget_lenders();
}

// NOLINTNEXTLINE(performance-noexcept-*,bugprone-exception-*)
Problem& Problem::operator=(Problem&& other) {
  if (this == &other) return *this;
  if (state_ != nullptr && !is_view_) detail::changing(state_, "Problem: move");
  if (other.state_ != nullptr && !other.is_view_) detail::changing(other.state_, "Problem: move");
  state_ = std::move(other.state_);
  is_view_ = other.is_view_;
  if (state_ != nullptr && !is_view_) state_->unknowns.forget_lenders();
  return *this;
}

Problem ProblemUse::view_of(Problem& problem) {
  detail::require_not_moved_from(problem.state_);
  return Problem(problem.state_);
}

detail::ProblemState& ProblemUse::state_of(const Problem& problem) {
  return detail::require_not_moved_from(problem.state_);
}

void ProblemUse::settle_long_blocks(const Problem& problem, bool kernels) {
  detail::ProblemState& state = detail::require_not_moved_from(problem.state_);
  state.shared_rows.settle(state, kernels);
  if (kernels) {
    state.long_blocks.trace(state);
  } else {
    state.long_blocks.settle(state);
  }
}

struct LongBlocksTraced::Traced {
  detail::ProblemState& state;
  std::vector<detail::LongBlocks::Instance> instances;
};

LongBlocksTraced::LongBlocksTraced(const Problem& problem) {
  detail::ProblemState& state = ProblemUse::state_of(problem);
  state.shared_rows.settle(state, true);
  traced_.reset(new Traced{state, state.long_blocks.trace_for_now(state)});
}
LongBlocksTraced::~LongBlocksTraced() {
  detail::LongBlocks::put_back(traced_->state, std::move(traced_->instances));
}

std::vector<LongExpression> ProblemUse::long_expressions(const Problem& problem) {
  const detail::ProblemState& state = detail::require_not_moved_from(problem.state_);
  return state.long_blocks.describe(state);
}

namespace {

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string levels_text(const LongExpression& e) {
  std::string out;
  std::size_t looped = 0;
  for (const LongLoop& loop : e.loops) {
    out += "  " + counted(loop.levels(), "level") + " of " + counted(loop.instances(), "instance") +
           ", each of " + counted(loop.operations, "operation");
    if (loop.states > 0) out += ", which hands on " + counted(loop.states, "number");
    out += "\n";
    looped += loop.steps * loop.operations;
  }
  if (looped > 0 && looped < e.operations)
    out +=
        "  " + counted(e.operations - looped, "operation") + " before, between and after these\n";
  return out;
}

}  // namespace

std::string explain(const Problem& problem) {
  ProblemUse::settle_long_blocks(problem, false);
  constexpr std::size_t kMost = 20;
  std::string out;
  const std::vector<LongExpression> found = ProblemUse::long_expressions(problem);
  for (const LongExpression& e : std::span(found).first(std::min(kMost, found.size()))) {
    out += e.label + ": " + counted(e.blocks, "block") + ", " + counted(e.rows, "row") + ", " +
           counted(e.operations, "operation") + ", " + counted(e.unknowns, "unknown") +
           ", node by node on the host\n  " + text(e) + "\n" + levels_text(e) + "  " +
           std::to_string((e.bytes + e.work_bytes) / 1000) + " kB\n";
  }
  if (found.size() > kMost) out += "and " + std::to_string(found.size() - kMost) + " more\n";
  for (const SharedValues& of : ProblemUse::shared_values(problem))
    out += (of.label.empty() ? "residual" : of.label) + ": " + text(of) + "\n";
  return out;
}

bool ProblemUse::hvp_of_long_blocks(const Problem& problem, std::span<const double> x,
                                    std::span<const double> p, bool with_losses,
                                    std::span<double> out) {
  const detail::ProblemState& state = detail::require_not_moved_from(problem.state_);
  return state.long_blocks.hvp(state, x, p, with_losses, out);
}

std::vector<SharedValues> ProblemUse::shared_values(const Problem& problem) {
  const std::span<const SharedValues> found =
      detail::require_not_moved_from(problem.state_).shared_rows.described();
  return {found.begin(), found.end()};
}

Residuals ProblemUse::add_sharing(Problem& problem, std::span<const Value> rows, std::size_t width,
                                  const ResidualOptions& options, bool whatever_the_size) {
  detail::ProblemState& state = detail::changing(problem.state_, "add_residual");
  if (width == 0 || rows.empty() || rows.size() % width != 0)
    throw Error(ErrorCode::Shape, "add_residual: expected blocks of " + std::to_string(width) +
                                      " rows, got " + std::to_string(rows.size()) + " rows");
  Residuals added{.problem = state.serial, .first = 0, .last = 0, .count = rows.size() / width};
  const std::size_t least = whatever_the_size ? 0 : detail::LongBlocks::kLeastNodes;
  if (added.count == 1 && !whatever_the_size) {
    added.first = problem.add_residual(rows, options).id;
  } else if (const auto first = detail::trace_parts(state, rows, width, options, least)) {
    added.first = *first;
  } else {
    for (std::size_t row = 0; row < rows.size(); row += width) {
      const Residual block = problem.add_residual(rows.subspan(row, width), options);
      if (row == 0) added.first = block.id;
    }
  }
  added.last = added.first + rows.size();
  return added;
}

void ProblemUse::add_any(Problem& problem, std::span<const Value> rows) {
  detail::ProblemState& state = detail::changing(problem.state_, "add_residual");
  const bool together = rows.size() > 1 && detail::repeat_most(state, rows);
  for (std::size_t row = 0; row < rows.size(); row += together ? rows.size() : 1)
    problem.add_residual(rows.subspan(row, together ? rows.size() : 1));
}

std::optional<Residuals> ProblemUse::add_arrays(
    Problem& problem, std::shared_ptr<const detail::ArrayExpression> arrays, std::size_t width,
    const ResidualOptions& options) {
  detail::ProblemState& state = detail::changing(problem.state_, "add_residual");
  const std::size_t rows = arrays->rows();
  const auto first = state.long_blocks.add_arrays(state, std::move(arrays), width, options);
  if (!first) return std::nullopt;
  return Residuals{
      .problem = state.serial, .first = *first, .last = *first + rows, .count = rows / width};
}

Residuals add_shared_residuals(Problem& problem, std::span<const Value> rows,
                               const ResidualOptions& options, std::size_t width) {
  return ProblemUse::add_sharing(problem, rows, width, options);
}

void ProblemUse::require_present(const Problem& problem, const Problem& view, const char* user) {
  if (view.state_->ended != &problem) return;  // compares only addresses
  throw Error(ErrorCode::InvalidArgument,
              std::string(user) + ": its Problem has ended; expected it to live longer");
}

ProblemUse::ProblemUse(const Problem& problem, const char* call, std::function<void()> before_end)
    : state_(problem.state_), solve_(std::make_unique<detail::SolveInProgress>()) {
  detail::changing(problem.state_, call);
  solve_->before_end = std::move(before_end);
  state_->solve = solve_.get();
}

ProblemUse::~ProblemUse() { state_->solve = nullptr; }

bool ProblemUse::ended() const { return solve_->ended; }

}  // namespace topograd
