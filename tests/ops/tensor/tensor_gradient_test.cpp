// Derivatives of tensor operations: each has a check; recording.
#include "operation_cases.hpp"
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/tensor/autograd.hpp"
#include "../../../ops/tensor/operations.hpp"

#include <cmath>
#include <set>

namespace topograd::ops::test {
namespace {

TEST(TensorGradient, AgreesWithDifferences) { check_gradients_against_differences(); }

TEST(TensorGradient, EveryOperationIsChecked) {
  std::set<std::string_view> cases, gradients;
  for (const OperationCase& one : operation_cases())
    if (const FunctionRow* row = one.row()) cases.insert(row->name);
  for (const FunctionRow& row : kFunctions)
    EXPECT_TRUE(cases.contains(row.name)) << row.name << ": expected a case in operation_cases()";
  const std::vector<std::string> names = gradient_case_names();
  for (const std::string& name : names)
    gradients.insert(std::string_view(name).substr(0, name.find(' ')));
  for (const FunctionRow& row : kFunctions)
    EXPECT_EQ(gradients.contains(row.name), row.derivative) << row.name;
  constexpr std::string_view kExpressions[] = {
#define TG_ELEMENTWISE(name, ...) #name,
#define TG_EXPRESSION(name, ...) #name,
#include "../../../ops/run/operations.def"
  };
  for (const std::string_view name : kExpressions) {
    const bool constant = name == "equal" || name == "less";
    EXPECT_EQ(gradients.contains(name), !constant) << name << ": expected a case of derivatives";
  }
}

TEST(TensorGradient, AddsUpUntilZeroed) {
  Tensor x = tensor({3}, {1});
  x.requires_grad();
  square(x).backward();
  square(x).backward();
  EXPECT_EQ(x.grad().item(), 12);
  x.zero_grad();
  EXPECT_EQ(x.grad().item(), 0);
}

TEST(TensorGradient, NotWhereItIsNotWanted) {
  Tensor x = tensor({3}, {1});
  x.requires_grad();
  EXPECT_FALSE(no_grad([&] { return square(x); }).has_grad());
  EXPECT_FALSE(square(x.detach()).has_grad());
  (square(x) * x.detach()).backward();
  EXPECT_EQ(x.grad().item(), 18);
}

TEST(TensorGradient, LongChains) {
  Tensor x = tensor({1}, {1});
  x.requires_grad();
  Tensor y = x;
  for (int k = 0; k < 20'000; ++k) y = (y * 1.0001).evaluate();
  y.backward();
  EXPECT_NEAR(x.grad().item(), std::pow(1.0001, 20'000), 0.01);
}

}  // namespace
}  // namespace topograd::ops::test
