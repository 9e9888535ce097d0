// Internal: a convolution for images, their derivatives and those of weights.
#include "conv_run.hpp"

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../backend/kernel_store.hpp"

#include <Eigen/Core>

#include <algorithm>

namespace topograd::ops::detail {
namespace {

/// Position that a term reads along one axis; -1: none.
std::int64_t place(const Convolution& c, std::size_t axis, std::int64_t y, std::int64_t i) {
  const std::int64_t t = y * c.stride + i * c.dilation - c.padding[axis];
  if (c.clamped) return std::clamp<std::int64_t>(t, 0, c.size[axis] - 1);
  if (t < 0 || t % c.spacing != 0 || t / c.spacing >= c.size[axis]) return -1;
  return t / c.spacing;
}

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Weights as a matrix: outputs by (channel, row, column).
template <class T>
Matrix<T> weight_matrix(const Convolution& c) {
  const T* w = host_read<T>(c.weights);
  const std::int64_t area = c.kernel[0] * c.kernel[1];
  Matrix<T> out(c.outputs, c.channels * area);
  for (std::int64_t o = 0; o < c.outputs; ++o) {
    for (std::int64_t k = 0; k < c.channels * area; ++k) {
      const std::int64_t channel = k / area, tap = c.flipped ? area - 1 - k % area : k % area;
      out(o, k) = w[o * c.output_step + channel * c.weight_step + tap];
    }
  }
  return out;
}

/// The windows of some rows of one image as a matrix: (channel, row, column) by pixel.
template <class T>
void read_windows(const Convolution& c, const T* image, std::int64_t begin, std::int64_t end,
                  Matrix<T>& out) {
  out.resize(c.channels * c.kernel[0] * c.kernel[1], (end - begin) * c.out_size[1]);
  std::int64_t k = 0;
  for (std::int64_t channel = 0; channel < c.channels; ++channel) {
    const T* plane = image + channel * c.channel_step;
    for (std::int64_t i = 0; i < c.kernel[0]; ++i) {
      for (std::int64_t j = 0; j < c.kernel[1]; ++j, ++k) {
        T* to = out.data() + k * out.cols();
        for (std::int64_t y = begin; y < end; ++y) {
          const std::int64_t row = place(c, 0, y, i);
          for (std::int64_t x = 0; x < c.out_size[1]; ++x) {
            const std::int64_t column = place(c, 1, x, j);
            *to++ = row < 0 || column < 0 ? T{0} : plane[row * c.size[1] + column];
          }
        }
      }
    }
  }
}

template <class T>
void convolve_typed(const Convolution& c) {
  const Matrix<T> weights = weight_matrix<T>(c);
  const T* in = host_read<T>(c.in);
  T* out = host_write<T>(c.out);
  const std::int64_t pixels = c.out_size[0] * c.out_size[1];
  // Number of image rows whose windows have some hundred thousand numbers.
  const std::int64_t depth = std::max<std::int64_t>(1, weights.cols());
  const std::int64_t block =
      std::clamp<std::int64_t>((1 << 18) / (depth * std::max<std::int64_t>(c.out_size[1], 1)), 1,
                               std::max<std::int64_t>(c.out_size[0], 1));
  const std::int64_t blocks = (c.out_size[0] + block - 1) / block;
  runtime::cpu::Pool pool(0);
  pool.for_ranges(static_cast<std::size_t>(c.images * blocks), 1, [&](std::size_t k, std::size_t) {
    const std::int64_t image = static_cast<std::int64_t>(k) / blocks;
    const std::int64_t begin = static_cast<std::int64_t>(k) % blocks * block;
    const std::int64_t end = std::min(c.out_size[0], begin + block);
    Matrix<T> windows;
    read_windows(c, in + image * c.image_step, begin, end, windows);
    Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>> to(
        out + image * c.outputs * pixels + begin * c.out_size[1], c.outputs,
        (end - begin) * c.out_size[1], Eigen::OuterStride<>(pixels));
    to.noalias() = weights * windows;
  });
}

void convolve_on_device(OpBackend& backend, const Convolution& c) {
  const ComputeKernel& kernel = kernel_for(KernelFile::convolve, c.type);
  const auto count = static_cast<std::uint64_t>(c.count());
  const std::uint64_t most = std::min(backend.limits().groups, 1u << 16);
  const std::uint64_t groups = std::min((count + 255) / 256, most);
  const std::int64_t taps = c.kernel[0] * c.kernel[1];
  const auto rounds = static_cast<std::int64_t>((count + 256 * groups - 1) / (256 * groups));
  if (rounds * (taps * (c.channels + 1) + c.kernel[0] + 1) > backend.limits().loop_iterations) {
    throw Error(ErrorCode::Unsupported,
                "conv2d: expected fewer terms a sum for the loops of this device, got " +
                    std::to_string(taps * c.channels));
  }
  const Argument arguments[] = {
      argument(
          backend, c.in,
          extent({c.images, c.channels, c.size[0] * c.size[1]}, {c.image_step, c.channel_step, 1}),
          c.type, Access::read),
      argument(backend, c.weights,
               extent({c.outputs, c.channels, taps}, {c.output_step, c.weight_step, 1}), c.type,
               Access::read),
      argument(backend, c.out, count, c.type, Access::write)};
  const auto word = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const std::uint32_t words[] = {
      word(c.count()),     word(c.channels),     word(c.outputs),     word(c.size[0]),
      word(c.size[1]),     word(c.kernel[0]),    word(c.kernel[1]),   word(c.out_size[0]),
      word(c.out_size[1]), word(c.padding[0]),   word(c.padding[1]),  word(c.stride),
      word(c.dilation),    word(c.spacing),      c.flipped,           c.clamped,
      word(c.image_step),  word(c.channel_step), word(c.output_step), word(c.weight_step)};
  backend.launch({.kernel = &kernel,
                  .arguments = arguments,
                  .words = words,
                  .groups = {static_cast<std::uint32_t>(groups)}});
}

Work work_of(const Convolution& c) {
  const std::uint64_t number = size_of(c.type);
  const auto count = static_cast<std::uint64_t>(c.count());
  const auto terms = static_cast<std::uint64_t>(c.channels * c.kernel[0] * c.kernel[1]);
  const auto image = static_cast<std::uint64_t>(c.images * c.channels * c.size[0] * c.size[1]);
  return {.operations = 2 * count * terms,
          .bytes_read = (image + static_cast<std::uint64_t>(c.outputs) * terms) * number,
          .bytes_written = count * number,
          .reads = static_cast<double>(2 * count * terms * number),
          .steps = runtime::hybrid::tree_steps(static_cast<double>(terms))};
}

}  // namespace

void convolve_on_cpu(const Convolution& c) {
  c.type == Type::f64 ? convolve_typed<double>(c) : convolve_typed<float>(c);
}

void convolve(const Convolution& c, const std::optional<Device>& device) {
  run_op({.op = Operation::Filter,
          .kernel = key_of("convolve", c.channels * c.kernel[0] * c.kernel[1], c.type),
          .size = static_cast<std::uint64_t>(c.count()),
          .work = work_of(c),
          .inputs = {c.in.storage, c.weights.storage},
          .outputs = {c.out.storage},
          .on_cpu = [&] { convolve_on_cpu(c); },
          .on_device = [&](OpBackend& backend) { convolve_on_device(backend, c); },
          .needs_float64 = c.type == Type::f64},
         device);
}

}  // namespace topograd::ops::detail
