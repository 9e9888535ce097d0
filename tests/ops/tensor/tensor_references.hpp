// Tensor operations as their definitions have them: plain loops in double.
#pragma once

#include "../../../ops/tensor/shape.hpp"

#include <functional>
#include <vector>

namespace topograd::ops::test::reference {

using Numbers = std::vector<double>;

/// Of vectors of n numbers that lie `step` apart, `step` of them next to each other.
Numbers softmax(const Numbers& x, std::int64_t n, std::int64_t step);
/// Of rows of n numbers, with epsilon 1e-5.
Numbers layer_norm(const Numbers& x, const Numbers& scale, const Numbers& shift, std::int64_t n);
/// Mean of f of the two inputs' entries.
Numbers mean(const std::vector<Numbers>& x, const std::function<double(double, double)>& f);

enum class Fold { sum, mean, variance, max, min, argmax, argmin };
/// Along one axis.
Numbers fold(const Numbers& x, const Shape& shape, std::size_t axis, Fold fold);

/// (m, k) times (k, n).
Numbers matmul(const Numbers& a, const Numbers& b, std::int64_t m, std::int64_t k, std::int64_t n);
/// Of rows of d numbers.
Numbers cosines(const Numbers& queries, const Numbers& targets, std::int64_t d);
/// The min(n, k) largest of each row of n.
Numbers largest(const Numbers& x, std::int64_t n, std::int64_t k);

/// (2, ..., 5) by (3, 2, 3, 2), with a padding of 1.
Numbers conv2d(const Numbers& image, const Numbers& weights);
/// 3 x 3, not separable.
extern const Numbers kFilter;
/// (..., 5) by kFilter; pixels repeat beyond the border.
Numbers filter2d(const Numbers& image);
/// Of (..., 9): windows of 3, 2 apart, with a padding of 1.
Numbers pool(const Numbers& image, bool largest);

/// Of rows of n pairs; divided by n for a positive sign.
Numbers dft(const Numbers& z, std::int64_t n, int sign);
/// Of (..., m, n) pairs, along both.
Numbers dft2(const Numbers& z, std::int64_t m, std::int64_t n, int sign);
/// The first n / 2 + 1 pairs of rows of n real numbers.
Numbers rdft(const Numbers& x, std::int64_t n);
/// n real numbers of rows of n / 2 + 1 pairs; imaginary parts that none of these have are left out.
Numbers irdft(const Numbers& y, std::int64_t n);
/// Of (..., m, n) real numbers: (..., m, n / 2 + 1) pairs; and back.
Numbers rdft2(const Numbers& x, std::int64_t m, std::int64_t n);
Numbers irdft2(const Numbers& y, std::int64_t m, std::int64_t n);

}  // namespace topograd::ops::test::reference
