// Tensor operations that take options as their last argument.
#pragma once

#include "tensor/conv/conv.hpp"
#include "tensor/fft/fft.hpp"
#include "tensor/losses/losses.hpp"
#include "tensor/losses/softmax.hpp"
#include "tensor/matmul/matmul.hpp"
#include "tensor/parts/parts.hpp"
#include "tensor/reduce.hpp"
#include "tensor/search/search.hpp"
#include "tensor/with_options.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::ops {

// Every operation that is not an element-wise expression, with options as the last argument.
// Expressions take options when they are computed: (a + b).evaluate({.stats = &stats}).

inline Tensor sum(const Tensor& a, const Axes& axes, bool keep, const OpOptions& options) {
  return with_options(options, [&] { return sum(a, axes, keep); });
}
inline Tensor mean(const Tensor& a, const Axes& axes, bool keep, const OpOptions& options) {
  return with_options(options, [&] { return mean(a, axes, keep); });
}
inline Tensor max(const Tensor& a, const Axes& axes, bool keep, const OpOptions& options) {
  return with_options(options, [&] { return max(a, axes, keep); });
}
inline Tensor min(const Tensor& a, const Axes& axes, bool keep, const OpOptions& options) {
  return with_options(options, [&] { return min(a, axes, keep); });
}
inline Tensor variance(const Tensor& a, const Axes& axes, bool keep, const OpOptions& options) {
  return with_options(options, [&] { return variance(a, axes, keep); });
}
inline Tensor argmax(const Tensor& a, std::int64_t axis, const OpOptions& options) {
  return with_options(options, [&] { return argmax(a, axis); });
}
inline Tensor argmin(const Tensor& a, std::int64_t axis, const OpOptions& options) {
  return with_options(options, [&] { return argmin(a, axis); });
}

inline Tensor matmul(const Tensor& a, const Tensor& b, const OpOptions& options) {
  return with_options(options, [&] { return matmul(a, b); });
}

inline Tensor concat(const std::vector<Tensor>& tensors, std::int64_t axis,
                     const OpOptions& options) {
  return with_options(options, [&] { return concat(tensors, axis); });
}
inline Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis,
                    const OpOptions& options) {
  return with_options(options, [&] { return stack(tensors, axis); });
}
inline Tensor take(const Tensor& a, const Tensor& indices, std::int64_t axis, IndexCheck check,
                   const OpOptions& options) {
  return with_options(options, [&] { return take(a, indices, axis, check); });
}
inline Tensor embedding(const Tensor& table, const Tensor& indices, IndexCheck check,
                        const OpOptions& options) {
  return with_options(options, [&] { return embedding(table, indices, check); });
}

inline Tensor softmax(const Tensor& a, std::int64_t axis, const OpOptions& options) {
  return with_options(options, [&] { return softmax(a, axis); });
}
inline Tensor log_softmax(const Tensor& a, std::int64_t axis, const OpOptions& options) {
  return with_options(options, [&] { return log_softmax(a, axis); });
}
inline Tensor layer_norm(const Tensor& a, double epsilon, const OpOptions& options) {
  return with_options(options, [&] { return layer_norm(a, epsilon); });
}
inline Tensor layer_norm(const Tensor& a, const Tensor& scale, const Tensor& shift, double epsilon,
                         const OpOptions& options) {
  return with_options(options, [&] { return layer_norm(a, scale, shift, epsilon); });
}

inline Tensor conv2d(const Tensor& a, const Tensor& weights, ConvOptions conv,
                     const OpOptions& options) {
  return with_options(options, [&] { return conv2d(a, weights, conv); });
}
inline Tensor filter2d(const Tensor& images, std::span<const double> kernel, std::int64_t rows,
                       std::int64_t columns, bool* separated, const OpOptions& options) {
  return with_options(options, [&] { return filter2d(images, kernel, rows, columns, separated); });
}
inline Tensor max_pool2d(const Tensor& images, std::int64_t size, PoolOptions pool,
                         const OpOptions& options) {
  return with_options(options, [&] { return max_pool2d(images, size, pool); });
}
inline Tensor avg_pool2d(const Tensor& images, std::int64_t size, PoolOptions pool,
                         const OpOptions& options) {
  return with_options(options, [&] { return avg_pool2d(images, size, pool); });
}

inline Tensor fft(const Tensor& z, const OpOptions& options) {
  return with_options(options, [&] { return fft(z); });
}
inline Tensor ifft(const Tensor& y, const OpOptions& options) {
  return with_options(options, [&] { return ifft(y); });
}
inline Tensor fft2(const Tensor& z, const OpOptions& options) {
  return with_options(options, [&] { return fft2(z); });
}
inline Tensor ifft2(const Tensor& y, const OpOptions& options) {
  return with_options(options, [&] { return ifft2(y); });
}
inline Tensor rfft(const Tensor& x, const OpOptions& options) {
  return with_options(options, [&] { return rfft(x); });
}
inline Tensor irfft(const Tensor& y, std::int64_t n, const OpOptions& options) {
  return with_options(options, [&] { return irfft(y, n); });
}
inline Tensor rfft2(const Tensor& x, const OpOptions& options) {
  return with_options(options, [&] { return rfft2(x); });
}
inline Tensor irfft2(const Tensor& y, std::int64_t n, const OpOptions& options) {
  return with_options(options, [&] { return irfft2(y, n); });
}

inline Tensor cosine_similarity(const Tensor& query, const Tensor& targets,
                                const OpOptions& options) {
  return with_options(options, [&] { return cosine_similarity(query, targets); });
}
inline TopK top_k(const Tensor& a, std::int64_t k, const OpOptions& options) {
  return with_options(options, [&] { return top_k(a, k); });
}

inline Tensor mse_loss(const Tensor& a, const Tensor& b, const OpOptions& options) {
  return with_options(options, [&] { return mse_loss(a, b); });
}
inline Tensor mae_loss(const Tensor& a, const Tensor& b, const OpOptions& options) {
  return with_options(options, [&] { return mae_loss(a, b); });
}
inline Tensor huber_loss(const Tensor& a, const Tensor& b, double delta, const OpOptions& options) {
  return with_options(options, [&] { return huber_loss(a, b, delta); });
}
inline Tensor tukey_loss(const Tensor& a, const Tensor& b, double c, const OpOptions& options) {
  return with_options(options, [&] { return tukey_loss(a, b, c); });
}
inline Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets,
                                   const OpOptions& options) {
  return with_options(options, [&] { return binary_cross_entropy(logits, targets); });
}
inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const OpOptions& options) {
  return with_options(options, [&] { return cross_entropy(logits, targets); });
}

}  // namespace topograd::ops
