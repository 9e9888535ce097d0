// How long sums take by the number of residuals that share a block, and by what is constant.
#include <topograd/ir/text.hpp>
#include <topograd/runtime/vulkan/engine.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace topograd::bench {
namespace {

using codegen::Precision;
using runtime::KernelKind;

/// a p0 + sin(p1) b - p2 c.
constexpr const char* kFit = R"(program parameters=3 data=3 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = data 0
  %4 = data 1
  %5 = data 2
  %6 = mul %0, %3
  %7 = sin %1
  %8 = mul %7, %4
  %9 = add %6, %8
  %10 = mul %2, %5
  %11 = sub %9, %10
  return %11
}
)";

/// Two rows over a block of six scalars and one of three.
constexpr const char* kView = R"(program parameters=9 data=2 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = parameter 4
  %5 = parameter 5
  %6 = parameter 6
  %7 = parameter 7
  %8 = parameter 8
  %9 = data 0
  %10 = data 1
  %11 = sin %0
  %12 = mul %11, %6
  %13 = cos %1
  %14 = mul %13, %7
  %15 = add %12, %14
  %16 = mul %2, %8
  %17 = add %15, %16
  %18 = add %17, %3
  %19 = mul %6, %7
  %20 = mul %19, %4
  %21 = square %18
  %22 = mul %21, %5
  %23 = add %20, %22
  %24 = sub %18, %9
  %25 = sub %23, %10
  return %24, %25
}
)";

constexpr const char* kSpring = R"(program parameters=6 data=1 uniforms=0 seeds=0 {
  %0 = parameter 0
  %1 = parameter 1
  %2 = parameter 2
  %3 = parameter 3
  %4 = parameter 4
  %5 = parameter 5
  %6 = data 0
  %7 = sub %0, %3
  %8 = sub %1, %4
  %9 = sub %2, %5
  %10 = square %7
  %11 = square %8
  %12 = square %9
  %13 = add %10, %11
  %14 = add %13, %12
  %15 = sqrt %14
  %16 = sub %15, %6
  return %16
}
)";

/// A model of one term and what it points to.
struct Case {
  std::string name;
  std::unique_ptr<ir::Topology> topology;
  std::unique_ptr<ir::Batch> batch;
  runtime::Model model;
  std::vector<double> x;
};

Case make_case(std::string name, const char* program, std::vector<runtime::ParameterArray> arrays) {
  Case made{.name = std::move(name), .topology = std::make_unique<ir::Topology>()};
  made.topology->program = ir::parse(program);
  const ir::LeafCounts& leaves = made.topology->program.leaves;
  made.batch = std::make_unique<ir::Batch>(leaves.parameters, leaves.uniforms, leaves.data);
  made.model.arrays = std::move(arrays);
  const runtime::ParameterArray& last = made.model.arrays.back();
  made.model.scalars = last.offset + last.blocks * last.width;
  made.model.terms.push_back(
      {.topology = made.topology.get(), .batch = made.batch.get(), .name = "term"});
  for (std::uint64_t k = 0; k < made.model.scalars; ++k)
    made.x.push_back(0.5 + 0.001 * static_cast<double>(k % 700));
  return made;
}

void add(Case& to, std::span<const std::uint32_t> indices, std::span<const double> data) {
  to.batch->append(indices, data, to.model.rows);
  to.model.rows += to.topology->program.outputs.size();
}

Case shared_block(std::uint32_t residuals) {
  Case made = make_case("one block", kFit, {{.offset = 0, .width = 3, .blocks = 1}});
  const std::uint32_t indices[] = {0, 1, 2};
  for (std::uint32_t k = 0; k < residuals; ++k) {
    const double data[] = {0.25 * (k % 17), 0.125 * (k % 5), 0.5 - 0.0625 * (k % 11)};
    add(made, indices, data);
  }
  return made;
}

/// Blocks of six with `entries` each; blocks of three have four.
Case views(std::uint32_t blocks, std::uint32_t entries) {
  const std::uint32_t count = blocks * entries, points = count / 4;
  Case made = make_case("views, " + std::to_string(entries), kView,
                        {{.offset = 0, .width = 6, .blocks = blocks},
                         {.offset = 6ull * blocks, .width = 3, .blocks = points}});
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint32_t a = 6 * (k / entries);
    const auto b = static_cast<std::uint32_t>(6 * blocks + 3 * (k * 7919ull % points));
    const std::uint32_t indices[] = {a, a + 1, a + 2, a + 3, a + 4, a + 5, b, b + 1, b + 2};
    const double data[] = {0.1 * (k % 7), 0.3};
    add(made, indices, data);
  }
  return made;
}

