// A problem's programs traced again with other leaves.
#include "disguise.hpp"

#include "../../../frontend/value/math.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace topograd::test {
namespace {

/// An order that is neither ascending nor descending.
std::vector<std::size_t> other_order(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [](std::size_t k) { return (k * 2654435761u + 12345) % 1000003; });
  return order;
}

std::vector<std::size_t> order_of(std::size_t count, bool other) {
  if (other) return other_order(count);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

/// ρ in other units: unit² ρ(s / unit²).
Loss in_units(const Loss& loss, double unit) {
  if (unit == 1 || loss.is_trivial()) return loss;
  const double square = unit * unit;
  return Loss::scaled(
      Loss::composed(loss, Loss::custom([=](const Value& s) { return s / square; })), square);
}

}  // namespace

Disguised::Disguised(const Problem& from, const Disguise& as) { add_problem(from, as); }

Disguised::Disguised(const std::vector<Problem*>& from, const Disguise& as) {
  for (const Problem* const one : from) {
    for (std::vector<double>& x : x_) before_.push_back(std::move(x));
    add_problem(*one, as);
  }
}

void Disguised::add_problem(const Problem& from, const Disguise& as) {
  add_arrays(from, as);
  std::vector<std::pair<std::size_t, std::size_t>> instances;
  for (std::size_t t = 0; t < from.topology_count(); ++t)
    for (std::size_t i = 0; i < from.batch(t).size(); ++i) instances.emplace_back(t, i);
  for (const std::size_t k : order_of(instances.size(), as.other_order)) {
    add(from, as, instances[k].first, instances[k].second);
    if (as.twice) add(from, as, instances[k].first, instances[k].second);
  }
  if (as.has_unread) problem_.add_parameters(unread_, 2, "unread");
  if (as.has_no_weight) {
    const Value weight = problem_.add_uniform(0);
    const Value row = log(-1.0 - square(unknown(0)));
    problem_.add_residual(select(weight == 0.0, Value(0.0), weight * row));
  }
}

void Disguised::add_arrays(const Problem& from, const Disguise& as) {
  std::vector<double> start(from.parameter_count());
  from.read_x(start);
  places_.assign(start.size(), {});
  const auto arrays = from.arrays();
  arrays_.assign(arrays.size(), {});
  x_.assign(arrays.size(), {});
  for (const std::size_t a : order_of(arrays.size(), as.other_order)) {
    const ParameterArray& array = arrays[a];
    if (array.values == nullptr) continue;
    const std::vector<std::size_t> order = order_of(array.blocks, as.other_order);
    x_[a].resize(std::size_t{array.blocks} * array.width);
    for (std::size_t to = 0; to < order.size(); ++to) {
      for (std::uint32_t c = 0; c < array.width; ++c) {
        const std::size_t k = array.offset + order[to] * array.width + c;
        Place& place = places_[k];
        place = {a, to, static_cast<int>(c)};
        if (from.manifold(a, order[to]) == nullptr) {
          place.unit = as.unit(k);
          place.shift = as.shift(k);
          start[k] = as.start(k, start[k]);
        }
        x_[a][to * array.width + c] = place.unit * (start[k] + place.shift);
      }
    }
    arrays_[a] =
        problem_.add_parameters(std::span(x_[a]), static_cast<int>(array.width), array.name);
    for (std::size_t b = 0; b < array.blocks; ++b) set_block(from, as, a, b);
  }
}

/// Flags, bounds and the manifold of an original block.
void Disguised::set_block(const Problem& from, const Disguise& as, std::size_t a, std::size_t b) {
  const ParameterArray& array = from.arrays()[a];
  const std::size_t first = array.offset + b * array.width;
  const std::size_t to = places_[first].block;
  const Manifold* const manifold = from.manifold(a, b);
  if (manifold != nullptr) problem_.set_manifold(arrays_[a], to, *manifold);
  for (std::uint32_t c = 0; c < array.width; ++c) {
    const std::size_t k = first + c;
    const Place& place = places_[k];
    const auto fixed = from.constant_mask();
    if (!fixed.empty() && fixed[k] != 0) problem_.set_constant(arrays_[a], to, 1u << c);
    const auto lower = from.lower_bounds(), upper = from.upper_bounds();
    const auto moved = [&](double bound) {
      return std::isfinite(bound) ? place.unit * (bound + place.shift) : bound;
    };
    const double slack = as.has_slack_bounds && manifold == nullptr ? 1e100 * place.unit : HUGE_VAL;
    const double low = lower.empty() ? -HUGE_VAL : moved(lower[k]);
    const double high = upper.empty() ? HUGE_VAL : moved(upper[k]);
    set_range(place, as, low, high, slack);
  }
}

