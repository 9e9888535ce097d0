// Ends at which columns of the Jacobian have vanished.
#include "lost_columns.hpp"

#include "../../ir/machine/state_record.hpp"

#include <algorithm>
#include <cmath>

namespace topograd {
namespace {

// Largest share of a norm that counts as vanished.
constexpr double kVanished = 1e-12;

bool was_stopped(End end) {
  return end == End::none || end == End::time || end == End::iterations || end == End::interrupted;
}

}  // namespace

bool LostColumns::may_be_lost(double square, double moved, double cost) {
  return moved != 0 && has_vanished(square, moved, cost);
}

bool LostColumns::has_vanished(double square, double size, double cost) {
  // Factors in turn: squares of distances overflow.
  return square == 0 || (size != 0 && kVanished * kVanished * 2 * cost >= square * size * size);
}

bool LostColumns::is_lost(double square, double square_at_start) {
  return square < kVanished * kVanished * square_at_start;
}

void LostColumns::turn(double cost, const Verdict& verdict, bool at_start) {
  ++turns_;
  // From the start the same steps lead to the same point.
  if (at_start) shortness_ = std::max(shortness_, 1);
  open_ = true;
  cost_ = cost;
  verdict_ = verdict;
}

bool LostColumns::settle(double cost, const Verdict& verdict, bool lost, double share) {
  open_ = false;
  const bool converged = termination(verdict.end) == Termination::CONVERGENCE;
  const bool is_same = converged && cost <= (1 + share) * cost_;
  const bool failed = verdict.end != End::none && termination(verdict.end) == Termination::FAILURE;
  if (lost && is_same && cost >= (1 - share) * cost_) {
    // On one plateau. Shorter steps may end elsewhere.
    if (!may_turn()) return cost < cost_;
    ++shortness_;
    verdict_ = verdict;
    return true;
  }
  const bool agrees = is_same && !lost && verdict_.end == End::lost_columns;
  if (!failed && (cost < cost_ || agrees)) {
    verdict_ = converged && lost && !may_turn() ? Verdict{End::lost_columns} : verdict;
    return true;
  }
  if (was_stopped(verdict.end)) {
    verdict_ = verdict;
  } else if (!converged || (lost && !is_same)) {
    verdict_ = {End::lost_columns};
  }
  return false;
}

void LostColumns::transfer(ir::StateRecord& record) {
  record.in_range("turns from lost columns", turns_, 0, kMostTurns);
  record.in_range("shortness of steps", shortness_, 0, kMostTurns);
  record.value("has turned", open_);
  record.value("cost before the turn", cost_);
  record.value("end before the turn", verdict_.end, End::interrupted);
  record.value("its number", verdict_.value);
  record.value("its bound", verdict_.bound);
}

std::vector<std::uint32_t> moving_unknowns(const runtime::Model& model) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t k = 0; k < model.scalars; ++k)
    if (model.constant.empty() || model.constant[k] == 0) out.push_back(k);
  return out;
}

std::vector<std::uint32_t> vanished_columns(const runtime::Model& model,
                                            std::span<const double> squares,
                                            std::span<const double> x,
                                            std::span<const double> start, double cost) {
  std::vector<std::uint32_t> out;
  if (squares.empty()) return out;
  for (const std::uint32_t k : moving_unknowns(model)) {
    const double size = std::max(std::abs(x[k]), std::abs(x[k] - start[k]));
    if (LostColumns::has_vanished(squares[k], size, cost)) out.push_back(k);
  }
  return out;
}

}  // namespace topograd
