// Discrete Fourier transforms of any length, in one and two dimensions; on the CPU row by row.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "../../../ir/error.hpp"
#include "../../../runtime/cpu/tiles/pool.hpp"
#include "../../backend/kernel_store.hpp"
#include "../operations.hpp"
#include "fft_run.hpp"

namespace topograd::ops::detail {
namespace {

/// Numbers that one range of rows should have at least.
constexpr std::uint64_t kNumbersOfARange = 16384;

/// Calls f(transform, begin, end) for ranges of rows.
template <class T, class F>
void for_rows(const FftRows& fft, RowKind kind, const F& f) {
  runtime::cpu::Pool pool(0);
  const std::size_t grain = std::max<std::uint64_t>(1, kNumbersOfARange / (2 * fft.length));
  pool.for_ranges(fft.rows, grain, [&](std::size_t begin, std::size_t end) {
    RowTransform<T> transform(fft.length, kind);
    f(transform, begin, end);
  });
}

template <class T>
void run_rows(const FftRows& fft) {
  const T* const from = host_read<T>(fft.source);
  T* const to = host_write<T>(fft.target);
  const std::uint64_t size = 2 * fft.length;
  for_rows<T>(fft, fft.inverse ? RowKind::inverse : RowKind::forward,
              [&](RowTransform<T>& transform, std::size_t begin, std::size_t end) {
                for (std::size_t row = begin; row < end; ++row)
                  transform.run(from + row * size, to + row * size);
                if (fft.factor == 1) return;
                for (std::size_t k = begin * size; k < end * size; ++k)
                  to[k] *= static_cast<T>(fft.factor);
              });
}

template <class T>
void run_real_rows(const FftRows& fft) {
  const T* const from = host_read<T>(fft.source);
  T* const to = host_write<T>(fft.target);
  for_rows<T>(fft, RowKind::real,
              [&](RowTransform<T>& transform, std::size_t begin, std::size_t end) {
                for (std::size_t row = begin; row < end; ++row)
                  transform.run(from + row * 2 * fft.length, to + row * 2 * (fft.length + 1));
              });
}

}  // namespace

void rfft_on_cpu(const FftRows& fft) {
  fft.type == Type::f64 ? run_real_rows<double>(fft) : run_real_rows<float>(fft);
}

void fft_on_cpu(const FftRows& fft) {
  fft.type == Type::f64 ? run_rows<double>(fft) : run_rows<float>(fft);
}

std::vector<std::complex<double>> fft_of(const std::vector<std::complex<double>>& numbers) {
  std::vector<std::complex<double>> out(numbers.size());
  RowTransform<double>(numbers.size(), RowKind::forward)
      .run(reinterpret_cast<const double*>(numbers.data()), reinterpret_cast<double*>(out.data()));
  return out;
}

}  // namespace topograd::ops::detail

