// Amount of a solve in one submission.
#include <gtest/gtest.h>

#include "../../../runtime/vulkan/damped/damped_system.hpp"

namespace topograd::runtime::vulkan {
namespace {

using std::chrono::duration;

TEST(SubmissionSize, SubmissionsStayBelowAQuarterOfASecond) {
  const struct {
    std::size_t lists;
    double seconds;
    std::size_t expected;
  } rows[] = {
      {1, 0.25, 1},   {1, 3.0, 1},   {10, 0.25, 10},    {10, 0.5, 5},
      {40, 0.1, 100}, {0, 0.125, 2}, {3, 0, 1'000'000}, {1, 1e-12, 1'000'000},
  };
  EXPECT_EQ(SubmissionSize().lists(), 8u);
  for (const auto& row : rows) {
    SCOPED_TRACE(row.seconds);
    SubmissionSize size;
    size.measured(row.lists, duration<double>(row.seconds));
    EXPECT_EQ(size.lists(), row.expected);
  }
}

}  // namespace
}  // namespace topograd::runtime::vulkan
