// Concatenation, splitting and indexing of tensors, bit for bit, on one device.
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ir/error.hpp"
#include "../../../ops/tensor/operations.hpp"

#include <cmath>
#include <limits>

namespace topograd::ops::test {
namespace {

using Several = std::vector<Tensor>;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::size_t place(std::int64_t k) { return static_cast<std::size_t>(k); }

/// Sizes before, along and after an axis.
struct Around {
  std::int64_t before, size, after;
};
Around around(const Shape& shape, std::size_t axis) {
  Around out{1, shape[axis], 1};
  for (std::size_t k = 0; k < shape.size(); ++k)
    (k < axis ? out.before : out.after) *= k == axis ? 1 : shape[k];
  return out;
}

std::vector<double> joined(const Several& x, std::size_t axis) {
  std::vector<double> out;
  std::vector<std::vector<double>> all;
  for (const Tensor& t : x) all.push_back(held(t));
  const std::int64_t rows = around(x[0].shape(), axis).before;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::size_t k = 0; k < x.size(); ++k) {
      const Around a = around(x[k].shape(), axis);
      const auto begin = all[k].begin() + row * a.size * a.after;
      out.insert(out.end(), begin, begin + a.size * a.after);
    }
  }
  return out;
}

std::vector<double> taken(const Tensor& x, const std::vector<double>& indices, std::size_t axis) {
  const Around a = around(x.shape(), axis);
  const std::vector<double> all = held(x);
  std::vector<double> out;
  for (std::int64_t row = 0; row < a.before; ++row)
    for (const double at : indices)
      for (std::int64_t k = 0; k < a.after; ++k) {
        const bool there = at >= 0 && at < static_cast<double>(a.size);
        out.push_back(
            there ? all[place((row * a.size + static_cast<std::int64_t>(at)) * a.after + k)] : 0);
      }
  return out;
}

/// Numbers including special values.
Tensor odd_sample(const Shape& shape, int seed, Type type, const Device& device) {
  std::vector<double> all = numbers(element_count(shape), seed);
  const double odd[] = {-0.0, kInfinite, -kInfinite, std::nan("")};
  for (std::size_t k = 0; k < 4 && k * 3 < all.size(); ++k) all[k * 3] = odd[k];
  return tensor(all, shape, type).to(device);
}

void expect_same(const Tensor& got, const std::vector<double>& want, const std::string& what) {
  const std::vector<double> values = held(got);
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t k = 0; k < want.size(); ++k) {
    const bool same = std::isnan(want[k]) ? std::isnan(values[k])
                                          : values[k] == want[k] &&
                                                std::signbit(values[k]) == std::signbit(want[k]);
    ASSERT_TRUE(same) << what << " [" << k << "]: " << values[k] << ", want " << want[k];
  }
}

void check_joining(const Device& device, Type type) {
  for (const std::int64_t n : {0, 1, 2, 31, 32, 33, 257}) {
    for (const std::size_t axis : {0u, 1u, 2u}) {
      Several x;
      for (const std::int64_t size : {n, std::int64_t{3}, std::int64_t{4}}) {
        Shape shape = {2, 3, 4};
        shape[axis] = size;
        x.push_back(odd_sample(shape, static_cast<int>(size) + 1, type, device));
      }
      const std::string what =
          std::string(name(type)) + " " + std::to_string(n) + " along " + std::to_string(axis);
      const Tensor all = concat(x, static_cast<std::int64_t>(axis));
      EXPECT_EQ(all.type(), type);
      EXPECT_EQ(all.placed(), device);
      expect_same(all, joined(x, axis), "concat " + what);
      const Several parts = split(all, {n, 3, 4}, static_cast<std::int64_t>(axis));
      for (std::size_t k = 0; k < 3; ++k) expect_same(parts[k], held(x[k]), "split " + what);
    }
  }
  // Views with offsets and other axis orders.
  const Tensor a = odd_sample({5, 7}, 3, type, device);
  const Several views = {a.transpose().slice(0, 1, 4), a.transpose().slice(0, 3, 7, 2)};
  expect_same(concat(views, -2), joined(views, 0), "views");
  const Several rows = {a.slice(0, 1, 3), a.slice(0, 2, 5), a.slice(0, 0, 1)};
  expect_same(concat(rows), joined(rows, 0), "rows");
  for (const std::int64_t axis : {0, 1, 2, -1}) {
    const Several slabs = {a, a.slice(0, 0, 5), odd_sample({5, 7}, 4, type, device)};
    const Tensor stacked = stack(slabs, axis);
    const auto at = static_cast<std::size_t>(axis < 0 ? 2 : axis);
    Shape shape = {5, 7};
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 3);
    EXPECT_EQ(stacked.shape(), shape);
    Several one;
    shape[at] = 1;
    for (const Tensor& t : slabs) one.push_back(t.reshape(shape));
    expect_same(stacked, joined(one, at), "stack along " + std::to_string(axis));
  }
}

