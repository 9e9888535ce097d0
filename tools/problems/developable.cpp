// developable(mesh): energies that are 0 if a mesh can be unrolled; multi(mesh) adds others.
#include "developable.hpp"

#include "../../frontend/geometry.hpp"
#include "../../frontend/mat.hpp"
#include "../../frontend/value/reduce.hpp"
#include "../../frontend/vec.hpp"
#include "../../ir/error.hpp"
#include "../../solver/evaluator.hpp"
#include "mesh.hpp"
#include "smooth.hpp"

#include <string>

namespace topograd::problems {
namespace {

/// Kinds of stars with different expressions: VertexStar::fan and closed.
enum class Kind { closed, open, loose };
constexpr Kind kKinds[] = {Kind::closed, Kind::open, Kind::loose};

Kind kind_of(const VertexStar& star) {
  if (!star.fan) return Kind::loose;
  return star.closed ? Kind::closed : Kind::open;
}

/// Vertices of a star: the centre, then the ring.
struct Star {
  Vec3 center;
  std::vector<Vec3> ring;
  Kind kind;
  bool closed;

  Star(const Element& e, const Parameters& x, Kind its_kind)
      : center(e.vec3(x, 0)), kind(its_kind), closed(its_kind == Kind::closed) {
    for (int k = 1; k < e.valence(); ++k) ring.push_back(e.vec3(x, k));
  }
  std::size_t faces() const {
    if (kind == Kind::loose) return ring.size() / 2;
    return closed ? ring.size() : ring.size() - 1;
  }
  const Vec3& first(std::size_t face) const { return ring[kind == Kind::loose ? 2 * face : face]; }
  const Vec3& second(std::size_t face) const {
    return ring[kind == Kind::loose ? 2 * face + 1 : (face + 1) % ring.size()];
  }
  Vec3 normal(std::size_t face) const { return triangle_normal(center, first(face), second(face)); }
};

Value covariance(const Star& star) {
  Mat3 sum;
  for (std::size_t f = 0; f < star.faces(); ++f) {
    const Vec3 n = star.normal(f);
    const Mat3 term = outer(n, n) * interior_angle(star.center, star.first(f), star.second(f));
    sum = f == 0 ? term : sum + term;
  }
  return smallest_eigenvalue(sum);
}

// With unit normals and S their sum over n triangles, (1/n) Σ |N_f − N_g|² is 2 n − 2 |S|² / n.
Value hinge(const Star& star) {
  const std::size_t n = star.faces();
  std::vector<Vec3> sums = {star.normal(0)};  // of the first 1, 2, ... triangles
  for (std::size_t f = 1; f < n; ++f) sums.push_back(sums.back() + star.normal(f));
  std::vector<Value> spreads;
  // The first part has the triangles a .. b - 1; an open star is cut only once.
  for (std::size_t a = 0; a < (star.closed ? n : 1); ++a) {
    for (std::size_t b = a + 1; b < (a == 0 ? n : n + 1); ++b) {
      if (a > 0 && b == n) continue;  // the same cut as 0 .. a - 1
      const Vec3 part = a == 0 ? sums[b - 1] : sums[b - 1] - sums[a - 1];
      const auto size = static_cast<double>(b - a), rest = static_cast<double>(n) - size;
      spreads.push_back(literal(2.0 / size) * squared_norm(part) +
                        literal(2.0 / rest) * squared_norm(sums.back() - part));
    }
  }
  return literal(2.0 * static_cast<double>(n)) - max(std::span<const Value>(spreads));
}

Value energy_of(const Star& star, Developability energy) {
  return energy == Developability::covariance ? covariance(star) : hinge(star);
}

/// Stars as indices of a map: the vertex, then its ring.
struct Packed {
  std::vector<std::uint32_t> indices, offsets = {0}, vertices;
};

/// Cuts of the hinge energy need neighbouring triangles; the covariance needs no order.
std::vector<VertexStar> stars_for(const TriangleMesh& mesh, Developability energy) {
  return vertex_stars(mesh, energy == Developability::hinge ? Stars::fans : Stars::any);
}

Packed pack(const std::vector<VertexStar>& stars, Kind kind) {
  Packed out;
  for (const VertexStar& star : stars) {
    if (kind_of(star) != kind || star.faces() < 3) continue;
    out.vertices.push_back(star.vertex);
    out.indices.push_back(star.vertex);
    out.indices.insert(out.indices.end(), star.ring.begin(), star.ring.end());
    out.offsets.push_back(static_cast<std::uint32_t>(out.indices.size()));
  }
  return out;
}

/// The stars of a slice alone.
Packed part_of(const Packed& all, Slice slice) {
  Packed out;
  for (std::uint64_t k = slice.first; k < slice.end; ++k) {
    const auto begin = all.indices.begin();
    out.vertices.push_back(all.vertices[k]);
    out.indices.insert(out.indices.end(), begin + all.offsets[k], begin + all.offsets[k + 1]);
    out.offsets.push_back(static_cast<std::uint32_t>(out.indices.size()));
  }
  return out;
}

void add_stars(Problem& problem, const Parameters& x, const Packed& packed, Kind kind,
               Developability energy, const Uniform* weight) {
  if (packed.vertices.empty()) return;
  problem.add_energies(
      packed.vertices.size(),
      [&](Element e) {
        const Value value = energy_of(Star(e, x, kind), energy);
        return weight == nullptr ? value : weight->value() * value;
      },
      {.indices = packed.indices, .offsets = packed.offsets, .label = name(energy)});
}

}  // namespace

void add_developability(Problem& problem, const Parameters& x, const TriangleMesh& mesh,
                        Developability energy, const Uniform* weight) {
  const std::vector<VertexStar> stars = stars_for(mesh, energy);
  for (const Kind kind : kKinds) add_stars(problem, x, pack(stars, kind), kind, energy, weight);
}

std::unique_ptr<Developable> developable(const TriangleMesh& mesh, Developability energy,
                                         bool edges, Share share) {
  if (mesh.triangles.empty()) {
    throw Error(ErrorCode::InvalidArgument,
                "developable: expected a mesh with triangles, got none");
  }
  auto out = std::make_unique<Developable>();
  out->positions = mesh.positions;
  const Parameters x = out->problem.add_parameters(out->positions, 3, "positions");
  const std::vector<VertexStar> stars = stars_for(mesh, energy);
  std::vector<Packed> packed;
  std::uint64_t count = 0, before = 0;
  for (const Kind kind : kKinds) count += packed.emplace_back(pack(stars, kind)).vertices.size();
  const std::uint64_t lengths = edges ? edge_lengths(mesh).size() : 0;
  if (count + lengths == 0) {
    throw Error(ErrorCode::InvalidArgument,
                "developable: expected a vertex of three triangles or more, got a mesh of " +
                    std::to_string(mesh.triangles.size()) +
                    " triangles without one; one or two triangles can always be unrolled");
  }
  const Slice slice = share.slice(count + lengths);
  for (std::size_t k = 0; k < packed.size(); ++k) {
    const Slice here = slice.within({before, before + packed[k].vertices.size()});
    const Packed mine = part_of(packed[k], {here.first - before, here.end - before});
    add_stars(out->problem, x, mine, kKinds[k], energy, nullptr);
    before += packed[k].vertices.size();
  }
  const Slice here = slice.within({count, count + lengths});
  if (edges)
    add_edge_lengths(out->problem, x, mesh, nullptr, {here.first - count, here.end - count});
  return out;
}

std::vector<double> star_energies(const TriangleMesh& mesh, Developability energy) {
  const std::vector<VertexStar> stars = stars_for(mesh, energy);
  std::vector<double> positions = mesh.positions, out(mesh.vertex_count());
  std::vector<std::uint32_t> vertices;
  Problem problem;
  const Parameters x = problem.add_parameters(positions, 3, "positions");
  for (const Kind kind : kKinds) {
    const Packed packed = pack(stars, kind);
    problem.add_residuals(packed.vertices.size(),
                          [&](Element e) { return energy_of(Star(e, x, kind), energy); },
                          {.indices = packed.indices, .offsets = packed.offsets});
    vertices.insert(vertices.end(), packed.vertices.begin(), packed.vertices.end());
  }
  if (vertices.empty()) return out;
  const Eigen::VectorXd values = Evaluator(problem, {.backend = Backend::cpu}).residuals();
  for (std::size_t k = 0; k < vertices.size(); ++k)
    out[vertices[k]] = values[static_cast<Eigen::Index>(k)];
  return out;
}

namespace {

constexpr std::uint32_t kFitEvery = 10;

void add_fit(Multi& out, const Parameters& x, const TriangleMesh& mesh) {
  const std::vector<VertexStar> stars = vertex_stars(mesh, Stars::any);
  bool closed = true;
  for (const VertexStar& star : stars) closed = closed && star.closed;
  for (const VertexStar& star : stars) {
    if (closed ? star.vertex % kFitEvery != 0 : star.closed) continue;
    const double* u = &mesh.positions[3 * star.vertex];
    out.problem.add_residual((x.vec3(star.vertex) - Vec3{u[0], u[1], u[2]}) * out.fit.value(),
                             {.label = "fit"});
  }
}

}  // namespace

std::unique_ptr<Multi> multi(const TriangleMesh& mesh) {
  if (mesh.triangles.empty()) {
    throw Error(ErrorCode::InvalidArgument, "multi: expected a mesh with triangles, got none");
  }
  check_cotangents(mesh);
  auto out = std::make_unique<Multi>();
  out->positions = mesh.positions;
  const Parameters x = out->problem.add_parameters(out->positions, 3, "positions");
  for (Uniform* weight : {&out->developability, &out->edges, &out->smoothing, &out->fit})
    *weight = out->problem.add_uniform(1);
  add_developability(out->problem, x, mesh, Developability::covariance, &out->developability);
  add_edge_lengths(out->problem, x, mesh, &out->edges);
  add_cotangent_smoothing(out->problem, x, mesh, &out->smoothing);
  add_fit(*out, x, mesh);
  return out;
}

}  // namespace topograd::problems
