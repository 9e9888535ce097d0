// Denoises a mesh by weighted least squares; a tensor pipeline computes the edge weights on the
// device that solves, and they never pass through the host.
//
//   minimise Σ |x_v - noisy_v|² + strength Σ w_e |x_i - x_j|²
#include <topograd/ops/arrays.hpp>
#include <topograd/ops/tensors.hpp>
#include <topograd/topograd.hpp>

#include "mesh_file.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

namespace tg = topograd;
namespace ops = topograd::ops;
using sample::Mesh;
using Floats = ops::Array<float>;
using Indices = ops::Array<std::uint32_t>;
using tg::Value;

constexpr double kStrength = 3;

// A mesh with noise: coordinates by vertex, and the vertices of its edges.
struct Noisy {
  std::vector<double> positions;
  std::vector<float> columns[3];
  std::vector<std::uint32_t> from, to;
};

static Noisy noisy_of(const Mesh& mesh) {
  Noisy out;
  for (const auto v : mesh.vertices()) {
    for (unsigned k = 0; k < 3; ++k) {
      out.positions.push_back(mesh.point(v)[k] + 0.01 * std::sin(12.9898 * v.idx() + 78.233 * k));
      out.columns[k].push_back(static_cast<float>(out.positions.back()));
    }
  }
  for (const auto e : mesh.edges()) {
    out.from.push_back(static_cast<std::uint32_t>(e.v0().idx()));
    out.to.push_back(static_cast<std::uint32_t>(e.v1().idx()));
  }
  return out;
}

// √(strength · weight); near neighbours weigh more: w = exp(-(length / mean length)²).
static ops::Tensor roots_of(const Noisy& mesh, const ops::Device& device) {
  const Indices from = Indices(mesh.from).to(device), to = Indices(mesh.to).to(device);
  Floats squares = Floats::full(from.size(), 0).to(device);
  for (const std::vector<float>& column : mesh.columns) {
    const Floats x = Floats(column).to(device);
    squares = map([](Value sum, Value a, Value b) { return sum + square(a - b); }, squares,
                  gather(x, from), gather(x, to));
  }
  const ops::Tensor lengths =
      ops::sqrt(ops::tensor(squares, {static_cast<std::int64_t>(squares.size())}));
  return ops::sqrt(kStrength * ops::exp(-ops::square(lengths / ops::mean(lengths))));
}

// The problem over `positions`, with weights that are set later.
struct Smoothing {
  tg::Problem problem;
  tg::Data roots;

  Smoothing(const Noisy& mesh, std::vector<double>& positions) {
    const tg::Parameters x = problem.add_parameters(positions, 3);
    const tg::Data noisy = problem.add_data(mesh.positions, 3);
    roots = problem.add_data(std::vector<double>(mesh.from.size(), 1.0));
    std::vector<std::uint32_t> vertices(x.size()), edges;
    for (std::uint32_t v = 0; v < vertices.size(); ++v) vertices[v] = v;
    for (std::uint32_t e = 0; e < mesh.from.size(); ++e)
      edges.insert(edges.end(), {mesh.from[e], mesh.to[e], e});
    problem.add_residuals(vertices.size(),
                          [&](tg::Element e) { return e.vec3(x, 0) - e.vec3(noisy, 0); },
                          {.indices = vertices});
    problem.add_residuals(
        mesh.from.size(),
        [&](tg::Element e) { return (e.vec3(x, 0) - e.vec3(x, 1)) * e.scalar(roots, 2); },
        {.indices = edges});
  }
};

// mesh_weights MESH.obj OUT.obj [best|cpu|vulkan]
static int program(sample::Arguments& arguments) {
  const tg::Interrupts interrupts;  // Ctrl-C ends a solve at its best point
  Mesh mesh = sample::read_mesh(arguments.file());
  const std::string out = arguments.text();
  const ops::Device device = arguments.device();
  const Noisy noisy = noisy_of(mesh);
  std::vector<double> positions = noisy.positions, want = noisy.positions;

  const auto before = device.backend().counters();
  Smoothing smoothing(noisy, positions);
  const ops::Tensor roots = roots_of(noisy, device);
  ops::set(smoothing.problem, smoothing.roots, roots);
  const tg::Summary summary = tg::solve(
      smoothing.problem, {.backend = device.is_cpu() ? tg::Backend::cpu : tg::Backend::vulkan});
  const auto used = device.backend().counters() - before;

  // Repeats the solve on the CPU, with the weights read back.
  Smoothing reference(noisy, want);
  const auto read = ops::array_of<float>(roots).to_vector();
  reference.problem.set(reference.roots, std::vector<double>(read.begin(), read.end()));
  tg::solve(reference.problem, {.backend = tg::Backend::cpu});

  double error = 0;
  for (std::size_t k = 0; k < want.size(); ++k)
    error = std::max(error, std::abs(positions[k] - want[k]));
  for (const auto v : mesh.vertices()) {
    const double* const p = &positions[3 * static_cast<std::size_t>(v.idx())];
    mesh.set_point(v, Mesh::Point(static_cast<float>(p[0]), static_cast<float>(p[1]),
                                  static_cast<float>(p[2])));
  }
  std::cout << mesh.n_edges() << " weights on " << device.name() << ": " << used.launches
            << " launches, " << used.bytes_down << " bytes read back before the solve ended; cost "
            << summary.initial_cost << " -> " << summary.final_cost
            << "; farthest from the CPU's solution " << error << "\n";
  sample::write_mesh(out, mesh);
  return error < 1e-5 && used.bytes_down == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "mesh_weights MESH.obj OUT.obj [best|cpu|vulkan]", program);
}
