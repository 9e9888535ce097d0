// Times of sums by the number of residuals per block, and by the fixed blocks.
#include "../frontend/problem.hpp"
#include "../frontend/value/math.hpp"
#include "../runtime/vulkan/engine.hpp"
#include "../solver/model/model.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "../tools/problems/springs.hpp"

namespace topograd::bench {
namespace {

using codegen::Precision;
using runtime::Pass;

/// A problem and its memory.
struct Case {
  std::string name;
  std::vector<double> x;
  Problem problem;
};

std::unique_ptr<Case> make_case(std::string name, std::size_t scalars) {
  auto made = std::make_unique<Case>();
  made->name = std::move(name);
  for (std::size_t k = 0; k < scalars; ++k)
    made->x.push_back(0.5 + 0.001 * static_cast<double>(k % 700));
  return made;
}

std::unique_ptr<Case> shared_block(std::uint32_t residuals) {
  auto made = make_case("one block", 3);
  const Parameters p = made->problem.add_parameters(made->x, 3);
  for (std::uint32_t k = 0; k < residuals; ++k) {
    const double a = 0.25 * (k % 17), b = 0.125 * (k % 5), c = 0.5 - 0.0625 * (k % 11);
    made->problem.add_residual(p(0, 0) * a + sin(p(0, 1)) * b - p(0, 2) * c);
  }
  return made;
}

enum class Held { nothing, sixes, threes };

/// Two rows over a block of six scalars and a block of three: `blocks` blocks of six with `entries`
/// residuals each; blocks of three have four.
std::unique_ptr<Case> views(std::uint32_t blocks, std::uint32_t entries,
                            Held held = Held::nothing) {
  const std::uint32_t count = blocks * entries, points = count / 4;
  auto made = make_case("views, " + std::to_string(entries), 6ull * blocks + 3ull * points);
  const std::span<double> x = made->x;
  const Parameters six = made->problem.add_parameters(x.first(6ull * blocks), 6);
  const Parameters three = made->problem.add_parameters(x.subspan(6ull * blocks), 3);
  for (std::uint32_t k = 0; k < count; ++k) {
    const auto a = [&](int i) { return six(k / entries, i); };
    const auto b = [&](int i) { return three(k * 7919ull % points, i); };
    const Value across = sin(a(0)) * b(0) + cos(a(1)) * b(1) + a(2) * b(2) + a(3);
    made->problem.add_residual({across - 0.1 * (k % 7),  //
                                b(0) * b(1) * a(4) + square(across) * a(5) - 0.3});
  }
  if (held == Held::nothing) return made;
  made->name += held == Held::sixes ? ", sixes constant" : ", threes constant";
  const Parameters& constant = held == Held::sixes ? six : three;
  for (std::size_t k = 0; k < constant.size(); ++k) made->problem.set_constant(constant, k);
  return made;
}

/// Springs on a grid of `width` x `width` vertices without its anchors; `constant` returns true for
/// fixed vertices, and `what` describes them.
template <class Test>
std::unique_ptr<Case> springs(std::uint32_t width, const std::string& what, Test constant) {
  problems::SpringGrid grid = problems::spring_grid(width);
  std::erase_if(grid.springs, [](const auto& s) { return s.b == problems::Spring::kAnchor; });
  auto made = make_case("springs" + what, 0);
  made->x = std::move(grid.x);
  const Parameters x = made->problem.add_parameters(made->x, 3);
  problems::add_springs(made->problem, x, grid.springs);
  for (std::size_t k = 0; k < std::size_t{width} * width; ++k) {
    if (constant(k)) made->problem.set_constant(x, k);
  }
  return made;
}

void measure(const Case& one, Precision precision) {
  const ProblemModel made = make_model("bench", one.problem);
  // Fixed blocks are excluded from the start.
  const auto engine = runtime::vulkan::make_vulkan_engine(
      made.model, {.precision = precision, .deterministic = true});
  engine->set_point(one.x);
  std::printf("| %s | %s | %zu |", one.name.c_str(), codegen::name(precision).data(),
              static_cast<std::size_t>(made.instances()));
  for (const Pass pass : {Pass::residual, Pass::gradient, Pass::jtjp, Pass::blocks})
    std::printf(" %.1f |", engine->abilities().measurements->time(pass, 3, 20).device_us);
  std::printf(" %.0f |\n", engine->abilities().measurements->time_step(100, 1e-3, 5).device_us);
  std::fflush(stdout);
}

/// Runs with `scale` percent of a million residuals.
int run(std::uint32_t scale) {
  std::vector<std::unique_ptr<Case>> cases;
  const std::uint32_t degrees[][2] = {{1, 6000}, {5, 600},  {10, 600}, {100, 100},
                                      {150, 66}, {200, 50}, {500, 20}};
  cases.push_back(shared_block(10000 * scale));
  for (const auto& [blocks, entries] : degrees) cases.push_back(views(blocks * scale, entries));
  cases.push_back(springs(10 * scale, "", [](auto) { return false; }));
  cases.push_back(springs(10 * scale, ", half of the grid constant",
                          [n = 50ull * scale * scale](auto k) { return k >= n; }));
  cases.push_back(
      springs(10 * scale, ", every second vertex constant", [](auto k) { return k % 2 == 1; }));
  cases.push_back(views(10 * scale, 600, Held::sixes));
  cases.push_back(views(10 * scale, 600, Held::threes));
  std::puts(
      "| problem, entries of a block | precision | residual blocks | residuals, us | gradient | "
      "JtJp "
      "| blocks | step of 100 CG |\n|---|---|---|---|---|---|---|---|");
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    for (const auto& one : cases) measure(*one, precision);
  }
  return 0;
}

}  // namespace
}  // namespace topograd::bench

int main(int count, char** arguments) try {
  const int scale = count > 1 ? std::atoi(arguments[1]) : 100;
  if (scale < 1 || scale > 400) {
    std::fprintf(stderr, "bench_block_sums: expected a percentage from 1 to 400, got %s\n",
                 arguments[1]);
    return 2;
  }
  return topograd::bench::run(static_cast<std::uint32_t>(scale));
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_block_sums: %s\n", error.what());
  return 2;
}
