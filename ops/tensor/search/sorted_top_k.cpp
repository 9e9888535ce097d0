// The k largest entries by sorting: faster for many rows with large k.
#include "sorted_top_k.hpp"

#include "../../array/sort/sort.hpp"
#include "../arrays.hpp"

#include <numeric>
#include <vector>

namespace topograd::ops::detail {
namespace {

/// Copies numbers from the host to the device of `like`.
template <class T>
Array<T> beside(const Tensor& like, const std::vector<T>& numbers) {
  Array<T> out(numbers);
  if (like.placed()) out.to(*like.placed());
  return out;
}

/// Sort key of each entry: twice the row, plus one for numbers: NaN is first in each row.
template <class T>
Array<T> groups_of(const Tensor& a, std::int64_t rows) {
  Tensor row = arange(rows, a.type()).reshape({rows, 1});
  if (a.placed()) row = row.to(*a.placed());
  return array_of<T>(
      map([](Value x, Value r) { return select(x == x, r + r + literal(1.0), r + r); }, a, row));
}

template <class T>
TopK sorted(const Tensor& a, std::int64_t k) {
  const std::int64_t depth = a.size(-1), rows = a.count() / depth;
  const Tensor flat = a.reshape({rows, depth});
  // Stable sorts, the most significant last: index, -value, NaN, row. Adding 0 converts -0 to 0.
  const Array<std::uint32_t> falling = argsort(array_of<T>(-(flat + 0.0)));
  const Array<std::uint32_t> by_row = argsort(gather(groups_of<T>(flat, rows), falling));
  std::vector<std::uint32_t> first;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t n = 0; n < k; ++n)
      first.push_back(static_cast<std::uint32_t>(row * depth + n));
  const Array<std::uint32_t> entries = gather(gather(falling, by_row), beside(a, first));
  Tensor place = arange(depth, a.type());
  if (a.placed()) place = place.to(*a.placed());
  Shape shape = a.shape();
  shape.back() = k;
  return {tensor(gather(array_of<T>(flat), entries), shape),
          tensor(gather(array_of<T>(place.broadcast_to({rows, depth})), entries), shape)};
}

}  // namespace

TopK sorted_top_k(const Tensor& a, std::int64_t k) {
  return a.type() == Type::f64 ? sorted<double>(a, k) : sorted<float>(a, k);
}

}  // namespace topograd::ops::detail