namespace topograd::ops {
namespace {

using detail::FftRows;
using detail::View;

/// An empty axis has no transform, as in NumPy and PyTorch.
void check_lengths(const char* call, const Tensor& x, std::initializer_list<std::int64_t> axes) {
  for (const std::int64_t axis : axes) {
    if (x.size(axis) > 0) continue;
    throw Error(ErrorCode::Shape, std::string(call) +
                                      ": expected at least one number along an axis that is "
                                      "transformed, got " +
                                      to_text(x.shape()));
  }
}

/// Checks that z is complex and that its transformed axis or axes are not empty.
void check_complex(const char* call, const Tensor& z, std::size_t rank) {
  detail::state_of(call, z);
  if (z.rank() < rank || z.size(-1) != 2) {
    throw Error(ErrorCode::Shape, std::string(call) + ": expected complex numbers (..., " +
                                      (rank == 3 ? "m, n" : "n") + ", 2), got " +
                                      to_text(z.shape()));
  }
  check_lengths(call, z, {-2});
  if (rank == 3) check_lengths(call, z, {-3});
}

/// A view for devices, which read pairs: a view that begins within a pair is copied.
View pairs_of(const Tensor& tensor) {
  View source = detail::contiguous_data(tensor);
  return source.offset % 2 == 0 ? source : (tensor * 1.0).evaluate().state()->data;
}

using OnCpu = void (*)(const FftRows&);
using OnDevice = void (*)(OpBackend&, const FftRows&);

/// Work of butterflies of complex numbers: ten operations per pair, in log2(n) rounds.
Work transform_work(const FftRows& fft) {
  const auto count = static_cast<double>(fft.rows * fft.length);
  const double rounds = std::max(1.0, std::log2(static_cast<double>(fft.length)));
  const double bytes = 2 * count * static_cast<double>(size_of(fft.type));
  return {.operations = 5 * rounds * count,
          .bytes_read = bytes,
          .bytes_written = bytes,
          .reads = rounds * bytes,
          .steps = rounds};
}

/// Runs on the device of `like`, or where the executor decides.
void run_transform(const FftRows& fft, std::string_view kernel, const Tensor& like, OnCpu on_cpu,
                   OnDevice on_device) {
  detail::run_op({.op = Operation::Fft,
                  .kernel = key_of(kernel, fft.length, fft.type),
                  .size = fft.rows * fft.length,
                  .work = transform_work(fft),
                  .inputs = {fft.source.storage},
                  .outputs = {fft.target.storage},
                  .on_cpu = [&] { on_cpu(fft); },
                  .on_device = [&](OpBackend& backend) { on_device(backend, fft); },
                  .needs_float64 = fft.type == Type::f64},
                 like.placed());
}

/// Σ z_j e^(∓2πi jk/n), times `factor`.
Tensor transform(const char* call_name, const Tensor& z, bool inverse, double factor) {
  check_complex(call_name, z, 2);
  const Tensor wide = z.type() == Type::f16 ? z.to(Type::f32) : z;
  Tensor out = detail::make_tensor(z.shape(), wide.type(), z.placed());
  if (z.count() > 0) {
    FftRows fft{.source = pairs_of(wide),
                .target = out.state()->data,
                .type = wide.type(),
                .inverse = inverse,
                .factor = factor};
    fft.length = static_cast<std::uint64_t>(z.size(-2));
    fft.rows = static_cast<std::uint64_t>(z.count()) / 2 / fft.length;
    run_transform(fft, "fft", z, detail::fft_on_cpu, detail::fft_on_device);
  }
  detail::record(out, {&z, 1}, [inverse, factor](const Tensor& g) {
    return std::vector{transform("fft", g, !inverse, factor)};
  });
  return out;
}

double inverse_size(const Tensor& z, std::int64_t axis) {
  return 1 / static_cast<double>(z.size(axis));
}

/// Transforms the axis before the last two; swaps it with the last but one meanwhile.
Tensor across(const char* call, const Tensor& z, bool inverse, double factor) {
  return transform(call, z.transpose(-3, -2), inverse, factor).transpose(-3, -2);
}

/// Embeds a slice in zeros; differentiable.
Tensor placed(const Tensor& part, const Shape& shape, std::size_t axis) {
  Tensor out = detail::place_slice(part, shape, axis, 0, 1);
  detail::record(out, {&part, 1}, [axis, size = part.shape()[axis]](const Tensor& g) {
    return std::vector{g.slice(static_cast<std::int64_t>(axis), 0, size)};
  });
  return out;
}

/// rfft() of an even number of real numbers, by a complex transform of half the length.
Tensor half_transform(const Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  Shape shape = x.shape();
  shape.back() = half + 1;
  shape.push_back(2);
  Tensor out = detail::make_tensor(shape, x.type(), x.placed());
  if (x.count() > 0) {
    const FftRows fft{.source = pairs_of(x),
                      .target = out.state()->data,
                      .type = x.type(),
                      .rows = static_cast<std::uint64_t>(x.count() / (2 * half)),
                      .length = static_cast<std::uint64_t>(half)};
    run_transform(fft, "rfft", x, detail::rfft_on_cpu, detail::rfft_on_device);
  }
  detail::record(out, {&x, 1}, [shape = x.shape(), half](const Tensor& g) {
    Shape full = g.shape();
    full[full.size() - 2] = 2 * half;
    const Tensor whole = transform("fft", placed(g, full, full.size() - 2), true, 1);
    return std::vector{whole.slice(-1, 0, 1).reshape(shape)};
  });
  return out;
}

/// Converts real to complex numbers.
Tensor complex(const Tensor& x) {
  Shape part = x.shape(), shape = x.shape();
  part.push_back(1);
  shape.push_back(2);
  return placed(x.reshape(part), shape, x.rank());
}

}  // namespace

Tensor fft(const Tensor& z) { return transform("fft", z, false, 1); }

Tensor ifft(const Tensor& y) {
  check_complex("ifft", y, 2);
  return transform("ifft", y, true, inverse_size(y, -2));
}

Tensor fft2(const Tensor& z) {
  check_complex("fft2", z, 3);
  return across("fft2", fft(z), false, 1);
}

Tensor ifft2(const Tensor& y) {
  check_complex("ifft2", y, 3);
  return across("ifft2", ifft(y), true, inverse_size(y, -3));
}

Tensor rfft(const Tensor& x) {
  detail::state_of("rfft", x);
  if (x.rank() == 0) checked_axis("rfft", x.shape(), -1);
  check_lengths("rfft", x, {-1});
  const Tensor wide = x.type() == Type::f16 ? x.to(Type::f32) : x;
  if (x.size(-1) % 2 == 0) return half_transform(wide);
  return fft(complex(wide)).slice(-2, 0, x.size(-1) / 2 + 1);
}

namespace {

/// Throws unless y has n/2 + 1 complex numbers for n real ones.
void check_half(const char* call, const Tensor& y, std::int64_t n) {
  if (n <= 0)
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": expected n >= 1, got " + std::to_string(n));
  if (y.size(-2) != n / 2 + 1) {
    throw Error(ErrorCode::Shape, std::string(call) +
                                      ": expected n/2 + 1 complex numbers for n = " +
                                      std::to_string(n) + ", got " + to_text(y.shape()));
  }
}

}  // namespace

