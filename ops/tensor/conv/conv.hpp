// Convolutions of images, filters, and pooling.
#pragma once

#include "../tensor.hpp"

#include <cstdint>
#include <span>

namespace topograd::ops {

struct ConvOptions {
  std::int64_t stride = 1;    ///< pixels between windows; >= 1
  std::int64_t padding = 0;   ///< zeros around the image; >= 0
  std::int64_t dilation = 1;  ///< pixels between weights; >= 1
};

/// out[n, o, y, x] = Σ a[n, c, y stride + i dilation - padding, x ...] weights[o, c, i, j].
///
///   a        (n, channels, height, width)
///   weights  (outputs, channels, rows, columns)
///
/// Differentiable. Throws Error{Shape} "conv2d: expected images (n, channels, height, width) and
/// weights (outputs, channels, rows, columns), got (3, 4) and (1, 1, 3, 3)", also if a window does
/// not fit the image; Error{InvalidArgument} for options out of range. Sums are as accurate as
/// those of matmul.
Tensor conv2d(const Tensor& a, const Tensor& weights, ConvOptions options = {});

/// Filters images (..., height, width) by a kernel centred on each pixel; border pixels are
/// repeated outside. The kernel is row-major, of odd sizes, and not flipped.
///
/// A kernel that is the product of a column and a row is detected and applied as two filters;
/// `separated`, if not null, receives true or false. Differentiable by the images. Throws
/// Error{Shape}, Error{InvalidArgument}.
Tensor filter2d(const Tensor& images, std::span<const double> kernel, std::int64_t rows,
                std::int64_t columns, bool* separated = nullptr);

struct PoolOptions {
  std::int64_t stride = 0;   ///< pixels between windows; 0: the window's size
  std::int64_t padding = 0;  ///< pixels around the image; at most half of the window's size
};

/// Maximum (mean) of each window of size by size pixels of images (..., height, width); pixels
/// outside of complete windows are ignored. Windows may overlap. Padding is never the maximum, and
/// counts as zeros in means. A window with a NaN is NaN.
///
/// Differentiable: derivatives go to the largest numbers, in equal parts on ties. Throws
/// Error{Shape} "max_pool2d: expected images (..., height, width) of 4 pixels at least, got (3,
/// 4)", Error{InvalidArgument} "max_pool2d: expected size >= 1, stride >= 0 and 0 <= padding <=
/// size / 2, got 3, -1 and 0".
Tensor max_pool2d(const Tensor& images, std::int64_t size, PoolOptions options = {});
Tensor avg_pool2d(const Tensor& images, std::int64_t size, PoolOptions options = {});

}  // namespace topograd::ops