/// Springs on a grid of `width` x `width` vertices.
Case springs(std::uint32_t width) {
  const std::uint32_t n = width * width;
  Case made = make_case("springs", kSpring, {{.offset = 0, .width = 3, .blocks = n}});
  for (std::uint32_t k = 0; k < n; ++k) {
    made.x[3 * k] = k % width + 0.1 * std::sin(k);
    made.x[3 * k + 1] = k / width + 0.1 * std::cos(3.0 * k);
    made.x[3 * k + 2] = 0.1 * std::sin(7.0 * k);
  }
  const auto edge = [&](std::uint32_t a, std::uint32_t b, double length) {
    const std::uint32_t indices[] = {3 * a, 3 * a + 1, 3 * a + 2, 3 * b, 3 * b + 1, 3 * b + 2};
    add(made, indices, {&length, 1});
  };
  for (std::uint32_t k = 0; k < n; ++k) {
    const bool right = k % width + 1 < width, up = k / width + 1 < width;
    if (right) edge(k, k + 1, 1);
    if (up) edge(k, k + width, 1);
    if (right && up) edge(k, k + width + 1, std::sqrt(2.0));
  }
  return made;
}

/// `test` says of each scalar whether it is constant.
template <class Test>
Case held(Case made, const std::string& what, Test test) {
  made.name += ", " + what;
  for (std::uint64_t k = 0; k < made.model.scalars; ++k)
    made.model.constant.push_back(test(k) ? 1 : 0);
  return made;
}

void measure(const Case& one, Precision precision) {
  // What is constant is left out from the start.
  const auto engine = runtime::vulkan::make_vulkan_engine(
      one.model, {.precision = precision, .deterministic = true});
  engine->set_point(one.x);
  std::printf("| %s | %s | %zu |", one.name.c_str(), codegen::name(precision).data(),
              one.batch->size());
  for (const KernelKind kind :
       {KernelKind::residual, KernelKind::gradient, KernelKind::jtjp, KernelKind::blocks})
    std::printf(" %.1f |", engine->time(kind, 3, 20).device_us);
  std::printf(" %.0f |\n", engine->time_step(100, 1e-3, 5).device_us);
  std::fflush(stdout);
}

/// `scale` in percent of a million residuals.
int run(std::uint32_t scale) {
  std::vector<Case> cases;
  const std::uint32_t degrees[][2] = {{1, 6000}, {5, 600},  {10, 600}, {100, 100},
                                      {150, 66}, {200, 50}, {500, 20}};
  cases.push_back(shared_block(10000 * scale));
  for (const auto& [blocks, entries] : degrees) cases.push_back(views(blocks * scale, entries));
  cases.push_back(springs(10 * scale));
  cases.push_back(held(springs(10 * scale), "half of the grid constant",
                       [n = 300ull * scale * scale](auto k) { return k > n / 2; }));
  cases.push_back(held(springs(10 * scale), "every second vertex constant",
                       [](auto k) { return k / 3 % 2 == 1; }));
  const std::uint64_t sixes = 60ull * scale;
  cases.push_back(
      held(views(10 * scale, 600), "sixes constant", [=](auto k) { return k < sixes; }));
  cases.push_back(
      held(views(10 * scale, 600), "threes constant", [=](auto k) { return k >= sixes; }));
  std::puts(
      "| problem, entries of an owner | precision | residual blocks | residuals, us | gradient | "
      "JtJp "
      "| blocks | step of 100 CG |\n|---|---|---|---|---|---|---|---|");
  for (const Precision precision : {Precision::f64, Precision::f32}) {
    for (const Case& one : cases) measure(one, precision);
  }
  return 0;
}

}  // namespace
}  // namespace topograd::bench

int main(int count, char** arguments) try {
  const int scale = count > 1 ? std::atoi(arguments[1]) : 100;
  if (scale < 1 || scale > 400) {
    std::fprintf(stderr, "bench_owners: expected a percentage from 1 to 400, got %s\n",
                 arguments[1]);
    return 2;
  }
  return topograd::bench::run(static_cast<std::uint32_t>(scale));
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_owners: %s\n", error.what());
  return 2;
}
