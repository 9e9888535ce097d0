// Every tensor operation at odd sizes and on views, on the CPU, between guard zones.
#include "tensor_cases.hpp"

#include "../../../ops/run/storage.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace topograd::ops::test {
namespace {

class TensorLayout : public testing::Test {
 protected:
  void SetUp() override { set_guard_zones(256); }
  void TearDown() override {
    EXPECT_EQ(check_guard_zones(), std::vector<std::string>{});
    set_guard_zones(0);
  }
};

TEST_F(TensorLayout, RowsAndLosses) { check_rows_and_losses_of_views(Device::cpu()); }
TEST_F(TensorLayout, Axes) { check_axes_of_views(Device::cpu()); }
TEST_F(TensorLayout, Products) { check_products_of_views(Device::cpu()); }
TEST_F(TensorLayout, Parts) { check_parts_of_views(Device::cpu()); }
TEST_F(TensorLayout, Transforms) { check_transforms_of_views(Device::cpu()); }
TEST_F(TensorLayout, Activations) { check_activations_of_views(Device::cpu()); }
TEST_F(TensorLayout, ManyNumbers) { check_many_numbers(Device::cpu()); }
TEST_F(TensorLayout, Batches) { check_batches(Device::cpu()); }

}  // namespace
}  // namespace topograd::ops::test
