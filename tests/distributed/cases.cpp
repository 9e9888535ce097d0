// The problems: their memory, options, and answers as text.
#include "cases.hpp"

#include "../../api/formats/bundle_adjustment.hpp"
#include "../../frontend/geometry.hpp"
#include "../../frontend/host_residual.hpp"
#include "../../frontend/value/math.hpp"
#include "../../ir/error.hpp"

#include "../../api/formats/mesh/mesh.hpp"
#include "../../tools/problems/arap.hpp"
#include "../../tools/problems/bundle.hpp"
#include "../../tools/problems/mesh.hpp"
#include "../../tools/problems/portable.hpp"
#include "../../tools/problems/smooth.hpp"
#include "../../tools/problems/springs.hpp"
#include "../support/paths.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace topograd::test {
namespace {

template <class Made, class... Arrays>
Case case_of(std::shared_ptr<Made> made, const SolverOptions& options, const Arrays&... arrays) {
  return {.problem = &made->problem,
          .unknowns = {std::span<const double>(arrays)...},
          .options = options,
          .memory = made};
}

SolverOptions pcg(int iterations) {
  SolverOptions options;
  options.max_iterations = iterations;
  options.linear_solver = LinearSolver::pcg;
  options.preconditioner = Preconditioner::block_jacobi;
  return options;
}

Case springs(std::uint32_t width, SolverOptions options, Share share = {},
             std::optional<std::uint64_t> shuffle = {}) {
  const std::shared_ptr<problems::Springs> made = problems::springs(width, shuffle, share);
  return case_of(made, options, made->x);
}

/// All springs on one rank, or one spring without a number.
Case springs_of(const problems::SpringGrid& grid) {
  const auto made = std::make_shared<problems::Springs>();
  made->x = grid.x;
  problems::add_springs(made->problem, made->problem.add_parameters(made->x, 3, "positions"),
                        grid.springs);
  return case_of(made, pcg(6), made->x);
}

Case springs_on_last(Share share) {
  problems::SpringGrid grid = problems::spring_grid(12);
  if (share.number + 1 < share.of) grid.springs.clear();
  return springs_of(grid);
}

Case spring_without_number(Share share) {
  constexpr std::uint64_t kBad = 300;
  problems::SpringGrid grid = problems::spring_grid(12, {}, share);
  const Slice slice = share.slice(problems::spring_grid(12).springs.size());
  if (slice.has(kBad))
    grid.springs[kBad - slice.first].rest = std::numeric_limits<double>::quiet_NaN();
  return springs_of(grid);
}

Case arap(const SolverOptions& options, Share share = {}) {
  const TriangleMesh mesh = read_mesh((source_dir() / "samples/data/spot.obj").string());
  const std::shared_ptr<problems::Arap> made = problems::arap(mesh, share);
  return case_of(made, options, made->positions, made->rotations);
}

Case smooth(const TriangleMesh& mesh, const SolverOptions& options) {
  const std::shared_ptr<problems::Smooth> made = problems::smooth(mesh);
  return case_of(made, options, made->positions);
}

/// A chain of points on a line with bounds, a loss, a uniform and fixed points.
struct Chain {
  std::vector<double> x;
  Problem problem;
};

Case bounded_chain(Share share = {}, double weight_value = 1.5,
                   const Loss& second = Loss::cauchy(0.5)) {
  constexpr std::size_t kPoints = 200;
  const auto made = std::make_shared<Chain>();
  for (std::size_t k = 0; k < 2 * kPoints; ++k)
    made->x.push_back(std::clamp(std::sin(0.3 * static_cast<double>(k)), -0.2, 0.6));
  Problem& problem = made->problem;
  const Parameters x = problem.add_parameters(made->x, 2);
  const Uniform weight = problem.add_uniform(weight_value);
  const Slice slice = share.slice(kPoints - 1);
  for (std::size_t k = slice.first; k < slice.end; ++k) {
    const Vec2 step = x.vec2(k + 1) - x.vec2(k);
    // The second half has a loss of its own, which other ranks do not know.
    const Loss loss = 2 * k < kPoints ? Loss::huber(0.3) : second;
    problem.add_residual(std::array<Value, 2>{weight * step.x - 0.1, step.y * step.y - 0.2},
                         {.loss = loss, .label = "step"});
    problem.add_residual(x.vec2(k).x - 0.01 * static_cast<double>(k));
  }
  problem.set_constant(x, 7);
  for (std::size_t k = 0; k < kPoints; k += 3) problem.set_bounds(x, k, 0, -0.2, 0.6);
  return case_of(made, pcg(30), made->x);
}

/// A chain with numbers of all kinds: constants and weights of each residual, losses of several
/// programs, and uniforms whose values are also numbers of losses.
Case chain_of_numbers(Share share) {
  constexpr std::size_t kPoints = 120;
  const auto made = std::make_shared<Chain>();
  for (std::size_t k = 0; k < 2 * kPoints; ++k)
    made->x.push_back(0.5 * std::sin(0.3 * static_cast<double>(k)));
  Problem& problem = made->problem;
  const Parameters x = problem.add_parameters(made->x, 2);
  const Uniform pull = problem.add_uniform(0.3), one = problem.add_uniform(1.0),
                same = problem.add_uniform(0.3);
  const Loss traced = Loss::custom([](const Value& s) { return 2.0 * log1p(0.3 * s); });
  const Slice slice = share.slice(kPoints - 1);
  for (std::size_t k = slice.first; k < slice.end; ++k) {
    const auto number = static_cast<double>(k);
    const Loss losses[] = {Loss::huber(0.3), Loss::composed(Loss::cauchy(1.0), Loss::huber(0.3)),
                           traced, Loss::tolerant(0.3, 1.0)};
    const Vec2 step = x.vec2(k + 1) - x.vec2(k);
    problem.add_residual(std::array<Value, 2>{one * step.x - 0.01 * number, step.y - 0.2},
                         {.loss = Loss::scaled(losses[k % 4], 1 + 0.1 * number)});
    problem.add_residual(std::sqrt(0.1 * number) * (pull * x.vec2(k).x - same * 0.05 * number));
  }
  for (std::size_t k = 0; k < kPoints; k += 2) problem.set_bounds(x, k, 0, -0.5, 0.5);
  return case_of(made, pcg(30), made->x);
}

/// x − a as code that cannot be traced.
class Pull final : public HostResidual {
 public:
  explicit Pull(double to) : to_(to) {}
  int rows() const override { return 1; }
  bool evaluate(const double* const* blocks, double* residuals, double** jacobians) const override {
    if (host_residual_fails) throw std::runtime_error("a residual has failed");
    residuals[0] = 0.1 * (blocks[0][0] - to_);
    if (jacobians != nullptr && jacobians[0] != nullptr) jacobians[0][0] = 0.1;
    return true;
  }

