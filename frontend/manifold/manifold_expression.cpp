// Plus of rotations and the sphere with Values; manifold.cpp is the same with numbers.
#include "manifold_expression.hpp"

#include "../quat.hpp"

#include <array>

namespace topograd {
namespace {

Value squares(std::span<const Value> v) {
  Value sum = v[0] * v[0];
  for (std::size_t k = 1; k < v.size(); ++k) sum = sum + v[k] * v[k];
  return sum;
}

/// cos ‖δ‖ and sin ‖δ‖ / ‖δ‖, whose derivatives at 0 are 0.
struct Turn {
  explicit Turn(std::span<const Value> delta)
      : square(squares(delta)),
        at_rest(square == literal(0)),
        angle(sqrt(select(at_rest, literal(1), square))),
        cosine(select(at_rest, literal(1), cos(angle))),
        sine(select(at_rest, literal(1), sin(angle) / angle)) {}

  Value square;
  Bool at_rest;
  Value angle, cosine, sine;
};

Quat exponential(std::span<const Value> delta) {
  const Turn turn(delta);
  return {turn.cosine, turn.sine * delta[0], turn.sine * delta[1], turn.sine * delta[2]};
}

Quat half_turn(std::span<const Value> x) {
  const std::array<Value, 3> half = {x[0] * literal(0.5), x[1] * literal(0.5), x[2] * literal(0.5)};
  return exponential(half);
}

}  // namespace

std::vector<Value> plus_expression(const Manifold& manifold, std::span<const Value> x,
                                   std::span<const Value> delta) {
  const auto* expressed = dynamic_cast<const ExpressedManifold*>(manifold.model().get());
  return expressed == nullptr ? std::vector<Value>() : expressed->expression(x, delta);
}

void reduce(const Manifold& manifold, double* x) {
  const auto* expressed = dynamic_cast<const ExpressedManifold*>(manifold.model().get());
  if (expressed != nullptr) expressed->reduce(x);
}

namespace detail {

std::vector<Value> quaternion_plus(std::span<const Value> x, std::span<const Value> delta,
                                   std::span<const std::size_t> position) {
  const Quat q =
      exponential(delta) * Quat{x[position[0]], x[position[1]], x[position[2]], x[position[3]]};
  std::vector<Value> out(x.begin(), x.end());
  const Value* parts[] = {&q.w, &q.x, &q.y, &q.z};
  for (std::size_t k = 0; k < 4; ++k) out[position[k]] = *parts[k];
  return out;
}

std::vector<Value> axis_angle_plus(std::span<const Value> x, std::span<const Value> delta) {
  const Quat q = half_turn(delta) * half_turn(x);
  const Value sign = select(q.w < literal(0), literal(-1), literal(1));  // the shorter rotation
  const Value w = sign * q.w;
  const Value square = q.x * q.x + q.y * q.y + q.z * q.z;
  const Bool at_rest = square == literal(0);
  const Value sine = sqrt(select(at_rest, literal(1), square));
  const Value factor = literal(2) * sign * select(at_rest, reciprocal(w), atan2(sine, w) / sine);
  return {factor * q.x, factor * q.y, factor * q.z};
}

std::vector<Value> sphere_plus(std::span<const Value> x, std::span<const Value> delta) {
  const std::size_t last = x.size() - 1;
  const Value head = squares(x.first(last));
  const Value length = sqrt(head + x[last] * x[last]);
  // x_last − ‖x‖ without cancellation; 0 if x lies on the last axis already.
  const Value pivot = select(x[last] <= literal(0), x[last] - length, -head / (x[last] + length));
  const Bool aligned = pivot == literal(0);
  const Value divisor = select(aligned, literal(1), pivot);
  const Value beta =
      select(aligned, literal(0), literal(2) * divisor * divisor / (head + divisor * divisor));
  const Turn turn(delta);
  std::vector<Value> mirror, out;
  Value along = turn.cosine;
  for (std::size_t k = 0; k < last; ++k) {
    mirror.push_back(x[k] / divisor);
    out.push_back(turn.sine * delta[k]);
    along = along + mirror[k] * out[k];
  }
  out.push_back(turn.cosine);
  mirror.push_back(literal(1));
  const Value radius = length * length / length;  // NaN: there is no sphere through 0
  for (std::size_t k = 0; k <= last; ++k) out[k] = radius * (out[k] - beta * along * mirror[k]);
  return out;
}

}  // namespace detail

}  // namespace topograd
