// Tensors on a device: the same results as on the CPU.
#include "../guarded.hpp"
#include "../masked.hpp"
#include "tensor_cases.hpp"
#include "tensor_checks.hpp"

#include "../../../ir/error.hpp"
#include "../../../ops/run/storage.hpp"
#include "../../../ops/tensors.hpp"
#include "../../../ops/vulkan/backend.hpp"

#include <functional>
#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

class TensorVulkan : public GuardedVulkanTest {};

TEST_F(TensorVulkan, Elementwise) { run_masked(check_elementwise); }
TEST_F(TensorVulkan, Reductions) { run_masked(check_reductions); }
TEST_F(TensorVulkan, Matmul) { run_masked(check_matmul); }
TEST_F(TensorVulkan, Rows) { run_masked(check_rows); }
TEST_F(TensorVulkan, Fft) { run_masked(check_fft); }
TEST_F(TensorVulkan, Conv) { run_masked(check_conv); }
TEST_F(TensorVulkan, Search) { run_masked(check_search); }
TEST_F(TensorVulkan, Nearest) { run_masked(check_nearest); }
TEST_F(TensorVulkan, NearestRuns) { run_masked(check_nearest_runs); }
TEST_F(TensorVulkan, Parts) { run_masked(check_parts); }
TEST_F(TensorVulkan, Half) { run_masked(check_half); }
TEST_F(TensorVulkan, Losses) { run_masked(check_losses); }
TEST_F(TensorVulkan, Activations) { run_masked(check_activations); }
TEST_F(TensorVulkan, Transforms) { run_masked(check_transforms); }
TEST_F(TensorVulkan, ProductTiles) { run_masked(check_product_tiles); }
TEST_F(TensorVulkan, NaN) { run_masked(check_nan); }
TEST_F(TensorVulkan, Random) { run_masked(check_random); }
TEST_F(TensorVulkan, Options) { run_masked(check_options); }
// This many numbers use other kernels than one row does, except on software devices.
TEST_F(TensorVulkan, FftOfManyLongRows) {
  if (!device_) return;
  const Device device = open_vulkan({});
  const LaunchLimits& limits = device.backend().limits();
  if (limits.occupied_by_few || limits.binding_bytes < std::uint64_t{1} << 30) return;
  const Tensor z = randn({40, 1 << 20, 2}, 3, Type::f32, device), all = fft(z), back = ifft(all);
  for (const std::int64_t row : {0, 17, 39}) {
    const Tensor one = z.slice(0, row, row + 1), want = fft(one);
    const double error = sum(square(all.slice(0, row, row + 1) - want)).item();
    EXPECT_LT(error, 1e-12 * sum(square(want)).item()) << row;
    EXPECT_LT(sum(square(back.slice(0, row, row + 1) - one)).item(), 1e-12 * 2 * (1 << 20)) << row;
  }
}
// Maps and reductions of contiguous data run in pieces; others are refused.
TEST_F(TensorVulkan, MoreThanIsBoundAtOnce) {
  if (!device_) return;
  const Device device = open_vulkan({.limits = {.max_storage_buffer_range = 1 << 14}});
  const Tensor x = sample({300, 137}, 1), y = sample({300, 137}, 2), scale = sample({1, 1}, 3);
  const auto check =
      [&](const char* what,
          const std::function<Tensor(const Tensor& a, const Tensor& b, const Tensor& c)>& f) {
        const Tensor got = f(x.to(device), y.to(device), scale.to(device));
        expect_near(got, f(x, y, scale).values(), 1e-5, what);
        EXPECT_EQ(got.placed(), device);
      };
  using T = const Tensor&;
  check("map", [](T a, T b, T c) { return relu(a * 1.5 + b) * c; });
  check("odd", [](T a, T b, T c) {
    return a.reshape({-1}).slice(0, 1, 41'000) * c.reshape({1}) -
           b.reshape({-1}).slice(0, 3, 41'002);
  });
  check("sum", [](T a, T b, T c) { return sum(a * b + c); });
  check("max", [](T a, T b, T) { return max(a - b); });
  check("rows", [](T a, T b, T c) { return sum(a * b + c, {1}); });
  check("places", [](T a, T, T) { return argmax(a, 1); });
  check("extremes of rows", [](T a, T b, T) { return min(a * b, {-1}, true); });
  check("one row", [](T a, T, T) { return sum(a.reshape({1, -1}), {1}); });
  EXPECT_NE(
      message([&] { argmax(x.to(device).reshape({-1})).evaluate(); }).find("expected at most"),
      std::string::npos);
  EXPECT_NE(message([&] { (x.to(device).transpose() + 1.0).evaluate(); }).find("expected at most"),
            std::string::npos);
}
TEST_F(TensorVulkan, DevicesThatCannotAreSaid) {
  if (!device_) return;
  const auto code_of = [](const auto& f) {
    try {
      f();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  const auto missing = [] {
    matmul(ones({2, 2}), ones({2, 2}), {.device = Device::vulkan("no such device")});
  };
  EXPECT_EQ(code_of(missing), ErrorCode::NoDevice);
  const Device narrow = open_vulkan({.mask = "float64", .float64 = codegen::Float64::native});
  ExecutionStats stats;
  const Tensor wide = ones({3, 3}, Type::f64);
  const std::function<void()> calls[] = {
      [&] { sum(wide, {0}, false, {.device = narrow, .stats = &stats}); },
      [&] { matmul(wide, wide, {.device = narrow, .stats = &stats}); },
      [&] { softmax(wide, -1, {.device = narrow, .stats = &stats}); },
      [&] { mse_loss(wide, wide, {.device = narrow, .stats = &stats}); },
      [&] { (wide + wide).evaluate({.device = narrow, .stats = &stats}); }};
  for (const auto& call : calls) {
    EXPECT_EQ(code_of(call), ErrorCode::Unsupported);
    EXPECT_NE(message(call).find("expects a device with float64"), std::string::npos)
        << message(call);
  }
  EXPECT_EQ(stats.device, "") << "nothing ran";
}
TEST_F(TensorVulkan, Derivatives) { run_masked(check_gradients_against_cpu); }
TEST_F(TensorVulkan, Optimizers) { run_masked(check_optimizers); }
TEST_F(TensorVulkan, SameNumbers) { run_masked(check_same_numbers); }
TEST_F(TensorVulkan, StepsStayOnTheDevice) {
  if (device_)
    check_step_costs(open_vulkan({.mask = "mapped_memory"}), device_->features().timestamps);
}
TEST_F(TensorVulkan, DividesBatches) { run_masked(check_data_parallel); }
TEST_F(TensorVulkan, TrainsNetworksOfRunTime) { run_masked(check_networks_of_run_time); }
TEST_F(TensorVulkan, Trains) {
  set_guard_zones(0);  // guard zones keep freed memory, which this test counts
  run_masked(check_training);
}

}  // namespace
}  // namespace topograd::ops::test
