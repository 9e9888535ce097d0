// Takes noise off a mesh by weighted least squares; the weights of its edges come out of a tensor
// pipeline, and neither they nor the unknowns leave the device before the end.
//
//   minimise Σ |x_v - noisy_v|² + strength Σ w_e |x_i - x_j|²
#include <topograd/ops/arrays.hpp>
#include <topograd/ops/tensors.hpp>
#include <topograd/topograd.hpp>

#include <OpenMesh/Core/IO/MeshIO.hh>
#include <OpenMesh/Core/Mesh/TriMesh_ArrayKernelT.hh>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

namespace tg = topograd;
namespace ops = topograd::ops;
using Mesh = OpenMesh::TriMesh_ArrayKernelT<>;
using Floats = ops::Array<float>;
using Indices = ops::Array<std::uint32_t>;
using tg::Value;

constexpr double kStrength = 3;

// The ends of half-edges, sorted by the vertex that they leave.
struct Edges {
  Indices from, to, starts;
};

static Edges edges_of(const Mesh& mesh, const ops::Device& device) {
  std::vector<std::uint32_t> from, to, starts = {0};
  for (const auto v : mesh.vertices()) {
    for (const auto w : mesh.vv_range(v)) {
      from.push_back(static_cast<std::uint32_t>(v.idx()));
      to.push_back(static_cast<std::uint32_t>(w.idx()));
    }
    starts.push_back(static_cast<std::uint32_t>(to.size()));
  }
  return {Indices(from).to(device), Indices(to).to(device), Indices(starts).to(device)};
}

// Near neighbours count more: exp(-(length / mean length)²).
static Floats weights_of(const Edges& e, const std::array<Floats, 3>& x) {
  const auto differences = [&](const Floats& c) {
    return map([](Value a, Value b) { return square(a - b); }, gather(c, e.from), gather(c, e.to));
  };
  const Floats squares = map([](Value a, Value b, Value c) { return a + b + c; }, differences(x[0]),
                             differences(x[1]), differences(x[2]));
  const ops::Tensor lengths =
      ops::sqrt(ops::tensor(squares, {static_cast<std::int64_t>(squares.size())}));
  return ops::array_of<float>(ops::exp(-ops::square(lengths / ops::mean(lengths))));
}

// Conjugate gradients on (1 + strength L) x = noisy; numbers such as the step stay on the device.
static Floats smooth(const Edges& e, const Floats& weights, const Floats& noisy, int iterations) {
  const auto apply = [&](const Floats& p) {
    const Floats flow = map([](Value w, Value a, Value b) { return w * (a - b); }, weights,
                            gather(p, e.from), gather(p, e.to));
    return map([](Value a, Value sum) { return a + kStrength * sum; }, p,
               segmented_reduce(ops::Reduction::sum, flow, e.starts));
  };
  const auto plus = [](const Floats& a, const Floats& factor, const Floats& b, double sign) {
    return map([sign](Value u, Value f, Value v) { return u + sign * f * v; }, a, factor, b);
  };
  const auto ratio = [](const Floats& a, const Floats& b) {
    // 0 / 0 once nothing is left to solve.
    return map([](Value u, Value v) { return u / max(v, tg::literal(1e-30)); }, a, b);
  };
  Floats x = noisy, r = plus(noisy, Floats({1}), apply(noisy), -1), p = r, rr = dot(r, r);
  for (int k = 0; k < iterations; ++k) {
    const Floats q = apply(p), step = ratio(rr, dot(p, q));
    x = plus(x, step, p, 1);
    r = plus(r, step, q, -1);
    const Floats next = dot(r, r);
    p = plus(r, ratio(next, rr), p, 1);
    rr = next;
  }
  return x;
}

// The same by Topograd's solver, with the weights read back as data.
static std::vector<double> reference(const Edges& e, const Floats& weights,
                                     const std::vector<double>& noisy) {
  std::vector<double> positions = noisy;
  tg::Problem problem;
  tg::Parameters x = problem.add_parameters(positions, 3);
  for (std::size_t v = 0; v < noisy.size() / 3; ++v)
    problem.add_residual(x.vec3(v) - tg::Vec3{noisy[3 * v], noisy[3 * v + 1], noisy[3 * v + 2]});
  const auto from = e.from.read(), to = e.to.read();
  for (std::size_t k = 0; k < from.size(); ++k) {
    // Every edge is there twice.
    const double root = std::sqrt(kStrength * double(weights.read()[k]) / 2);
    problem.add_residual((x.vec3(from[k]) - x.vec3(to[k])) * root);
  }
  tg::solve(problem, {.backend = tg::Backend::cpu});
  return positions;
}

// mesh_weights MESH.obj OUT.obj [best|cpu|vulkan]
int main(int argc, char** argv) {
  Mesh mesh;
  if (argc < 3 || !OpenMesh::IO::read_mesh(mesh, argv[1])) {
    std::cerr << "usage: mesh_weights MESH.obj OUT.obj [best|cpu|vulkan]\n";
    return 2;
  }
  const std::string where = argc > 3 ? argv[3] : "best";
  const ops::Device device = where == "cpu"      ? ops::Device::cpu()
                             : where == "vulkan" ? ops::Device::vulkan()
                                                 : ops::Device::best();
  std::vector<double> noisy;
  std::array<std::vector<float>, 3> columns;
  for (const auto v : mesh.vertices()) {
    for (unsigned k = 0; k < 3; ++k) {
      noisy.push_back(mesh.point(v)[k] + 0.01 * std::sin(12.9898 * v.idx() + 78.233 * k));
      columns[k].push_back(static_cast<float>(noisy.back()));
    }
  }
  const Edges edges = edges_of(mesh, device);
  std::array<Floats, 3> x;
  for (std::size_t k = 0; k < 3; ++k) x[k] = Floats(columns[k]).to(device);

  const auto before = device.backend().counters();
  const Floats weights = weights_of(edges, x);
  for (Floats& coordinate : x) coordinate = smooth(edges, weights, coordinate, 30);
  device.synchronise();
  const auto used = device.backend().counters() - before;

  const std::vector<double> want = reference(edges, weights, noisy);
  double error = 0;
  for (const auto v : mesh.vertices()) {
    const auto i = static_cast<std::size_t>(v.idx());
    Mesh::Point point;
    for (unsigned k = 0; k < 3; ++k) {
      point[k] = x[k].read()[i];
      error = std::max(error, std::abs(point[k] - want[3 * i + k]));
    }
    mesh.set_point(v, point);
  }
  std::cout << mesh.n_vertices() << " vertices on " << device.name() << ": " << used.launches
            << " launches, " << used.bytes_down << " bytes read back; farthest from the solver "
            << error << "\n";
  return error < 1e-4 && used.bytes_down == 0 && OpenMesh::IO::write_mesh(mesh, argv[2]) ? 0 : 1;
}
