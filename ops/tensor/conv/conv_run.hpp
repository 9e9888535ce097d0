// Internal: a convolution for images, their derivatives and those of weights.
#pragma once

#include "../state.hpp"

#include <array>
#include <cstdint>

namespace topograd::ops::detail {

/// out[n, o, y, x] = Σ_{c, i, j} in[n, c, t(y, i), t(x, j)] w[o, c, i, j]; out is contiguous.
///
/// t(y, i) = (y stride + i dilation - padding) / spacing if that is an integer inside the image;
/// otherwise the term is 0, or with `clamped` that of the nearest pixel.
struct Convolution {
  View in, weights, out;
  Type type = Type::f32;
  std::int64_t images = 0, channels = 0, outputs = 0;
  std::array<std::int64_t, 2> size = {}, kernel = {}, out_size = {}, padding = {};
  std::int64_t stride = 1, dilation = 1, spacing = 1;
  bool flipped = false;  ///< reads weights from the last to the first
  bool clamped = false;
  // Elements between images and between channels of `in`, and between outputs and between channels
  // of `weights`; rows are contiguous.
  std::int64_t image_step = 0, channel_step = 0, output_step = 0, weight_step = 0;

  std::int64_t count() const { return images * outputs * out_size[0] * out_size[1]; }
};

void convolve(const Convolution& c, const std::optional<Device>& device);
void convolve_on_cpu(const Convolution& c);

}  // namespace topograd::ops::detail
