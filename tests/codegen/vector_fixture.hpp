// Common parts of tests of vector kernels: precisions to combine, numbers, the scalar buffer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

#include "kernel_runner.hpp"

namespace topograd::test {

class VectorKernels : public KernelDeviceTest {
 protected:
  /// Precisions of vectors and scalars that the device can combine.
  std::vector<std::pair<codegen::Precision, codegen::Precision>> pairs() const {
    std::vector<std::pair<codegen::Precision, codegen::Precision>> out = {
        {codegen::Precision::f32, codegen::Precision::f32}};
    if (device_->features().float64) {
      out.insert(out.end(), {{codegen::Precision::f32, codegen::Precision::f64},
                             {codegen::Precision::f64, codegen::Precision::f64}});
    }
    return out;
  }

  static std::vector<double> numbers(std::size_t count, codegen::Precision precision,
                                     unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> number(-2, 2);
    std::vector<double> out(count);
    for (double& value : out) value = number(random);
    return rounded(out, precision);
  }

  static void set_scalars(KernelRunner& runner, codegen::Precision precision,
                          std::initializer_list<std::pair<std::uint32_t, double>> values) {
    auto all = codegen::initial_scalars();
    for (const auto& [place, value] : values) all[place] = value;
    runner.set(codegen::BufferRole::scalars, precision, all);
  }
};

}  // namespace topograd::test
