// Tensor operations by their definitions: plain loops in double.
#pragma once

#include "../../../ops/tensor/shape.hpp"

#include <functional>
#include <vector>

namespace topograd::ops::test::reference {

using Numbers = std::vector<double>;

/// Softmax of vectors of n numbers with stride `step`, `step` of them interleaved.
Numbers softmax(const Numbers& x, std::int64_t n, std::int64_t step);
/// Layer norm of rows of n numbers, with epsilon 1e-5.
Numbers layer_norm(const Numbers& x, const Numbers& scale, const Numbers& shift, std::int64_t n);
/// Mean of f over the two inputs' entries.
Numbers mean(const std::vector<Numbers>& x, const std::function<double(double, double)>& f);

enum class Fold { sum, mean, variance, max, min, argmax, argmin };
/// Along one axis.
Numbers fold(const Numbers& x, const Shape& shape, std::size_t axis, Fold fold);

/// (m, k) times (k, n).
Numbers matmul(const Numbers& a, const Numbers& b, std::int64_t m, std::int64_t k, std::int64_t n);
/// Cosines of rows of d numbers.
Numbers cosines(const Numbers& queries, const Numbers& targets, std::int64_t d);
/// The min(n, k) largest numbers of each row of n.
Numbers largest(const Numbers& x, std::int64_t n, std::int64_t k);

/// (2, ..., 5) by (3, 2, 3, 2), with a padding of 1.
Numbers conv2d(const Numbers& image, const Numbers& weights);
/// 3 x 3, not separable.
extern const Numbers kFilter;
/// (..., 5) by kFilter; pixels repeat beyond the border.
Numbers filter2d(const Numbers& image);
/// Pooling of (..., 9): windows of 3, 2 apart, with a padding of 1.
Numbers pool(const Numbers& image, bool largest);

/// Transform of rows of n pairs; divided by n for a positive sign.
Numbers dft(const Numbers& z, std::int64_t n, int sign);
/// Transform of (..., m, n) pairs along both axes.
Numbers dft2(const Numbers& z, std::int64_t m, std::int64_t n, int sign);
/// The first n / 2 + 1 pairs of rows of n real numbers.
Numbers rdft(const Numbers& x, std::int64_t n);
/// n real numbers from rows of n / 2 + 1 pairs; imaginary parts that real signals do not have are
/// ignored.
Numbers irdft(const Numbers& y, std::int64_t n);
/// (..., m, n / 2 + 1) pairs from (..., m, n) real numbers; and back.
Numbers rdft2(const Numbers& x, std::int64_t m, std::int64_t n);
Numbers irdft2(const Numbers& y, std::int64_t m, std::int64_t n);

}  // namespace topograd::ops::test::reference