void check_taking(const Device& device, Type type, Type index_type) {
  const std::vector<double> at = {4,         0, 0,         3, -1, 5, 2.5, 1, std::nan(""),
                                  kInfinite, 4, -kInfinite};
  const Tensor indices = tensor(at, {3, 4}, index_type).to(device);
  for (const std::int64_t n : {1, 2, 4, 31, 33}) {
    for (const std::size_t axis : {0u, 1u, 2u}) {
      Shape shape = {3, n, 8};
      shape[axis] = 5;
      const Tensor x = odd_sample(shape, 7, type, device);
      const std::string what = std::string(name(type)) + " by " + std::string(name(index_type)) +
                               " along " + std::to_string(axis) + " of " + to_text(shape);
      const Tensor got = take(x, indices, static_cast<std::int64_t>(axis));
      EXPECT_EQ(got.type(), type);
      EXPECT_EQ(got.rank(), 4u) << what;
      expect_same(got, taken(x, at, axis), what);
      const Tensor view = x.slice(0, 1, x.size(0)).transpose();
      if (axis == 2) expect_same(take(view, indices, 1), taken(view, at, 1), what + ", turned");
    }
  }
  const Tensor none = take(odd_sample({5, 3}, 1, type, device), zeros({0}).to(device));
  EXPECT_EQ(none.shape(), (Shape{0, 3}));
  const Tensor nothing = take(zeros({0, 3}, type).to(device), indices);
  expect_same(nothing, std::vector<double>(36, 0), "of nothing");
  EXPECT_EQ(take(odd_sample({5, 3}, 1, type, device), Tensor(2.0)).shape(), Shape{3});
}

void check_taken_derivatives(const Device& device) {
  Tensor table = sample({5, 3}, 2).to(device);
  table.requires_grad();
  const Tensor weights = sample({6, 3}, 3).to(device);
  const std::vector<double> at = {4, 1, 4, 7, 0, -1};
  sum(embedding(table, tensor(at, {6}).to(device)) * weights).backward();
  std::vector<double> want(15, 0);
  const std::vector<double> w = held(weights);
  for (std::size_t k = 0; k < at.size(); ++k)
    for (std::size_t i = 0; i < 3; ++i)
      if (at[k] >= 0 && at[k] < 5) want[static_cast<std::size_t>(at[k]) * 3 + i] += w[k * 3 + i];
  EXPECT_EQ(table.grad().placed(), device);
  expect_near(table.grad(), want, 1e-6, "derivatives of rows");
}

}  // namespace

void check_parts(const Device& device) {
  const bool wide = device.is_cpu() || device.facts().float64;
  for (const Type type : {Type::f32, Type::f64, Type::f16}) {
    if (type == Type::f64 && !wide) continue;
    check_joining(device, type);
    check_taking(device, type, Type::f32);
  }
  check_taking(device, Type::f32, Type::f16);
  if (wide) check_taking(device, Type::f32, Type::f64);
  check_taken_derivatives(device);
  const Tensor mixed = concat({sample({3}).to(Type::f16).to(device), sample({2}).to(device)});
  EXPECT_EQ(mixed.type(), Type::f32);
  const Tensor row = tensor({0, 2}, {2}).to(device);
  expect_same(take(tensor({5, 6, 7}, {3}).to(device), row, 0, IndexCheck::throws), {5, 7},
              "checked");
}

}  // namespace topograd::ops::test