void Disguised::set_range(const Place& place, const Disguise& as, double lower, double upper,
                          double slack) {
  const Parameters& array = arrays_[place.array];
  if (as.has_inequalities) {
    const Value x = array(place.block, place.coordinate);
    if (std::isfinite(lower)) problem_.add_inequality(x - lower);
    if (upper < 1e299) problem_.add_inequality(upper - x);
  } else if (std::isfinite(slack) || std::isfinite(lower) || std::isfinite(upper)) {
    problem_.set_bounds(array, place.block, place.coordinate, std::max(lower, -slack),
                        std::min(upper, slack));
  }
}

Value Disguised::unknown(std::uint32_t scalar) const {
  const Place& place = places_[scalar];
  const Value own = arrays_[place.array](place.block, place.coordinate);
  if (place.unit == 1 && place.shift == 0) return own;
  const Value moved = place.unit == 1 ? own : own / place.unit;
  return place.shift == 0 ? moved : moved - place.shift;
}

void Disguised::add(const Problem& from, const Disguise& as, std::size_t t, std::size_t i) {
  const ir::Program& program = from.topology(t).program;
  const ir::Batch& batch = from.batch(t);
  std::vector<Value> values;
  for (const ir::Node& node : program.nodes) {
    switch (node.op) {
      case ir::Op::Parameter: values.push_back(unknown(batch.index(i, node.slot()))); break;
      case ir::Op::Data: values.push_back(Value(batch.data(i, node.slot()))); break;
      case ir::Op::Uniform: {
        const std::uint32_t column = batch.parameter_columns() + node.slot();
        values.push_back(Value(from.uniforms()[batch.index(i, column)]));
        break;
      }
      case ir::Op::Literal: values.push_back(literal(node.literal())); break;
      default: {
        const auto o = node.operands();
        const Value& a = values[o[0]];
        values.push_back(o.size() == 1   ? Value::make(node.op, a)
                         : o.size() == 2 ? Value::make(node.op, a, values[o[1]])
                                         : Value::make(node.op, a, values[o[1]], values[o[2]]));
      }
    }
  }
  Loss loss = in_units(from.loss(t, i), as.residuals);
  // Half of the weight: inside of a loss the residual must not change.
  const bool halves_loss = as.twice && !loss.is_trivial();
  if (halves_loss) loss = Loss::scaled(loss, 0.5);
  const double factor = as.residuals * (as.twice && !halves_loss ? std::sqrt(0.5) : 1);
  std::vector<Value> rows;
  for (const ir::Id output : program.outputs)
    rows.push_back(factor == 1 ? values[output] : values[output] * factor);
  problem_.add_residual(rows, {.loss = loss});
}

std::vector<Real> Disguised::plain() const {
  std::vector<Real> out(places_.size());
  for (std::size_t k = 0; k < out.size(); ++k) {
    const Place& place = places_[k];
    if (x_[place.array].empty()) continue;
    const std::size_t width = static_cast<std::size_t>(arrays_[place.array].width());
    const Real own =
        x_[place.array][place.block * width + static_cast<std::size_t>(place.coordinate)];
    out[k] = own / place.unit - place.shift;
  }
  return out;
}

std::vector<Disguise> disguises(std::size_t unknowns) {
  std::vector<Disguise> out;
  for (const double tiny : {1e-6, 1e-17, 1e-300})
    out.push_back({.name = "zeros start at 1e" + std::to_string(std::lround(std::log10(tiny))),
                   .start = [tiny](std::size_t, double x) { return x == 0 ? tiny : x; }});
  for (const double unit : {1e-12, 1e12}) {
    const std::string text = unit < 1 ? " / 1e12" : " * 1e12";
    out.push_back({.name = "residuals" + text, .residuals = unit});
    out.push_back({.name = "all unknowns" + text, .unit = [unit](std::size_t) { return unit; }});
    out.push_back({.name = "odd unknowns" + text,
                   .unit = [unit](std::size_t k) { return k % 2 == 1 ? unit : 1; }});
    out.push_back({.name = "all units" + text, .residuals = unit, .unit = [unit](std::size_t) {
                     return unit;
                   }});
    const std::size_t one = unknowns / 2;
    out.push_back({.name = "one unknown" + text,
                   .unit = [unit, one](std::size_t k) { return k == one ? unit : 1; }});
  }
  out.push_back({.name = "shift of 1e7", .shift = [](std::size_t) { return 1e7; }});
  out.push_back({.name = "other order", .other_order = true});
  out.push_back({.name = "twice with half the weight", .twice = true});
  out.push_back({.name = "an unread unknown", .has_unread = true});
  out.push_back({.name = "NaN with weight 0", .has_no_weight = true});
  out.push_back({.name = "bounds that do not bind", .has_slack_bounds = true});
  return out;
}

}  // namespace topograd::test
