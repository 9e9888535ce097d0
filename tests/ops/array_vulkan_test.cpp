// Arrays on a Vulkan device, between guard zones.
#include "ops/array_tests.hpp"
#include "ops/masked.hpp"
#include "support/validation.hpp"

#include <topograd/ops/storage.hpp>

namespace topograd::ops {
namespace {

class ArraysOnDevice : public topograd::test::VulkanTest {
 protected:
  void run(void (*check)(const Device&)) {
    if (!device_) return;
    set_guard_zones(256);
    test::run_masked(check);
    const std::vector<std::string> written = check_guard_zones();
    set_guard_zones(0);
    for (const std::string& line : written) ADD_FAILURE() << line;
  }
};

TEST_F(ArraysOnDevice, MapEveryTypeAndSize) { run(test::check_maps); }
TEST_F(ArraysOnDevice, MapForms) { run(test::check_map_forms); }
TEST_F(ArraysOnDevice, ReduceEveryTypeAndSize) { run(test::check_reductions); }
TEST_F(ArraysOnDevice, ReductionForms) { run(test::check_reduction_forms); }
TEST_F(ArraysOnDevice, ScanEveryTypeAndSize) { run(test::check_scans); }
TEST_F(ArraysOnDevice, GatherScatterCompact) { run(test::check_indices); }
TEST_F(ArraysOnDevice, SortEveryTypeAndSize) { run(test::check_sorts); }
TEST_F(ArraysOnDevice, RandomNumbers) { run(test::check_random); }

}  // namespace
}  // namespace topograd::ops
