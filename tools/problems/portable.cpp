// Small problems whose inputs are the same numbers on every machine.
#include "portable.hpp"

#include "../../api/formats/bundle_adjustment.hpp"
#include "../../frontend/geometry.hpp"
#include "../../frontend/mat.hpp"
#include "../../frontend/quat.hpp"
#include "../../ir/hash.hpp"

#include <array>
#include <cmath>

namespace topograd::problems {
namespace {

using Made = std::unique_ptr<PortableProblem>;

/// Numbers in [−1, 1): splitmix64 (Steele, Lea, Flood 2014).
class Numbers {
 public:
  double next() {
    state_ += 0x9e3779b97f4a7c15;
    return static_cast<double>(ir::mix64(state_) >> 11) * 0x1p-52 - 1;
  }

 private:
  std::uint64_t state_ = 1;
};

Made make(LinearSolver linear, int steps = 8, Method method = Method::levenberg_marquardt) {
  auto out = std::make_unique<PortableProblem>();
  out->options.method = method;
  out->options.linear_solver = linear;
  out->options.max_iterations = steps;
  return out;
}

Parameters add(PortableProblem& to, std::vector<double> start, int width) {
  return to.problem.add_parameters(to.x.emplace_back(std::move(start)), width);
}

/// A grid of vertices that are a little off, with springs of length 1, √2, and corners pulled out.
Made springs(Made out, std::uint32_t w, const Loss& loss = {}) {
  Numbers random;
  std::vector<double> start;
  for (std::uint32_t k = 0; k < w * w; ++k)
    for (const double at : {double(k % w), double(k / w), 0.0})
      start.push_back(at + 0.1 * random.next());
  const Parameters x = add(*out, std::move(start), 3);
  const auto spring = [&](std::uint32_t a, std::uint32_t b, double rest) {
    out->problem.add_residual(norm(x.vec3(a) - x.vec3(b)) - rest, {.loss = loss});
  };
  for (std::uint32_t k = 0; k < w * w; ++k) {
    const bool right = k % w + 1 < w, up = k / w + 1 < w;
    if (right) spring(k, k + 1, 1);
    if (up) spring(k, k + w, 1);
    if (right && up) spring(k, k + w + 1, std::sqrt(2.0));
  }
  for (const std::uint32_t k : {0u, w - 1, w * (w - 1), w * w - 1})
    out->problem.add_residual(x.vec3(k) - Vec3{1.1 * (k % w), 1.1 * double(k / w), 0.0});
  return out;
}

/// As-rigid-as-possible: a grid whose last column is lifted, with a rotation vector per vertex.
Made rotations(Made out, std::uint32_t w) {
  std::vector<double> rest;
  Numbers random;
  for (std::uint32_t k = 0; k < w * w; ++k)
    for (const double at : {double(k % w), double(k / w), 0.0})
      rest.push_back(at + 0.05 * random.next());
  const Parameters p = add(*out, rest, 3);
  const Parameters a = add(*out, std::vector<double>(rest.size()), 3);
  const auto edge = [&](std::uint32_t i, std::uint32_t j) {
    const double* u = rest.data();
    const Vec3 between = {u[3 * i] - u[3 * j], u[3 * i + 1] - u[3 * j + 1],
                          u[3 * i + 2] - u[3 * j + 2]};
    out->problem.add_residual(p.vec3(i) - p.vec3(j) - rotate(a.vec3(i), between));
  };
  for (std::uint32_t k = 0; k < w * w; ++k) {
    if (k % w + 1 < w) edge(k, k + 1), edge(k + 1, k);
    if (k / w + 1 < w) edge(k, k + w), edge(k + w, k);
    if (k % w != 0 && k % w + 1 != w) continue;
    const Vec3 target = {rest[3 * k], rest[3 * k + 1], k % w == 0 ? 0.0 : w / 2.0};
    out->problem.add_residual((p.vec3(k) - target) * 10.0);
  }
  return out;
}

/// Cameras on a line that look at a cube of points, as BundleScene has it.
Made bundle(Made out, std::uint32_t cameras, std::uint32_t points, Loss loss = {}) {
  Numbers random;
  BundleScene scene;
  for (std::uint32_t i = 0; i < cameras; ++i)
    for (const double number : {0.0, 0.0, 0.0, 2.0 - 4.0 * i / cameras, 0.0, -6.0, 500.0, 0.0, 0.0})
      scene.cameras.push_back(number);
  for (std::uint32_t j = 0; j < 3 * points; ++j) scene.points.push_back(random.next());
  // Without a rotation, an image is made by arithmetic alone.
  for (std::uint32_t j = 0; j < points; ++j) {
    for (std::uint32_t i = 0; i < cameras; ++i) {
      if ((i + j) % 3 == 0) continue;
      const double* t = &scene.cameras[9 * i + 3];
      const double z = scene.points[3 * j + 2] + t[2];
      scene.observations.push_back(
          {i,
           j,
           {500 * -(scene.points[3 * j] + t[0]) / z + 0.3 * random.next(),
            500 * -(scene.points[3 * j + 1] + t[1]) / z + 0.3 * random.next()}});
    }
  }
  for (std::size_t k = 0; k < scene.cameras.size(); ++k)
    scene.cameras[k] += k % 9 < 6 ? 0.02 * random.next() : 0;
  for (double& number : scene.points) number += 0.05 * random.next();
  const Parameters of_cameras = add(*out, scene.cameras, 9), of_points = add(*out, scene.points, 3);
  add_reprojections(out->problem, of_cameras, of_points, scene, loss);
  return out;
}

/// Poses on a square spiral with unit quaternions, measured with errors; the first one is fixed.
Made pose_graph(Made out, std::uint32_t poses) {
  Numbers random;
  std::vector<double> positions, turns;
  for (std::uint32_t k = 0; k < poses; ++k) {
    for (const double at : {double(k % 7), double(k / 7), 0.1 * k})
      positions.push_back(at + 0.1 * random.next());
    const std::array<double, 3> v = {0.1 * random.next(), 0.1 * random.next(), 0.3 * (k % 4)};
    const double length = std::sqrt(1 + v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    turns.push_back(1 / length);
    for (const double part : v) turns.push_back(part / length);
  }
  const Parameters p = add(*out, positions, 3), q = add(*out, turns, 4);
  for (std::uint32_t k = 0; k < poses; ++k) out->problem.set_manifold(q, k, Manifold::quaternion());
  out->problem.set_constant(p, 0);
  out->problem.set_constant(q, 0);
  const auto edge = [&](std::uint32_t a, std::uint32_t b) {
    const Vec3 moved = {0.2 * random.next() + 1, 0.2 * random.next(), 0.1};
    const Quat turned = {1.0, 0.05 * random.next(), 0.05 * random.next(), 0.1};
    const Quat between = conjugate(q.quat(a)) * q.quat(b);
    const Quat error = conjugate(turned) * between;
    out->problem.add_residual(rotate(conjugate(q.quat(a)), p.vec3(b) - p.vec3(a)) - moved);
    out->problem.add_residual(Vec3{error.x, error.y, error.z} * 2.0);
  };
  for (std::uint32_t k = 0; k + 1 < poses; ++k) edge(k, k + 1);
  for (std::uint32_t k = 0; k + 7 < poses; ++k) edge(k, k + 7);
  return out;
}

/// Misra1a of NIST's StRD: y = b1 (1 − exp(−b2 x)).
Made misra1a() {
  Made out = make(LinearSolver::cholesky, 50);
  constexpr std::array<std::array<double, 2>, 14> kData = {{{10.07, 77.6},
                                                            {14.73, 114.9},
                                                            {17.94, 141.1},
                                                            {23.93, 190.8},
                                                            {29.61, 239.9},
                                                            {35.18, 289.0},
                                                            {40.02, 332.8},
                                                            {44.82, 378.4},
                                                            {50.76, 434.8},
                                                            {55.05, 477.3},
                                                            {61.01, 536.8},
                                                            {66.40, 593.1},
                                                            {75.47, 689.1},
                                                            {81.78, 760.0}}};
  const Parameters b = add(*out, {500, 0.0001}, 1);
  for (const auto& [y, x] : kData) out->problem.add_residual(b[0] * (1.0 - exp(-(b[1] * x))) - y);
  return out;
}

/// Sums of waves and decays, with a robust loss.
Made waves() {
  Made out = make(LinearSolver::cholesky, 30);
  Numbers random;
  const Parameters b = add(*out, {1.0, 0.9, 0.5, 0.4, 2.0, 0.1}, 1);
  for (int k = 0; k < 120; ++k) {
    const double t = k / 16.0, y = 0.5 * random.next() + (k % 9 < 4 ? 1.0 : -0.5);
    const Value wave = b[0] * sin(b[1] * t + b[2]) + b[3] * exp(-(b[4] * t)) + b[5] * t;
    out->problem.add_residual(wave - y, {.loss = Loss::cauchy(0.5)});
  }
  return out;
}

/// A block for each function of the op table, at a few hundred points.
Made functions() {
  Made out = make(LinearSolver::pcg, 6);
  Numbers random;
  constexpr std::uint32_t kBlocks = 300;
  std::vector<double> start;
  for (std::uint32_t k = 0; k < 2 * kBlocks; ++k) start.push_back(0.9 * random.next());
  const Parameters p = add(*out, std::move(start), 2);
  for (std::uint32_t k = 0; k < kBlocks; ++k) {
    const Vec2 at = p.vec2(k);
    const Value &x = at.x, &y = at.y, u = x * 0.9, over = x * x + 1.25;
    const std::array<Value, 26> rows = {
        sin(x * 9.0),       cos(y * 7.0),       tan(x),         asin(u),        acos(u),
        atan(x * 3.0),      atan2(y, x + 2.0),  exp(x * 4.0),   exp2(y * 3.0),  expm1(x),
        log(over),          log2(over + y * y), log10(over),    log1p(y * 0.8), sinh(x * 2.0),
        cosh(y * 2.0),      tanh(x * 1.5),      asinh(y * 4.0), acosh(over),    atanh(u),
        erf(x * 1.2),       cbrt(over - 0.9),   pow(over, y),   hypot(x, over), sigmoid(y * 3.0),
        normal_cdf(x * 2.0)};
    for (const Value& row : rows) out->problem.add_residual((row - 0.1 * random.next()) * 0.2);
  }
  return out;
}

/// A chain of Rosenbrock's valleys as an energy.
Made valleys(Method method) {
  Made out = make(LinearSolver::automatic, 40, method);
  Numbers random;
  std::vector<double> start;
  for (int k = 0; k < 40; ++k) start.push_back(0.5 * random.next());
  const Parameters x = add(*out, std::move(start), 1);
  for (std::size_t k = 0; k + 1 < 40; ++k) {
    const Value a = x[k], b = x[k + 1];
    out->problem.add_energy(10.0 * square(b - a * a) + square(1.0 - a) + exp(-b));
  }
  return out;
}

Made mixed_springs() {
  Made out = springs(make(LinearSolver::pcg), 24);
  out->options.precision = Precision::mixed;
  return out;
}

constexpr PortableRow kRows[] = {
    {"springs pcg", true, [] { return springs(make(LinearSolver::pcg, 5), 32); }},
    {"springs cholesky", false, [] { return springs(make(LinearSolver::cholesky), 20); }},
    {"springs mixed", false, mixed_springs},
    {"springs dogleg", false,
     [] { return springs(make(LinearSolver::automatic, 12, Method::dogleg), 8); }},
    {"rotations pcg", false, [] { return rotations(make(LinearSolver::pcg), 16); }},
    {"rotations cholesky", false, [] { return rotations(make(LinearSolver::cholesky), 16); }},
    {"bundle schur", false, [] { return bundle(make(LinearSolver::schur), 9, 120); }},
    {"bundle pcg huber", false,
     [] { return bundle(make(LinearSolver::pcg), 6, 80, Loss::huber(0.5)); }},
    {"pose graph pcg", false, [] { return pose_graph(make(LinearSolver::pcg, 15), 60); }},
    {"misra1a", false, misra1a},
    {"waves cauchy", false, waves},
    {"functions", false, functions},
    {"valleys lbfgs", false, [] { return valleys(Method::lbfgs); }},
    {"valleys newton", false, [] { return valleys(Method::newton); }},
};

}  // namespace

std::span<const PortableRow> portable_problems() { return kRows; }

}  // namespace topograd::problems
