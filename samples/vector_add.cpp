// Adds two vectors, on the CPU or on a device: a task with both implementations.
#include <topograd/api/hybrid.hpp>

#include "sample.hpp"

#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tg = topograd;

// Each item is one sum. The device runs a compute shader with these arrays as bindings, in order.
class VectorAdd final : public tg::hybrid::Task {
 public:
  VectorAdd(std::span<const float> a, std::span<const float> b, std::span<float> sum)
      : a_(a), b_(b), sum_(sum) {}

  tg::hybrid::TaskShape shape() const override {
    return {.kernel = {0x766563746f72, 1},
            .operation = "vector_add",
            .size = a_.size(),
            .bytes_in = 2 * a_.size_bytes(),
            .bytes_out = sum_.size_bytes()};
  }

  void run_on_cpu(const tg::hybrid::CpuThreads& threads, tg::hybrid::Items items) override {
    threads.for_ranges(items.count(), 1 << 14, [&](std::size_t begin, std::size_t end) {
      for (std::size_t k = items.begin + begin; k < items.begin + end; ++k) sum_[k] = a_[k] + b_[k];
    });
  }

  std::optional<tg::hybrid::DeviceProgram> program(tg::hybrid::Items items) override {
    tg::hybrid::DeviceProgram add{.name = "vector_add", .glsl = kShader, .items = items.count()};
    add.itemwise = true;
    const auto part = [&](auto array) { return array.subspan(items.begin, items.count()); };
    add.arrays.push_back({.read = {std::as_bytes(part(a_))}});
    add.arrays.push_back({.read = {std::as_bytes(part(b_))}});
    add.arrays.push_back({.written = {std::as_writable_bytes(part(sum_))}});
    return add;
  }

 private:
  static constexpr const char* kShader = R"(#version 450
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer Sum { float sum[]; };
layout(push_constant) uniform Push { uint first; uint items; };
void main() {
  uint i = first + gl_GlobalInvocationID.x;
  if (i < items) sum[i] = a[i] + b[i];
}
)";

  std::span<const float> a_, b_;
  std::span<float> sum_;
};

static int program(sample::Arguments& arguments) {
  const auto size = arguments.count<std::size_t>(1'000'000);
  std::vector<float> a(size, 1.5f), b(size, 2.25f), sum(size);

  tg::hybrid::Executor& executor = tg::hybrid_executor();  // that of solves and arrays, too
  tg::add_devices(executor);                               // every device of the machine
  VectorAdd task(a, b, sum);
  const tg::hybrid::ExecutionStats stats = executor.execute(task);
  std::cout << size << " sums on " << stats.device << " in " << stats.times.work() << " µs\n";
  std::cout << executor.explain(stats.decision);

  for (const float value : sum)
    if (value != 3.75f) return 1;
  return 0;
}

int main(int argc, char** argv) { return sample::run(argc, argv, "vector_add [SIZE]", program); }
