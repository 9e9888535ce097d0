// Manifolds of rotations and of the sphere.
#include "../../ir/error.hpp"
#include "../manifold.hpp"
#include "../quat.hpp"
#include "manifold_expression.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

namespace topograd {
namespace {

using QuatOfDoubles = BasicQuat<double>;

double norm3(const double* v) { return std::hypot(v[0], v[1], v[2]); }

/// cos ‖δ‖, sin ‖δ‖ δ / ‖δ‖.
QuatOfDoubles exponential_doubles(const double* delta) {
  const double angle = norm3(delta);
  const double s = angle == 0 ? 1 : std::sin(angle) / angle;
  return {std::cos(angle), s * delta[0], s * delta[1], s * delta[2]};
}

/// δ of exponential(), ‖δ‖ <= π.
void logarithm(const QuatOfDoubles& q, double* delta) {
  const double sine = std::hypot(q.x, q.y, q.z);
  const double s = sine == 0 ? 0 : std::atan2(sine, q.w) / sine;
  const double imaginary[] = {q.x, q.y, q.z};
  for (int k = 0; k < 3; ++k) delta[k] = s * imaginary[k];
}

/// Unit quaternions; `place[k]` is the position of component k of (w, x, y, z).
class Quaternions final : public ExpressedManifold {
 public:
  Quaternions(std::array<std::size_t, 4> place, std::string name)
      : place_(place), name_(std::move(name)) {}

  int ambient_size() const override { return 4; }
  int tangent_size() const override { return 3; }
  std::string name() const override { return name_; }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    return detail::quaternion_plus(x, delta, place_);
  }
  std::string key() const override { return name_; }
  std::string refusal(const double* x) const override {
    const bool zero = std::all_of(x, x + 4, [](double number) { return number == 0; });
    return zero ? "a quaternion of length 0 is no rotation; the identity is w = 1" : "";
  }
  bool plus(const double* x, const double* delta, double* out) const override {
    const QuatOfDoubles q = exponential_doubles(delta) * read(x);
    const double parts[] = {q.w, q.x, q.y, q.z};
    for (std::size_t k = 0; k < 4; ++k) out[place_[k]] = parts[k];
    return true;
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    const auto rows = tangents(read(x));
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t c = 0; c < 3; ++c) jacobian[place_[k] * 3 + c] = rows[k][c];
    return true;
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    logarithm(read(y) * conjugate(read(x)), delta);
    return true;
  }
  bool minus_jacobian(const double* x, double* jacobian) const override {
    const auto rows = tangents(read(x));
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t c = 0; c < 3; ++c) jacobian[c * 4 + place_[k]] = rows[k][c];
    return true;
  }

 private:
  QuatOfDoubles read(const double* x) const {
    return {x[place_[0]], x[place_[1]], x[place_[2]], x[place_[3]]};
  }
  // d(exp(δ) q)/dδ at 0: the products of i, j, k with q as columns.
  static std::array<std::array<double, 3>, 4> tangents(const QuatOfDoubles& q) {
    return {{{-q.x, -q.y, -q.z}, {q.w, q.z, -q.y}, {-q.z, q.w, q.x}, {q.y, -q.x, q.w}}};
  }

  std::array<std::size_t, 4> place_;
  std::string name_;
};

/// Rotations as axis times angle.
class AxisAngle final : public ExpressedManifold {
 public:
  int ambient_size() const override { return 3; }
  int tangent_size() const override { return 3; }
  std::string name() const override { return "so3_axis_angle"; }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    return detail::axis_angle_plus(x, delta);
  }
  std::string key() const override { return name(); }
  bool plus(const double* x, const double* delta, double* out) const override {
    const QuatOfDoubles q = rotation(delta) * rotation(x);
    const double sign = q.w < 0 ? -1 : 1;  // the shorter rotation
    logarithm({sign * q.w, sign * q.x, sign * q.y, sign * q.z}, out);
    for (int k = 0; k < 3; ++k) out[k] *= 2;
    return true;
  }
  /// At a whole turn no rotation about another axis is near, and derivatives vanish.
  void reduce(double* x) const override {
    if (!(norm3(x) > std::numbers::pi)) return;
    const std::array<double, 3> turned = {x[0], x[1], x[2]}, still = {};
    plus(turned.data(), still.data(), x);
  }
  /// The inverse left Jacobian of SO(3): I − ½ X + k X², k = 1/θ² − cot(θ/2)/(2θ).
  bool plus_jacobian(const double* x, double* jacobian) const override {
    const double angle = norm3(x), t = angle * angle;
    const double k = angle < 1e-2 ? 1.0 / 12 + t / 720 + t * t / 30240
                                  : 1 / t - 1 / (2 * angle * std::tan(angle / 2));
    fill(x, -0.5, k, t, jacobian);
    return true;
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    const QuatOfDoubles q = rotation(y) * conjugate(rotation(x));
    const double sign = q.w < 0 ? -1 : 1;
    logarithm({sign * q.w, sign * q.x, sign * q.y, sign * q.z}, delta);
    for (int k = 0; k < 3; ++k) delta[k] *= 2;
    return true;
  }
  /// The left Jacobian: I + (1 − cos θ)/θ² X + (θ − sin θ)/θ³ X².
  bool minus_jacobian(const double* x, double* jacobian) const override {
    const double angle = norm3(x), t = angle * angle;
    const bool small = angle < 1e-2;
    const double half = std::sin(angle / 2);
    const double a = small ? 0.5 - t / 24 + t * t / 720 : 2 * half * half / t;
    const double b =
        small ? 1.0 / 6 - t / 120 + t * t / 5040 : (angle - std::sin(angle)) / (t * angle);
    fill(x, a, b, t, jacobian);
    return true;
  }

 private:
  static QuatOfDoubles rotation(const double* x) {
    const double half[3] = {x[0] / 2, x[1] / 2, x[2] / 2};
    return exponential_doubles(half);
  }
  // I + a X + b X², X = [x]×, X² = x xᵀ − θ² I.
  static void fill(const double* x, double a, double b, double t, double* jacobian) {
    const double cross[9] = {0, -x[2], x[1], x[2], 0, -x[0], -x[1], x[0], 0};
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 3; ++c)
        jacobian[3 * r + c] = (r == c ? 1 - b * t : 0) + a * cross[3 * r + c] + b * x[r] * x[c];
  }
};