 private:
  double to_;
};

/// Rosenbrock's valleys in a row, with opaque residuals.
Case host_chain() {
  constexpr std::size_t kPoints = 200;
  const auto made = std::make_shared<Chain>();
  for (std::size_t k = 0; k < kPoints; ++k) made->x.push_back(k % 2 == 0 ? -1.2 : 1.0);
  Problem& problem = made->problem;
  const Parameters x = problem.add_parameters(made->x, 1);
  for (std::size_t k = 0; k + 1 < kPoints; ++k) {
    problem.add_residual(10.0 * (x[k + 1] - x[k] * x[k]));
    problem.add_residual(1.0 - x[k]);
    problem.add_residual(std::make_shared<Pull>(0.01 * static_cast<double>(k)), {x.block(k)});
  }
  return case_of(made, {.max_iterations = 40}, made->x);
}

/// Points on unit spheres, each near its neighbour and a target.
Case spheres(const SolverOptions& options, Share share = {}) {
  constexpr std::size_t kPoints = 120;
  const auto made = std::make_shared<Chain>();
  for (std::size_t k = 0; k < kPoints; ++k) {
    const double a = 0.7 * static_cast<double>(k), b = 0.4 * std::sin(3.0 * a);
    for (const double v : {std::cos(a) * std::cos(b), std::sin(a) * std::cos(b), std::sin(b)})
      made->x.push_back(v);
  }
  Problem& problem = made->problem;
  const Parameters x = problem.add_parameters(made->x, 3);
  const Slice slice = share.slice(kPoints);
  for (std::size_t k = slice.first; k < slice.end; ++k) {
    const double a = 0.05 * static_cast<double>(k);
    problem.add_residual(0.1 * (x.vec3(k) - Vec3{std::cos(a), std::sin(a), 0.5}));
    if (k > 0) problem.add_residual(x.vec3(k) - x.vec3(k - 1));
  }
  problem.set_manifold(x, Manifold::sphere(3));
  problem.set_constant(x, 5);
  return case_of(made, options, made->x);
}

/// Residuals and energies, which lbfgs minimises.
Case energies(Share share = {}) {
  constexpr std::size_t kPoints = 150;
  const auto made = std::make_shared<Chain>();
  for (std::size_t k = 0; k < kPoints; ++k) made->x.push_back(std::cos(static_cast<double>(k)));
  Problem& problem = made->problem;
  const Parameters x = problem.add_parameters(made->x, 1);
  const Slice slice = share.slice(kPoints - 1);
  for (std::size_t k = slice.first; k < slice.end; ++k) {
    const Value d = x[k + 1] - x[k];
    problem.add_energy(sqrt(1.0 + d * d));
    problem.add_residual(0.2 * (x[k] - 0.5));
  }
  return case_of(made, {.max_iterations = 25}, made->x);
}

Case bundle(SolverOptions options, Share share = {}) {
  const std::shared_ptr<problems::Bundle> made = problems::bundle(
      {.cameras = 8, .points = 120, .observations = 700, .noise = 0.5, .seed = 3}, share);
  options.max_iterations = 12;
  return case_of(made, options, made->cameras, made->points);
}

const std::map<std::string, std::function<Case()>>& table() {
  static const std::map<std::string, std::function<Case()>> cases = {
      {"springs", [] { return springs(40, pcg(12)); }},
      {"springs_mixed",
       [] {
         SolverOptions options = pcg(6);
         options.precision = Precision::mixed;
         return springs(24, options);
       }},
      {"springs_f32",
       [] {
         SolverOptions options = pcg(6);
         options.precision = Precision::f32;
         return springs(24, options);
       }},
      {"springs_default", [] { return springs(24, {.max_iterations = 12}); }},
      {"arap", [] { return arap(pcg(3)); }},
      {"smooth",
       [] {
         const std::string spot = (source_dir() / "samples/data/spot.obj").string();
         return smooth(read_mesh(spot), pcg(3));
       }},
      {"smooth_sphere",
       [] {
         return smooth(problems::icosphere(2),
                       {.max_iterations = 100, .function_tolerance = 1e-15});
       }},
      {"bounds", [] { return bounded_chain(); }},
      {"manifold", [] { return spheres({.max_iterations = 30}); }},
      {"manifold_pcg", [] { return spheres(pcg(30)); }},
      {"host", host_chain},
      {"energies", [] { return energies(); }},
      {"bundle", [] { return bundle({}); }},
  };
  return cases;
}

/// Residuals of a share alone: of two ranks, the second one has all anchors of springs, all pins of
/// arap and all of the second losses of bounds.
const std::map<std::string, std::function<Case(Share)>>& share_table() {
  static const std::map<std::string, std::function<Case(Share)>> cases = {
      {"springs", [](Share share) { return springs(40, pcg(12), share); }},
      {"springs_shuffled", [](Share share) { return springs(24, pcg(6), share, 5); }},
      {"springs_mixed",
       [](Share share) {
         SolverOptions options = pcg(6);
         options.precision = Precision::mixed;
         return springs(24, options, share);
       }},
      {"arap", [](Share share) { return arap(pcg(3), share); }},
      {"bounds", [](Share share) { return bounded_chain(share); }},
      {"numbers", chain_of_numbers},
      {"energies", [](Share share) { return energies(share); }},
      {"manifold", [](Share share) { return spheres(pcg(30), share); }},
      {"bundle", [](Share share) { return bundle(pcg(12), share); }},
      {"last", springs_on_last},
      {"not_finite", spring_without_number},
  };
  return cases;
}

}  // namespace

