// Inference of traits, op by op, and extraction of programs from growing graphs.
#include "expression.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "../ir/passes/passes.hpp"

namespace topograd::autodiff {
namespace {

using ir::Away;
using ir::FactRule;
using ir::Growth;
using ir::Op;

Grade worst(std::span<const Traits> operands, Grade at_least) {
  for (const Traits& t : operands) at_least = std::max(at_least, t.grade);
  return at_least;
}

// Bounded functions map NaN to NaN, but infinite operands to finite numbers.
Grade bounded(std::span<const Traits> operands) {
  return worst(operands, Grade::Tame) == Grade::Tame ? Grade::Tame : Grade::Plain;
}

Grade product(const Traits& a, const Traits& b) {
  if (a.grade == Grade::Constant) return std::max(b.grade, Grade::Tame);
  if (b.grade == Grade::Constant) return std::max(a.grade, Grade::Tame);
  return std::max({a.grade, b.grade, Grade::Plain});
}

Grade quotient(Grade numerator, const Traits& denominator) {
  return denominator.away ? std::max(numerator, Grade::Plain) : Grade::Wild;
}

Traits literal(double value) {
  return {.grade = std::isfinite(value) ? Grade::Constant : Grade::Wild,
          .masked = value == 0,
          .nonnegative = value >= 0,
          .away = value != 0 && !std::isnan(value)};
}

Grade grade_of(Op op, std::span<const Traits> t) {
  switch (ir::info(op).growth) {
    case Growth::affine: return worst(t, Grade::Tame);
    case Growth::smooth: return worst(t, Grade::Plain);
    case Growth::bounded: return bounded(t);
    case Growth::in_domain: return Grade::Plain;
    case Growth::product: return product(t[0], t[1]);
    case Growth::quotient: return quotient(t[0].grade, t[1]);
    case Growth::reciprocal: return quotient(Grade::Plain, t[0]);
    case Growth::power:
      // A power with a positive constant exponent has no pole.
      return t[1].grade == Grade::Constant && t[1].nonnegative ? worst(t, Grade::Plain)
                                                               : Grade::Wild;
    case Growth::choice: return worst(t.subspan(1), Grade::Tame);
    case Growth::truth: return Grade::Tame;
    case Growth::wild: return Grade::Wild;
  }
  return Grade::Wild;
}

// True if the value may be exactly zero because of a choice or a comparison.
bool is_mask(Op op, std::span<const Traits> t) {
  const ir::OpInfo& row = ir::info(op);
  if (row.boolean || (row.masked_by & ir::kAlways) != 0) return true;
  for (std::size_t k = 0; k < t.size(); ++k) {
    if ((row.masked_by >> k & 1) != 0 && t[k].masked) return true;
  }
  return false;
}

bool is_nonnegative(Op op, std::span<const Traits> t) {
  switch (ir::info(op).facts) {
    case FactRule::clear:
    case FactRule::magnitude:
    case FactRule::root: return true;
    case FactRule::sum:
    case FactRule::product:
    case FactRule::minimum: return std::ranges::all_of(t, &Traits::nonnegative);
    case FactRule::maximum: return std::ranges::any_of(t, &Traits::nonnegative);
    case FactRule::none: return ir::info(op).boolean;
    case FactRule::whole:
    case FactRule::negation:
    case FactRule::odd:
    case FactRule::difference:
    case FactRule::choice: return false;
  }
  return false;
}

bool is_away(Op op, std::span<const Traits> t) {
  const auto is_positive = [](const Traits& x) { return x.nonnegative && x.away; };
  if (ir::info(op).facts == FactRule::maximum) return std::ranges::any_of(t, is_positive);
  switch (ir::info(op).away) {
    case Away::unknown: return false;
    case Away::always: return true;
    case Away::first: return t[0].away;
    case Away::sum: return t[0].nonnegative && t[1].nonnegative && (t[0].away || t[1].away);
  }
  return false;
}

}  // namespace

Traits infer(const ir::Node& node, std::span<const Traits> operands) {
  if (node.op == Op::Literal) return literal(node.literal());
  return {.grade = grade_of(node.op, operands),
          .masked = is_mask(node.op, operands),
          .nonnegative = is_nonnegative(node.op, operands),
          .away = is_away(node.op, operands)};
}

Builder::Builder(const ir::Program& f) : guards_(f.guards), leaves_(f.leaves) {
  const std::vector<ir::Id> map = ir::append(graph_, f);
  size_ = static_cast<ir::Id>(graph_.size());
  for (ir::Id id : f.outputs) outputs_.push_back(map[id]);
  for (ir::Guard& guard : guards_) guard.condition = map[guard.condition];
}

const Traits& Builder::traits(ir::Id id) {
  while (traits_.size() < graph_.size()) {
    const ir::Node& node = graph_[static_cast<ir::Id>(traits_.size())];
    std::array<Traits, 3> operands;
    const std::span<const ir::Id> ids = node.operands();
    for (std::size_t k = 0; k < ids.size(); ++k) operands[k] = traits_[ids[k]];
    traits_.push_back(infer(node, std::span(operands).first(ids.size())));
  }
  return traits_[id];
}

ir::Program Builder::extract(std::span<const ir::Id> outputs, const ir::LeafCounts& leaves) {
  std::vector<ir::Id> ids(outputs.begin(), outputs.end());
  for (ir::Id& id : ids) {
    if (id == ir::kNone) id = graph_.literal(0);
  }
  return ir::optimize(graph_.extract(ids, leaves, guards_));
}

}  // namespace topograd::autodiff
