// A problem while it is solved: changes are refused, and its end is noticed.
#include "problem_use.hpp"

#include "../../ir/error.hpp"
#include "../problem/problem_state.hpp"

#include <string>
#include <utility>

namespace topograd {

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
  detail::whole(problem.state_);
  return Problem(problem.state_);
}

void ProblemUse::settle_long_blocks(const Problem& problem, bool kernels) {
  detail::ProblemState& state = detail::whole(problem.state_);
  if (kernels) {
    state.long_blocks.trace(state);
  } else {
    state.long_blocks.settle(state);
  }
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
