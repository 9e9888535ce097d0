// The manifolds of the library, with numbers and with Values.
#include "../manifold.hpp"
#include "../../autodiff/derivatives.hpp"
#include "../../ir/error.hpp"
#include "../../ir/evaluate.hpp"
#include "../quat.hpp"
#include "../traced_function.hpp"
#include "manifold_expression.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

namespace topograd {
namespace {

void expect(bool ok, const std::string& what) {
  if (!ok) throw Error(ErrorCode::InvalidArgument, "manifold: " + what);
}

/// Numbers of which some stay fixed.
class Subset final : public ExpressedManifold {
 public:
  Subset(int size, const std::vector<int>& constant)
      : free_(static_cast<std::size_t>(size)), size_(size) {
    std::iota(free_.begin(), free_.end(), 0);
    std::erase_if(free_, [&](int k) { return std::ranges::find(constant, k) != constant.end(); });
  }

  int ambient_size() const override { return size_; }
  int tangent_size() const override { return static_cast<int>(free_.size()); }
  std::string name() const override { return tangent_size() == size_ ? "euclidean" : "subset"; }
  bool plus(const double* x, const double* delta, double* out) const override {
    std::copy(x, x + size_, out);
    for (std::size_t k = 0; k < free_.size(); ++k) out[free_[k]] += delta[k];
    return true;
  }
  bool plus_jacobian(const double*, double* jacobian) const override {
    std::fill(jacobian, jacobian + free_.size() * static_cast<std::size_t>(size_), 0.0);
    for (std::size_t k = 0; k < free_.size(); ++k)
      jacobian[static_cast<std::size_t>(free_[k]) * free_.size() + k] = 1;
    return true;
  }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    std::vector<Value> out(x.begin(), x.end());
    for (std::size_t k = 0; k < free_.size(); ++k) {
      const auto at = static_cast<std::size_t>(free_[k]);
      out[at] = out[at] + delta[k];
    }
    return out;
  }
  std::string key() const override {
    std::string text = "subset " + std::to_string(size_) + ":";
    for (const int k : free_) text += " " + std::to_string(k);
    return text;
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    for (std::size_t k = 0; k < free_.size(); ++k) delta[k] = y[free_[k]] - x[free_[k]];
    return true;
  }
  bool minus_jacobian(const double*, double* jacobian) const override {
    const auto n = static_cast<std::size_t>(size_);
    std::fill(jacobian, jacobian + free_.size() * n, 0.0);
    for (std::size_t k = 0; k < free_.size(); ++k)
      jacobian[k * n + static_cast<std::size_t>(free_[k])] = 1;
    return true;
  }

 private:
  std::vector<int> free_;
  int size_;
};

/// The product of manifolds.
class Product final : public ExpressedManifold {
 public:
  explicit Product(std::vector<Manifold> parts) : parts_(std::move(parts)) {
    for (const Manifold& part : parts_) {
      ambient_ += part.ambient_size();
      tangent_ += part.tangent_size();
    }
  }

  int ambient_size() const override { return ambient_; }
  int tangent_size() const override { return tangent_; }
  std::string name() const override {
    std::string text = "product(";
    for (const Manifold& part : parts_) text += (text.back() == '(' ? "" : ", ") + part.name();
    return text + ")";
  }
  bool plus(const double* x, const double* delta, double* out) const override {
    return std::ranges::all_of(parts_, [&](const Manifold& part) {
      const bool ok = part.plus(x, delta, out);
      x += part.ambient_size();
      out += part.ambient_size();
      delta += part.tangent_size();
      return ok;
    });
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    return diagonal(x, jacobian, tangent_, true);
  }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    std::vector<Value> out;
    for (const Manifold& part : parts_) {
      const auto n = static_cast<std::size_t>(part.ambient_size());
      const auto t = static_cast<std::size_t>(part.tangent_size());
      const std::vector<Value> moved = plus_expression(part, x.first(n), delta.first(t));
      if (moved.empty()) return {};
      out.insert(out.end(), moved.begin(), moved.end());
      x = x.subspan(n);
      delta = delta.subspan(t);
    }
    return out;
  }
  std::string refusal(const double* x) const override {
    for (const Manifold& part : parts_) {
      std::string text = part.refusal(x);
      if (!text.empty()) return "part " + part.name() + ": " + text;
      x += part.ambient_size();
    }
    return {};
  }
  void reduce(double* x) const override {
    for (const Manifold& part : parts_) {
      topograd::reduce(part, x);
      x += part.ambient_size();
    }
  }
  std::string key() const override {
    std::string text = "product(";
    for (const Manifold& part : parts_) {
      const auto* expressed = part.model()->expressed();
      const std::string key = expressed == nullptr ? std::string() : expressed->key();
      if (key.empty()) return {};
      text += key + "; ";
    }
    return text + ")";
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    return std::ranges::all_of(parts_, [&](const Manifold& part) {
      const bool ok = part.minus(y, x, delta);
      x += part.ambient_size();
      y += part.ambient_size();
      delta += part.tangent_size();
      return ok;
    });
  }
  bool minus_jacobian(const double* x, double* jacobian) const override {
    return diagonal(x, jacobian, ambient_, false);
  }

