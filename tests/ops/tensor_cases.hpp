// What tensors must compute, wherever they are: run on the CPU and on a device.
#pragma once

#include <topograd/ops/device.hpp>

namespace topograd::ops::test {

void check_elementwise(const Device& device);
void check_reductions(const Device& device);
void check_matmul(const Device& device);
void check_rows(const Device& device);
void check_fft(const Device& device);
void check_conv(const Device& device);
void check_search(const Device& device);
void check_half(const Device& device);
void check_training(const Device& device);

}  // namespace topograd::ops::test
