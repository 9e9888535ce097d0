// Prints the executor's decisions for tasks of increasing size, with the costs that it compares.
#include <topograd/api/hybrid.hpp>

#include "sample.hpp"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace tg = topograd;

// x <- x (1 - x / 2), 64 times for each item.
class Map final : public tg::hybrid::Task {
 public:
  explicit Map(std::size_t size) : in_(size, 0.5f), out_(size) {}

  tg::hybrid::TaskShape shape() const override {
    return {.kernel = {0x6d6170, 64},
            .operation = "map",
            .size = in_.size(),
            .bytes_in = 4 * in_.size(),
            .bytes_out = 4 * out_.size(),
            .features = {.operations = 192, .bytes = 8}};
  }
  void run_on_cpu(const tg::hybrid::CpuThreads& threads, tg::hybrid::Items items) override {
    threads.for_ranges(items.count(), 1024, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = items.begin + begin; k < items.begin + end; ++k) {
        float x = in_[k];
        for (int round = 0; round < 64; ++round) x = x * (1 - 0.5f * x);
        out_[k] = x;
      }
    });
  }
  std::optional<tg::hybrid::DeviceProgram> program(tg::hybrid::Items items) override {
    tg::hybrid::DeviceProgram map{.name = "map", .glsl = kShader, .items = items.count()};
    const auto part = [&](auto& array) {
      return std::span(array).subspan(items.begin, items.count());
    };
    map.arrays.push_back({.read = {std::as_bytes(part(in_))}});
    map.arrays.push_back({.written = {std::as_writable_bytes(part(out_))}});
    return map;
  }

 private:
  static constexpr const char* kShader = R"(#version 450
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) readonly buffer In { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Push { uint first; uint items; };
void main() {
  uint i = first + gl_GlobalInvocationID.x;
  if (i >= items) return;
  float v = x[i];
  for (uint k = 0; k < 64; ++k) v = v * (1.0 - 0.5 * v);
  y[i] = v;
}
)";
  std::vector<float> in_, out_;
};

static int program(sample::Arguments& arguments) {
  const auto largest = arguments.count<std::size_t>(1'000'000, 10);
  // Includes the software device, so that every machine has two backends to compare.
  tg::hybrid::Executor executor(tg::hybrid::environment_hybrid_options({.admit_software = true}));
  tg::add_devices(executor);
  for (std::size_t size = 10; size <= largest; size *= 10) {
    Map task(size);
    std::cout << size << " items, fresh: " << executor.explain(executor.execute(task).decision);
    tg::hybrid::Task* const list[] = {&task};
    executor.warm_up(list);
    std::cout << size << " items, measured: " << executor.explain(executor.execute(task).decision)
              << "\n";
  }
  return 0;
}

int main(int argc, char** argv) {
  return sample::run(argc, argv, "hybrid_scheduler [LARGEST]", program);
}
