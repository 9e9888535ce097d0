// Where a problem runs, with made-up machines.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/session/placement.hpp"

namespace topograd {
namespace {

const DeviceFacts kGpu = {.usable = true, .name = "GPU", .float64 = true};
const DeviceFacts kSingle = {.usable = true, .name = "GPU32"};
const DeviceFacts kSoftware = {.usable = true, .name = "soft", .software = true, .float64 = true};
const DeviceFacts kMissing = {.code = ErrorCode::NoLoader,
                              .problem = "no Vulkan loader: install libvulkan1"};

struct Row {
  const char* name;
  Backend asked;
  Precision precision;
  std::uint64_t instances;
  bool named;
  DeviceFacts facts;
  Backend expected;
  const char* why;
  int probes;
};

TEST(Placement, FollowsTheRules) {
  const Backend cpu = Backend::cpu, vulkan = Backend::vulkan, automatic = Backend::automatic;
  const Precision f64 = Precision::f64, f32 = Precision::f32;
  const Row rows[] = {
      {"cpu never looks", cpu, f64, 1u << 20, true, kGpu, cpu, "asked for", 0},
      {"forced", vulkan, f64, 1, false, kGpu, vulkan, "asked for", 1},
      {"forced on software", vulkan, f64, 1, false, kSoftware, vulkan, "asked for", 1},
      {"forced in f32", vulkan, f32, 1, false, kSingle, vulkan, "asked for", 1},
      {"below the threshold", automatic, f64, 1023, true, kGpu, cpu,
       "cpu: 1023 instances are below the threshold of 1024", 0},
      {"at the threshold", automatic, f64, 1024, false, kGpu, vulkan,
       "vulkan: 1024 instances reach the threshold of 1024", 1},
      {"software unnamed", automatic, f64, 5000, false, kSoftware, cpu,
       "cpu: the only Vulkan device is software (soft) and was not named", 1},
      {"software named", automatic, f64, 5000, true, kSoftware, vulkan,
       "vulkan: 5000 instances reach the threshold of 1024", 1},
      {"no loader", automatic, f64, 5000, true, kMissing, cpu,
       "cpu: no Vulkan loader: install libvulkan1", 1},
      {"no float64", automatic, f64, 5000, true, kSingle, cpu,
       "cpu: device \"GPU32\" has no float64, which precision f64 needs", 1},
      {"no float64 needed", automatic, f32, 5000, false, kSingle, vulkan,
       "vulkan: 5000 instances reach the threshold of 1024", 1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    int probes = 0;
    const SolverOptions options = {
        .backend = row.asked, .precision = row.precision, .fallback_threshold = 1024};
    const Placement placement = place(options, row.instances, row.named, [&](const SolverOptions&) {
      ++probes;
      return row.facts;
    });
    EXPECT_EQ(name(placement.backend), name(row.expected));
    EXPECT_EQ(placement.why, row.why);
    EXPECT_EQ(probes, row.probes);
  }
}

TEST(Placement, ForcedDeviceThrows) {
  const struct {
    DeviceFacts facts;
    ErrorCode code;
    const char* message;
  } rows[] = {
      {kMissing, ErrorCode::NoLoader, "backend vulkan: no Vulkan loader: install libvulkan1"},
      {kSingle, ErrorCode::Unsupported,
       "backend vulkan: device \"GPU32\" has no float64, which precision f64 needs; use precision "
       "f32 or backend automatic"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.message);
    try {
      place({.backend = Backend::vulkan}, 1 << 20, true,
            [&](const SolverOptions&) { return row.facts; });
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code);
      EXPECT_STREQ(error.what(), row.message);
    }
  }
}

}  // namespace
}  // namespace topograd