 private:
  // The parts' Jacobians (of plus or of minus) as diagonal blocks of a matrix with `width` columns.
  bool diagonal(const double* x, double* jacobian, int width, bool plus) const {
    std::fill(jacobian, jacobian + ambient_ * tangent_, 0.0);
    int row = 0, column = 0;
    for (const Manifold& part : parts_) {
      const int n = part.ambient_size(), t = part.tangent_size();
      const int rows = plus ? n : t, columns = plus ? t : n;
      std::vector<double> block(static_cast<std::size_t>(n * t));
      if (!(plus ? part.plus_jacobian(x, block.data()) : part.minus_jacobian(x, block.data())))
        return false;
      for (int r = 0; r < rows; ++r)
        std::copy_n(block.data() + r * columns, columns, jacobian + (row + r) * width + column);
      row += rows;
      column += columns;
      x += n;
    }
    return true;
  }

  std::vector<Manifold> parts_;
  int ambient_ = 0, tangent_ = 0;
};

/// A manifold whose Plus is an expression over x and then δ.
class Traced final : public ExpressedManifold {
 public:
  Traced(int ambient, int tangent, detail::TracedFunction plus, std::string name)
      : plus_(std::move(plus)), ambient_(ambient), tangent_(tangent), name_(std::move(name)) {
    std::vector<std::uint32_t> slots(static_cast<std::size_t>(tangent));
    std::iota(slots.begin(), slots.end(), static_cast<std::uint32_t>(ambient));
    jacobian_ = autodiff::jacobian(plus_.program, slots);
  }

  int ambient_size() const override { return ambient_; }
  int tangent_size() const override { return tangent_; }
  std::string name() const override { return name_; }
  bool plus(const double* x, const double* delta, double* out) const override {
    return evaluate(plus_.program, x, delta, out);
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    const std::vector<double> zero(static_cast<std::size_t>(tangent_), 0.0);
    return evaluate(jacobian_, x, zero.data(), jacobian);
  }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    // Rebuilt from the program, because objects that the user's function refers to may be gone.
    std::vector<Value> nodes, out;
    for (const ir::Node& node : plus_.program.nodes) {
      const auto operand = [&](std::size_t k) { return nodes[node.operands()[k]]; };
      if (node.op == ir::Op::Parameter)
        nodes.push_back(node.slot() < x.size() ? x[node.slot()] : delta[node.slot() - x.size()]);
      else if (node.op == ir::Op::Data)
        nodes.push_back(literal(plus_.numbers[node.slot()]));
      else if (node.op == ir::Op::Literal)
        nodes.push_back(literal(node.literal()));
      else
        nodes.push_back(node.operands().size() == 1 ? Value::make(node.op, operand(0))
                        : node.operands().size() == 2
                            ? Value::make(node.op, operand(0), operand(1))
                            : Value::make(node.op, operand(0), operand(1), operand(2)));
    }
    for (const ir::Id output : plus_.program.outputs) out.push_back(nodes[output]);
    return out;
  }

 private:
  bool evaluate(const ir::Program& program, const double* x, const double* delta,
                double* out) const {
    std::vector<double> arguments(x, x + ambient_);
    arguments.insert(arguments.end(), delta, delta + tangent_);
    const std::vector<double> values =
        ir::evaluate<double>(program, {arguments, plus_.numbers, {}, {}, {}});
    std::ranges::copy(values, out);
    return true;
  }

  detail::TracedFunction plus_;
  ir::Program jacobian_;
  int ambient_, tangent_;
  std::string name_;
};

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

/// Unit quaternions; `position[k]` is the position of component k of (w, x, y, z).
class Quaternions final : public ExpressedManifold {
 public:
  Quaternions(std::array<std::size_t, 4> position, std::string name)
      : position_(position), name_(std::move(name)) {}

  int ambient_size() const override { return 4; }
  int tangent_size() const override { return 3; }
  std::string name() const override { return name_; }
  std::vector<Value> expression(std::span<const Value> x,
                                std::span<const Value> delta) const override {
    return detail::quaternion_plus(x, delta, position_);
  }
  std::string key() const override { return name_; }
  std::string refusal(const double* x) const override {
    const bool zero = std::all_of(x, x + 4, [](double number) { return number == 0; });
    return zero ? "a quaternion of length 0 is no rotation; the identity is w = 1" : "";
  }
  bool plus(const double* x, const double* delta, double* out) const override {
    const QuatOfDoubles q = exponential_doubles(delta) * read(x);
    const double parts[] = {q.w, q.x, q.y, q.z};
    for (std::size_t k = 0; k < 4; ++k) out[position_[k]] = parts[k];
    return true;
  }
  bool plus_jacobian(const double* x, double* jacobian) const override {
    const auto rows = tangents(read(x));
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t c = 0; c < 3; ++c) jacobian[position_[k] * 3 + c] = rows[k][c];
    return true;
  }
  bool minus(const double* y, const double* x, double* delta) const override {
    logarithm(read(y) * conjugate(read(x)), delta);
    return true;
  }
  bool minus_jacobian(const double* x, double* jacobian) const override {
    const auto rows = tangents(read(x));
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t c = 0; c < 3; ++c) jacobian[c * 4 + position_[k]] = rows[k][c];
    return true;
  }

 private:
  QuatOfDoubles read(const double* x) const {
    return {x[position_[0]], x[position_[1]], x[position_[2]], x[position_[3]]};
  }
  // d(exp(δ) q)/dδ at 0: the products of i, j, k with q as columns.
  static std::array<std::array<double, 3>, 4> tangents(const QuatOfDoubles& q) {
    return {{{-q.x, -q.y, -q.z}, {q.w, q.z, -q.y}, {-q.z, q.w, q.x}, {q.y, -q.x, q.w}}};
  }

  std::array<std::size_t, 4> position_;
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

