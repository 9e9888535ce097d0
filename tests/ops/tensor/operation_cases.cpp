// Checks of cases of tensor operations.
#include "operation_cases.hpp"

#include "../../../ops/run/storage.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace topograd::ops::test {

Tensor laid_out(const Shape& shape, int seed, Type type, Layout layout, const Device& device) {
  const std::int64_t count = element_count(shape);
  if (layout == Layout::offset)
    return sample({count + 5}, seed, type).to(device).slice(0, 3, count + 3).reshape(shape);
  Shape whole = shape;
  if (layout == Layout::stepped) {
    whole.back() = 2 * shape.back() + 1;
    return sample(whole, seed, type).to(device).slice(-1, 1, whole.back(), 2);
  }
  std::swap(whole[whole.size() - 2], whole[whole.size() - 1]);
  return sample(whole, seed, type).to(device).transpose();
}

void expect_close(const Tensor& got, const Numbers& want, double bound, const std::string& what) {
  const Numbers values = got.values();
  ASSERT_EQ(values.size(), want.size()) << what;
  double squares = 0;
  for (const double v : want) squares += v * v;
  const double size =
      std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, want.size())));
  for (std::size_t k = 0; k < want.size(); ++k)
    ASSERT_NEAR(values[k], want[k], bound * (std::abs(want[k]) + size)) << what << " [" << k << "]";
}

namespace {

constexpr const char* kLayouts[] = {"offset", "turned", "stepped"};

void check_case(const OperationCase& one, const Device& device, Type type, Layout layout,
                std::int64_t n) {
  const std::vector<Shape> shapes = one.shapes(n);
  Tensors x;
  Inputs numbers;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    x.push_back(laid_out(shapes[k], static_cast<int>(k) + 1, type, layout, device));
    numbers.push_back(x.back().to_cpu().values());
  }
  const Tensor got = one.run(x, {});
  expect_close(got, one.want(numbers, n), type == Type::f64 ? one.f64 : one.f32,
               one.name + (" of " + std::string(name(type))) + " " + to_text(shapes[0]) + ", " +
                   kLayouts[static_cast<int>(layout)]);
}

}  // namespace

const FunctionRow* OperationCase::row() const {
  const std::string_view all = name, own = all.substr(0, all.find(' '));
  const auto found = std::ranges::find(kFunctions, own, &FunctionRow::name);
  EXPECT_NE(found, std::end(kFunctions)) << name;
  return found == std::end(kFunctions) ? nullptr : found;
}

void check_operation_cases(const std::vector<OperationCase>& cases, const Device& device,
                           bool large_f32, const std::vector<std::int64_t>& sizes) {
  for (const OperationCase& one : cases) {
    for (const Type type : {Type::f32, Type::f64, Type::f16}) {
      if (type == Type::f16 && !one.half) continue;
      for (const std::int64_t n : sizes) {
        if (n < one.least || n > one.most) continue;
        if (n > 1100 && large_f32 && type != Type::f32) continue;
        check_case(one, device, type, Layout::offset, n);
      }
      for (const Layout layout : {Layout::turned, Layout::stepped})
        check_case(one, device, type, layout, 33);
      EXPECT_EQ(check_guard_zones(), std::vector<std::string>{}) << one.name;
    }
  }
}

}  // namespace topograd::ops::test
