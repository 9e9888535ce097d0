// One builder for each kind of problem.
#include "random_problems.hpp"

#include "../../../frontend/manifold.hpp"
#include "../../../frontend/value/math.hpp"

#include <cmath>
#include <cstdint>

namespace topograd::test {
namespace {

/// Numbers that are the same with every standard library.
class Random {
 public:
  explicit Random(unsigned seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {
    for (int k = 0; k < 3; ++k) bits();
  }
  std::uint64_t bits() {  // splitmix64 (Steele, Lea, Flood 2014)
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
  }
  std::size_t below(std::size_t count) { return bits() % count; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
    return radius * std::cos(6.283185307179586 * uniform(0, 1));
  }
  std::vector<double> normals(std::size_t count) {
    std::vector<double> out(count);
    for (double& x : out) x = normal();
    return out;
  }

 private:
  std::uint64_t state_;
};

Parameters add(RandomProblem& p, std::vector<double> start, int width = 1) {
  p.x.push_back(std::move(start));
  return p.problem.add_parameters(p.x.back(), width);
}

Value dot(const std::vector<double>& a, const Parameters& x) {
  Value sum = x[0] * a[0];
  for (std::size_t k = 1; k < a.size(); ++k) sum = sum + x[k] * a[k];
  return sum;
}

struct Rows {
  std::size_t unknowns = 0, count = 0;
};
Rows few(Random& random) {
  const std::size_t n = 2 + random.below(4);
  return {n, 2 * n + random.below(7)};
}

void linear(RandomProblem& p, Random& random) {
  p.convex = true;
  const Rows size = few(random);
  const Parameters x = add(p, std::vector<double>(size.unknowns));
  for (std::size_t i = 0; i < size.count; ++i)
    p.problem.add_residual(dot(random.normals(size.unknowns), x) - 2 * random.normal());
}

/// Two columns that differ by 1e-4.
void collinear(RandomProblem& p, Random& random) {
  p.convex = true;
  const Rows size = few(random);
  const Parameters x = add(p, std::vector<double>(size.unknowns));
  for (std::size_t i = 0; i < size.count; ++i) {
    std::vector<double> a = random.normals(size.unknowns);
    a[1] = a[0] + 1e-4 * a[1];
    p.problem.add_residual(dot(a, x) - 2 * random.normal());
  }
}

/// Two equal columns.
void deficient(RandomProblem& p, Random& random) {
  p.convex = true;
  const Rows size = few(random);
  const Parameters x = add(p, std::vector<double>(size.unknowns));
  for (std::size_t i = 0; i < size.count; ++i) {
    std::vector<double> a = random.normals(size.unknowns);
    a[1] = a[0];
    p.problem.add_residual(dot(a, x) - 2 * random.normal());
  }
}

void waves(RandomProblem& p, Random& random) {
  const Rows size = few(random);
  const Parameters x = add(p, std::vector<double>(size.unknowns));
  for (std::size_t i = 0; i < size.count; ++i) {
    const Value phase = dot(random.normals(size.unknowns), x);
    p.problem.add_residual(dot(random.normals(size.unknowns), x) + 0.1 * sin(phase) -
                           2 * random.normal());
  }
}

/// Distances of points from a circle: centre, radius.
void circle(RandomProblem& p, Random& random) {
  const Parameters x = add(p, {0, 0, 1});
  const std::size_t count = 6 + random.below(7);
  for (std::size_t i = 0; i < count; ++i) {
    const double angle = 0.7 * static_cast<double>(i) + 0.1 * random.normal();
    const double a = 2 + 3 * std::cos(angle) + 0.1 * random.normal();
    const double b = -1 + 3 * std::sin(angle) + 0.1 * random.normal();
    p.problem.add_residual(hypot(x[0] - a, x[1] - b) - x[2]);
  }
}

void huber_line(RandomProblem& p, Random& random) {
  p.convex = true;
  const Rows size = few(random);
  const Parameters x = add(p, std::vector<double>(size.unknowns));
  for (std::size_t i = 0; i < size.count; ++i)
    p.problem.add_residual(dot(random.normals(size.unknowns), x) - 2 * random.normal(), huber(0.7));
}

/// A line through points of which some lie far away, with a loss that is not convex.
void outliers(RandomProblem& p, Random& random) {
  const Parameters x = add(p, {0, 0});
  const Loss losses[] = {cauchy(0.5), soft_l1(0.3), arctan(2)};
  const Loss loss = losses[random.below(3)];
  const double a = random.normal(), b = random.normal();
  for (int i = 0; i < 20; ++i) {
    const double t = 0.1 * i - 1, far = i % 6 == 5 ? random.uniform(2, 5) : 0;
    p.problem.add_residual(x[0] + x[1] * t - (a + b * t + 0.1 * random.normal() + far), loss);
  }
}

void boxed(RandomProblem& p, Random& random) {
  p.convex = true;
  const Rows size = few(random);
  const Parameters x = add(p, std::vector<double>(size.unknowns));
  for (std::size_t k = 0; k < size.unknowns; ++k)
    p.problem.set_bounds(x, k, 0, -0.2, k % 2 == 0 ? 0.5 : 1e300);
  for (std::size_t i = 0; i < size.count; ++i)
    p.problem.add_residual(dot(random.normals(size.unknowns), x) - 2 * random.normal());
}

/// a exp(−b t) + c; every other one keeps b within a box that it wants to leave.
void decay(RandomProblem& p, Random& random) {
  const double a = random.uniform(1, 3), b = random.uniform(0.5, 2), c = random.normal();
  const Parameters x = add(p, {0.8 * a, 1, 0});
  for (int i = 0; i < 20; ++i) {
    const double t = 0.2 * i;
    p.problem.add_residual(x[0] * exp(-x[1] * t) + x[2] -
                           (a * std::exp(-b * t) + c + 0.02 * random.normal()));
  }
  if (random.below(2) == 0) p.problem.set_bounds(x, 1, 0, 0.1, 1.2);
}

/// A signal: neighbours, and a weak pull to data, with a bend.
void chain(RandomProblem& p, Random& random) {
  const std::size_t n = 30 + random.below(40);
  const Parameters x = add(p, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    p.problem.add_residual(0.3 * (x[i] + 0.1 * sin(x[i]) - 2 * random.normal()));
    if (i + 1 < n) p.problem.add_residual(x[i + 1] - x[i] - 0.1 * random.normal());
  }
}

void dense_tanh(RandomProblem& p, Random& random) {
  const std::size_t n = 12;
  const Parameters x = add(p, std::vector<double>(n));
  for (std::size_t i = 0; i < 3 * n; ++i) {
    std::vector<double> a = random.normals(n);
    for (double& number : a) number *= 0.3;
    p.problem.add_residual(tanh(dot(a, x)) - 0.5 * random.normal());
  }
  for (std::size_t k = 0; k < n; ++k) p.problem.add_residual(0.1 * x[k]);
}

/// Poses in the plane around a loop: increments, seen from the pose before.
void poses(RandomProblem& p, Random& random) {
  const std::size_t n = 8 + random.below(6);
  const double turn = 6.283185307179586 / static_cast<double>(n);
  std::vector<double> start(3 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const double heading = turn * static_cast<double>(i);
    start[3 * i] = std::sin(heading) / turn + 0.1 * random.normal();
    start[3 * i + 1] = (1 - std::cos(heading)) / turn + 0.1 * random.normal();
    start[3 * i + 2] = heading + 0.1 * random.normal();
  }
  const Parameters x = add(p, start, 3);
  for (int k = 0; k < 3; ++k) p.problem.add_residual(x(0, k));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t j = (i + 1) % n;
    const Value dx = x(j, 0) - x(i, 0), dy = x(j, 1) - x(i, 1);
    const Value c = cos(x(i, 2)), s = sin(x(i, 2));
    const double wrap = j == 0 ? 2 * 3.141592653589793 : 0;
    p.problem.add_residual({c * dx + s * dy - 1 - 0.05 * random.normal(),
                            c * dy - s * dx - 0.05 * random.normal(),
                            x(j, 2) + wrap - x(i, 2) - turn - 0.05 * random.normal()});
  }
}

/// Rotations by quaternion that turn points to points, in a chain.
void rotations(RandomProblem& p, Random& random) {
  p.can_shift = false;
  const std::size_t n = 2 + random.below(3);
  std::vector<double> start;
  for (std::size_t i = 0; i < n; ++i) start.insert(start.end(), {1, 0, 0, 0});
  const Parameters q = add(p, start, 4);
  p.problem.set_manifold(q, Manifold::quaternion());
  for (std::size_t i = 0; i < n; ++i) {
    for (int k = 0; k < 4; ++k) {
      const std::vector<double> v = random.normals(3), e = random.normals(3);
      const Vec3 from{v[0], v[1], v[2]};
      const Vec3 to{v[0] - 0.4 * v[1] + 0.1 * e[0], v[1] + 0.4 * v[0] + 0.1 * e[1],
                    v[2] + 0.1 * e[2]};
      const Vec3 turned = rotate(q.quat(i), from);
      p.problem.add_residual(i == 0 ? turned - to : turned - rotate(q.quat(i - 1), to));
    }
  }
}

/// A direction that fits products, on the unit sphere, and a length.
void direction(RandomProblem& p, Random& random) {
  p.can_shift = false;
  const Parameters u = add(p, {0, 0, 1}, 3);
  const Parameters length = add(p, {1});
  p.problem.set_manifold(u, Manifold::sphere(3));
  const std::vector<double> truth = random.normals(3);
  for (int i = 0; i < 12; ++i) {
    const std::vector<double> a = random.normals(3);
    const double y = a[0] * truth[0] + a[1] * truth[1] + a[2] * (truth[2] + 1);
    p.problem.add_residual(length[0] * (u(0, 0) * a[0] + u(0, 1) * a[1] + u(0, 2) * a[2]) - y -
                           0.1 * random.normal());
  }
}

/// Products of two groups of unknowns: each row reads one of either, as cameras see points.
void products(RandomProblem& p, Random& random) {
  const std::size_t cameras = 3, points = 8;
  const Parameters c = add(p, std::vector<double>(cameras, 1.0));
  const Parameters x = add(p, std::vector<double>(points, 1.0));
  for (std::size_t i = 0; i < cameras; ++i) {
    p.problem.add_residual(0.5 * (c[i] - 1.0));
    for (std::size_t j = 0; j < points; ++j)
      p.problem.add_residual(c[i] * x[j] - random.uniform(0.5, 2));
  }
}

/// Rows that can all be zero.
void exact(RandomProblem& p, Random& random) {
  const std::size_t n = 2 + random.below(4);
  const Parameters x = add(p, std::vector<double>(n));
  const std::vector<double> truth = random.normals(n);
  for (std::size_t i = 0; i < 2 * n; ++i) {
    const std::vector<double> a = random.normals(n);
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k) sum += a[k] * truth[k];
    const Value v = dot(a, x);
    p.problem.add_residual(v + 0.1 * sin(v) - (sum + 0.1 * std::sin(sum)));
  }
}

/// Nearly the same row twice, and a third, weak one that tells their unknowns apart.
void parallel(RandomProblem& p, Random& random) {
  p.convex = true;
  const Parameters x = add(p, {0, 0});
  const double w = std::pow(10, -random.uniform(1, 6));
  for (int i = 0; i < 5; ++i) {
    p.problem.add_residual(x[0] + x[1] - random.normal());
    p.problem.add_residual(w * (x[0] - x[1]) - 3 * random.normal());
  }
}

/// Slopes that differ on both sides of 0.
void kinks(RandomProblem& p, Random& random) {
  p.smooth = false;
  const Rows size = few(random);
  const Parameters x = add(p, std::vector<double>(size.unknowns));
  for (std::size_t i = 0; i < size.count; ++i) {
    const Value v = dot(random.normals(size.unknowns), x);
    p.problem.add_residual(max(v, 0.5 * v) - 2 * random.normal());
  }
}

/// Columns and rows of very different sizes.
void uneven(RandomProblem& p, Random& random) {
  p.convex = true;
  p.can_shift = false;
  const Rows size = few(random);
  const Parameters x = add(p, std::vector<double>(size.unknowns));
  std::vector<double> units;
  for (std::size_t k = 0; k < size.unknowns; ++k)
    units.push_back(std::pow(10, random.uniform(-6, 6)));
  for (std::size_t i = 0; i < size.count; ++i) {
    std::vector<double> a = random.normals(size.unknowns);
    for (std::size_t k = 0; k < a.size(); ++k) a[k] *= units[k];
    p.problem.add_residual(std::pow(10, random.uniform(-2, 2)) * (dot(a, x) - 2 * random.normal()));
  }
}

/// Rotations by axis and angle, some of which start near a whole turn.
void turns(RandomProblem& p, Random& random) {
  p.can_shift = false;
  const double angle = random.below(2) == 0 ? 0 : 6.2;
  const Parameters a = add(p, {0, 0, angle}, 3);
  if (random.below(2) == 0) p.problem.set_manifold(a, Manifold::so3_axis_angle());
  for (int k = 0; k < 6; ++k) {
    const std::vector<double> v = random.normals(3), e = random.normals(3);
    const Vec3 from{v[0], v[1], v[2]};
    const Vec3 to{v[0] - 0.4 * v[1] + 0.1 * e[0], v[1] + 0.4 * v[0] + 0.1 * e[1],
                  v[2] + 0.1 * e[2]};
    p.problem.add_residual(rotate(a.vec3(0), from) - to);
  }
}

/// Rosenbrock's valley, with noise.
void valley(RandomProblem& p, Random& random) {
  const Parameters x = add(p, {random.uniform(-2, 2), random.uniform(-2, 2)});
  const double steep = random.uniform(3, 12);
  p.problem.add_residual(steep * (x[1] - x[0] * x[0]));
  p.problem.add_residual(1.0 - x[0]);
  p.problem.add_residual(x[0] * x[1] - random.normal());
}

/// Fixed unknowns, boxes that are nearly one point, and starts on bounds.
void pinned(RandomProblem& p, Random& random) {
  p.convex = true;
  const std::size_t n = 5;
  const Parameters x = add(p, {0.3, -0.2, 0.7, 0, 0});
  p.problem.set_constant(x, 0);
  p.problem.set_bounds(x, 1, 0, -0.2, 3);
  p.problem.set_bounds(x, 2, 0, 0.7, 0.7 + 1e-9);
  p.problem.set_bounds(x, 3, 0, -1e-3, 1e-3);
  for (std::size_t i = 0; i < 12; ++i)
    p.problem.add_residual(dot(random.normals(n), x) - 2 * random.normal());
}

/// Products of two directions, and their sum: each is flat where the other is 0.
void bilinear(RandomProblem& p, Random& random) {
  const Parameters x = add(p, {0.1, 0.1, 0, 0});
  for (int i = 0; i < 10; ++i) {
    const std::vector<double> a = random.normals(4);
    p.problem.add_residual((x[0] * a[0] + x[1] * a[1]) * (1.0 + x[2] * a[2] + x[3] * a[3]) -
                           random.normal());
  }
}

struct Kind {
  const char* name;
  void (*build)(RandomProblem&, Random&);
};
constexpr Kind kKinds[] = {
    {"linear", linear},       {"collinear", collinear},   {"deficient", deficient},
    {"waves", waves},         {"circle", circle},         {"huber", huber_line},
    {"outliers", outliers},   {"boxed", boxed},           {"decay", decay},
    {"chain", chain},         {"dense tanh", dense_tanh}, {"poses", poses},
    {"rotations", rotations}, {"direction", direction},   {"products", products},
    {"exact", exact},         {"parallel", parallel},     {"kinks", kinks},
    {"uneven", uneven},       {"turns", turns},           {"valley", valley},
    {"pinned", pinned},       {"bilinear", bilinear},
};

}  // namespace

std::size_t random_kind_count() { return std::size(kKinds); }

std::unique_ptr<RandomProblem> random_problem(unsigned seed) {
  const Kind& kind = kKinds[seed % std::size(kKinds)];
  auto out = std::make_unique<RandomProblem>();
  out->kind = kind.name;
  out->seed = seed;
  Random random(seed);
  kind.build(*out, random);
  return out;
}

}  // namespace topograd::test