std::string ManifoldModel::refusal(const double* x) const {
  const auto n = static_cast<std::size_t>(ambient_size());
  std::vector<double> tangents(n * static_cast<std::size_t>(tangent_size()));
  if (tangents.empty()) return "";
  if (!plus_jacobian(x, tangents.data())) return "it has no tangent space there";
  const auto finite = [](double number) { return std::isfinite(number); };
  if (!std::all_of(x, x + n, finite) || std::ranges::all_of(tangents, finite)) return "";
  return "the derivative of its plus is not finite there";
}
bool ManifoldModel::minus(const double*, const double*, double*) const {
  throw Error(ErrorCode::Unsupported, "manifold: " + name() + " has no minus");
}
bool ManifoldModel::minus_jacobian(const double*, double*) const {
  throw Error(ErrorCode::Unsupported, "manifold: " + name() + " has no minus");
}

Manifold Manifold::euclidean(int size) { return subset(size, {}); }

Manifold Manifold::subset(int size, std::vector<int> constant) {
  expect(size >= 1, "the size must be at least 1, got " + std::to_string(size));
  std::ranges::sort(constant);
  for (std::size_t k = 0; k < constant.size(); ++k) {
    expect(constant[k] >= 0 && constant[k] < size,
           "subset: coordinate " + std::to_string(constant[k]) + " is out of range (size is " +
               std::to_string(size) + ")");
    expect(k == 0 || constant[k] != constant[k - 1],
           "subset: coordinate " + std::to_string(constant[k]) + " is named twice");
  }
  return Manifold(std::make_shared<const Subset>(size, constant));
}

Manifold Manifold::product(std::vector<Manifold> parts) {
  expect(!parts.empty(), "a product must have at least one part");
  return Manifold(std::make_shared<const Product>(std::move(parts)));
}

Manifold Manifold::custom(
    int ambient_size, int tangent_size,
    const std::function<std::vector<Value>(std::span<const Value>, std::span<const Value>)>& plus,
    std::string name) {
  expect(ambient_size >= 1 && tangent_size >= 1 && tangent_size <= ambient_size,
         "custom: the tangent size must be in 1 .. ambient size, got " +
             std::to_string(tangent_size) + " and " + std::to_string(ambient_size));
  const auto n = static_cast<std::size_t>(ambient_size), t = static_cast<std::size_t>(tangent_size);
  const auto rows = [&](std::span<const Value> v) {
    std::vector<Value> out = plus(v.first(n), v.subspan(n));
    if (out.size() != n)
      throw Error(ErrorCode::Shape, "manifold: custom: expected " + std::to_string(n) +
                                        " Values of plus, got " + std::to_string(out.size()));
    return out;
  };
  return Manifold(std::make_shared<const Traced>(
      ambient_size, tangent_size,
      detail::trace_function(
          "custom manifold", n + t, rows,
          {.one = "a block", .all = "all blocks", .advice = "make a manifold for each number"}),
      std::move(name)));
}

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
  const auto* expressed = manifold.model()->expressed();
  return expressed == nullptr ? std::vector<Value>() : expressed->expression(x, delta);
}

void reduce(const Manifold& manifold, double* x) {
  const auto* expressed = manifold.model()->expressed();
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

namespace {

struct ManifoldRow {
  std::string_view name;
  Manifold (*make)(int width);
};
constexpr ManifoldRow kManifolds[] = {
    {"quaternion", [](int) { return Manifold::quaternion(); }},
    {"eigen_quaternion", [](int) { return Manifold::eigen_quaternion(); }},
    {"so3_axis_angle", [](int) { return Manifold::so3_axis_angle(); }},
    {"sphere", Manifold::sphere},
};

}  // namespace

std::optional<Manifold> find_manifold(std::string_view name, int width) {
  const auto found = std::ranges::find(kManifolds, name, &ManifoldRow::name);
  if (found == std::end(kManifolds)) return std::nullopt;
  return found->make(width);
}

std::string manifold_names() {
  std::string names;
  for (const ManifoldRow& row : kManifolds)
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace topograd
