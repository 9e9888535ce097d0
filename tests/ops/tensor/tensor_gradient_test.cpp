// Derivatives of tensor operations: each has a check; recording.
#include "../../support/paths.hpp"
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ops/tensor/autograd.hpp"
#include "../../../ops/tensor/reduce.hpp"

#include <cmath>
#include <filesystem>
#include <regex>
#include <set>

namespace topograd::ops::test {
namespace {

TEST(TensorGradient, AgreesWithDifferences) { check_gradients_against_differences(); }

// Functions without a derivative, or that make tensors from numbers.
const std::set<std::string> kWithout = {"argmax", "argmin", "equal",  "less",  "tensor", "full",
                                        "zeros",  "ones",   "arange", "randn", "rand"};

/// Headers of operations that run when they are called.
const std::vector<const char*> kEager = {"conv/conv",     "fft/fft",       "losses/losses",
                                         "matmul/matmul", "parts/parts",   "reduce",
                                         "search/search", "losses/softmax"};

/// Names of functions that the tensor headers declare to return tensors.
std::set<std::string> declared_operations(const std::vector<const char*>& headers) {
  std::set<std::string> out;
  const std::regex declaration(R"(\n(?:inline )?(?:Tensor|TopK) (\w+)\()");
  const std::filesystem::path folder = topograd::test::source_dir() / "ops/tensor";
  for (const char* header : headers) {
    const std::string text = topograd::test::read_file(folder / (std::string(header) + ".hpp"));
    for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it)
      out.insert((*it)[1]);
  }
  out.erase("operator");
  return out;
}

TEST(TensorGradient, EveryOperationIsChecked) {
  std::set<std::string> checked;
  for (const std::string& name : gradient_case_names())
    checked.insert(name.substr(0, name.find(' ')));
  std::vector<const char*> headers = kEager;
  headers.push_back("tensor");
  const std::set<std::string> declared = declared_operations(headers);
  EXPECT_GE(declared.size(), 50u);
  for (const std::string& name : declared) {
    EXPECT_TRUE(checked.contains(name) != kWithout.contains(name))
        << name << ": expected either a case of derivatives or to be among those without";
  }
}

TEST(TensorOptions, EveryOperationTakesThem) {
  std::set<std::string> checked;
  for (const std::string& name : options_case_names())
    checked.insert(name.substr(0, name.find(' ')));
  const std::set<std::string> declared = declared_operations(kEager);
  EXPECT_GE(declared.size(), 30u);
  for (const std::string& name : declared)
    EXPECT_TRUE(checked.contains(name))
        << name << ": expected an overload with options, and a case";
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
