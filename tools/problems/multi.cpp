// multi(mesh): developability, edge lengths, smoothing and fit in one problem, with weights.
#include "multi.hpp"

#include "developable.hpp"
#include "mesh.hpp"
#include "smooth.hpp"

#include "../../frontend/vec.hpp"
#include "../../ir/error.hpp"

namespace topograd::problems {
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