Tensor irfft(const Tensor& y, std::int64_t n) {
  check_complex("irfft", y, 2);
  check_half("irfft", y, n);
  // The other half is the conjugate of this one: numbers with a counterpart count twice.
  std::vector<double> weights(static_cast<std::size_t>(y.size(-2)), 2);
  weights[0] = 1;
  if (n % 2 == 0) weights.back() = 1;
  Tensor weight = tensor(weights, {y.size(-2), 1}, y.type() == Type::f64 ? Type::f64 : Type::f32);
  if (const auto device = y.placed()) weight = weight.to(*device);
  Shape full = y.shape();
  full[full.size() - 2] = n;
  const Tensor padded = placed((y * weight).evaluate(), full, full.size() - 2);
  Shape real(full.begin(), full.end() - 1);
  return transform("irfft", padded, true, 1 / static_cast<double>(n)).slice(-1, 0, 1).reshape(real);
}

Tensor rfft2(const Tensor& x) {
  detail::state_of("rfft2", x);
  if (x.rank() < 2) {
    throw Error(ErrorCode::Shape,
                "rfft2: expected real numbers (..., m, n), got " + to_text(x.shape()));
  }
  check_lengths("rfft2", x, {-2, -1});
  return across("rfft2", rfft(x), false, 1);
}

Tensor irfft2(const Tensor& y, std::int64_t n) {
  check_complex("irfft2", y, 3);
  check_half("irfft2", y, n);
  return irfft(across("irfft2", y, true, inverse_size(y, -3)), n);
}

}  // namespace topograd::ops