std::atomic<bool> host_residual_fails{false};

namespace {

constexpr std::string_view kPortable = "portable_";

/// A problem of the check of portable bits, by its number.
Case portable_case(std::size_t number) {
  const std::shared_ptr<problems::PortableProblem> made =
      problems::portable_problems()[number].make();
  Case out{.problem = &made->problem, .unknowns = {}, .options = made->options, .memory = made};
  for (const std::vector<double>& x : made->x) out.unknowns.emplace_back(x);
  out.options.bits = Bits::portable;
  // Several processes know no other one.
  out.options.preconditioner = Preconditioner::block_jacobi;
  return out;
}

}  // namespace

Case make_case(const std::string& name) {
  if (name.starts_with(kPortable)) return portable_case(std::stoul(name.substr(kPortable.size())));
  return table().at(name)();
}

std::vector<std::string> portable_case_names() {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < problems::portable_problems().size(); ++k)
    names.push_back(std::string(kPortable) + std::to_string(k));
  return names;
}

Case make_case(const std::string& name, Share share) { return share_table().at(name)(share); }

Case make_other_bounds(const std::string& other) {
  if (other == "uniform") return bounded_chain({}, 2.0);
  if (other == "scale") return bounded_chain({}, 1.5, Loss::cauchy(0.25));
  return bounded_chain({}, 1.5, Loss::tukey(0.5));
}

std::vector<std::string> share_case_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : share_table())
    if (name != "not_finite") names.push_back(name);
  return names;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : table()) names.push_back(name);
  return names;
}

std::string exact_text(const Case& solved, const Summary& summary) {
  std::string out;
  char line[200];
  for (const IterationSummary& step : summary.iterations) {
    std::snprintf(line, sizeof line, "step %d cost %a gradient %a step %a cg %d\n", step.iteration,
                  step.cost, step.gradient_norm, step.step_norm, step.linear_iterations);
    out += line;
  }
  for (const std::span<const double> numbers : solved.unknowns) {
    for (const double v : numbers) {
      std::snprintf(line, sizeof line, "%a\n", v);
      out += line;
    }
  }
  return out;
}

}  // namespace topograd::test
