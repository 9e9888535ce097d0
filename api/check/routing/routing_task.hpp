// Internal: tasks of the routing check, x <- a x + b, repeated for each item.
#pragma once

#include "../../../runtime/cache/content_hash.hpp"
#include "../../../runtime/hybrid/task.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace topograd::check {

/// Arrays that all tasks of the check share, so that memory does not grow with the number of sizes.
struct RoutingArrays {
  explicit RoutingArrays(std::size_t size) : in(size), out(size) {
    for (std::size_t k = 0; k < size; ++k) in[k] = static_cast<float>(k % 1000) * 1e-3f;
  }
  std::vector<float> in, out;
};

class RoutingTask final : public runtime::hybrid::Task {
 public:
  /// `rounds` rounds of two operations each.
  RoutingTask(RoutingArrays& arrays, std::uint64_t rounds, std::uint64_t size)
      : arrays_(arrays), rounds_(rounds), size_(size) {}

  runtime::hybrid::TaskShape shape() const override {
    return {.kernel = runtime::hash_text("routing check " + std::to_string(rounds_)),
            .operation = "check",
            .size = size_,
            .bytes_in = 4 * size_,
            .bytes_out = 4 * size_,
            .features = {.operations = 2.0 * static_cast<double>(rounds_), .bytes = 8},
            .where = where,
            .teaches = where == runtime::hybrid::Override::none};
  }
  void run_on_cpu(const runtime::hybrid::CpuThreads& threads,
                  runtime::hybrid::Items items) override {
    threads.for_ranges(items.count(), kGrain / rounds_ + 1,
                       [&](std::size_t begin, std::size_t end) {
                         for (std::size_t k = items.begin + begin; k < items.begin + end; ++k)
                           arrays_.out[k] = value(arrays_.in[k]);
                       });
  }
  std::optional<runtime::hybrid::DeviceProgram> program(runtime::hybrid::Items items) override {
    const auto part = [&](auto& array) {
      return std::span(array).subspan(items.begin, items.count());
    };
    runtime::hybrid::DeviceProgram program{
        .name = "routing_check", .glsl = glsl(), .items = items.count(), .itemwise = true};
    program.arrays.push_back({.read = {std::as_bytes(part(arrays_.in))}});
    program.arrays.push_back({.written = {std::as_writable_bytes(part(arrays_.out))}});
    return program;
  }

  /// Number of sampled items whose result differs by more than rounding.
  std::uint64_t wrong() const {
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < size_; k += size_ / 64 + 1) {
      const float expected = value(arrays_.in[k]);
      count += std::abs(arrays_.out[k] - expected) <= 1e-4f * std::abs(expected) ? 0 : 1;
    }
    return count;
  }

  runtime::hybrid::Override where = runtime::hybrid::Override::none;

 private:
  static constexpr std::size_t kGrain = 1 << 16;

  float value(float x) const {
    for (std::uint64_t k = 0; k < rounds_; ++k) x = x * 0.875f + 0.25f;
    return x;
  }
  std::string glsl() const {
    return R"(#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer In { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Push { uint first; uint items; };
void main() {
  uint i = first + gl_GlobalInvocationID.x;
  if (i >= items) return;
  float v = x[i];
  for (uint k = 0; k < )" +
           std::to_string(rounds_) + R"(u; ++k) v = v * 0.875 + 0.25;
  y[i] = v;
}
)";
  }

  RoutingArrays& arrays_;
  std::uint64_t rounds_, size_;
};

}  // namespace topograd::check