/// The sphere of radius ‖x‖. Tangents are the first n − 1 axes, reflected by the Householder
/// reflection that maps x to the last axis. Source: Hertzberg et al., Integrating generic sensor
/// fusion algorithms with sound state representations (2013), section B.2.
class Sphere final : public ExpressedManifold {
 public:
  explicit Sphere(int size) : size_(static_cast<std::size_t>(size)) {}

  int ambient_size() const override { return static_cast<int>(size_); }
  int tangent_size() const override { return ambient_size() - 1; }
  std::string name() const override { return "sphere"; }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    return detail::sphere_plus(x, delta);
  }
  std::string key() const override { return name() + " " + std::to_string(size_); }
  std::string refusal(const double* x) const override {
    const bool zero = std::all_of(x, x + size_, [](double number) { return number == 0; });
    return zero ? "there is no sphere about 0 through 0; start from any other point" : "";
  }
  bool plus(const double* x, const double* delta, double* out) const override {
    const Mirror mirror(x, size_);
    if (mirror.radius == 0) return false;
    const double angle = length(delta, size_ - 1);
    const double s = angle == 0 ? 1 : std::sin(angle) / angle;
    for (std::size_t k = 0; k + 1 < size_; ++k) out[k] = s * delta[k];
    out[size_ - 1] = std::cos(angle);
    mirror.apply(out);
    for (std::size_t k = 0; k < size_; ++k) out[k] *= mirror.radius;
    return true;
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    const Mirror mirror(x, size_);
    for (std::size_t k = 0; k < size_; ++k)
      for (std::size_t c = 0; c + 1 < size_; ++c)
        jacobian[k * (size_ - 1) + c] = mirror.radius * mirror.entry(k, c);
    return true;
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    const Mirror mirror(x, size_);
    std::vector<double> h(y, y + size_);
    mirror.apply(h.data());
    const double sine = length(h.data(), size_ - 1);
    const double s = sine == 0 ? 0 : std::atan2(sine, h[size_ - 1]) / sine;
    for (std::size_t k = 0; k + 1 < size_; ++k) delta[k] = s * h[k];
    // Every direction leads to the opposite point.
    if (sine == 0 && h[size_ - 1] < 0) delta[size_ - 2] = std::numbers::pi;
    return true;
  }
  bool minus_jacobian(const double* x, double* jacobian) const override {
    const Mirror mirror(x, size_);
    for (std::size_t c = 0; c + 1 < size_; ++c)
      for (std::size_t k = 0; k < size_; ++k)
        jacobian[c * size_ + k] = mirror.entry(k, c) / mirror.radius;
    return true;
  }

 private:
  static double length(const double* v, std::size_t size) {
    double square = 0;
    for (std::size_t k = 0; k < size; ++k) square += v[k] * v[k];
    return std::sqrt(square);
  }

  /// I − β v vᵀ with the last entry of v being 1; it maps the last axis to x / ‖x‖.
  struct Mirror {
    Mirror(const double* x, std::size_t size) : v(x, x + size), radius(length(x, size)) {
      const double head = length(x, size - 1), last = x[size - 1];
      v[size - 1] = 1;
      if (head == 0 && last >= 0) return;
      // x_last − ‖x‖ without cancellation.
      const double pivot = last <= 0 ? last - radius : -head * head / (last + radius);
      beta = 2 * pivot * pivot / (head * head + pivot * pivot);
      for (std::size_t k = 0; k + 1 < size; ++k) v[k] /= pivot;
    }
    double entry(std::size_t row, std::size_t column) const {
      return (row == column ? 1 : 0) - beta * v[row] * v[column];
    }
    void apply(double* y) const {
      double along = 0;
      for (std::size_t k = 0; k < v.size(); ++k) along += v[k] * y[k];
      for (std::size_t k = 0; k < v.size(); ++k) y[k] -= beta * along * v[k];
    }

    std::vector<double> v;
    double radius, beta = 0;
  };

  std::size_t size_;
};

}  // namespace

Manifold Manifold::quaternion() {
  static const Manifold& manifold = *new Manifold(
      std::make_shared<const Quaternions>(std::array<std::size_t, 4>{0, 1, 2, 3}, "quaternion"));
  return manifold;
}
Manifold Manifold::eigen_quaternion() {
  static const Manifold& manifold = *new Manifold(std::make_shared<const Quaternions>(
      std::array<std::size_t, 4>{3, 0, 1, 2}, "eigen_quaternion"));
  return manifold;
}
Manifold Manifold::so3_axis_angle() {
  static const Manifold& manifold = *new Manifold(std::make_shared<const AxisAngle>());
  return manifold;
}
Manifold Manifold::sphere(int size) {
  if (size < 2)
    throw Error(ErrorCode::InvalidArgument,
                "manifold: sphere: the size must be at least 2, got " + std::to_string(size));
  return Manifold(std::make_shared<const Sphere>(size));
}

}  // namespace topograd
