// Storages and routing on the CPU alone.
#include <gtest/gtest.h>

#include "../../ir/error.hpp"
#include "../../ops/run/run.hpp"
#include "../../ops/run/storage.hpp"

#include <cstring>
#include <set>

namespace topograd::ops {
namespace {

TEST(Storage, KeepsWhatIsWrittenAndCountsVersions) {
  Storage storage(8);
  EXPECT_EQ(storage.version(), 0u);
  EXPECT_TRUE(storage.resident_on(*cpu_backend()));
  const double one = 1;
  std::memcpy(storage.write_host(false), &one, 8);
  EXPECT_EQ(storage.version(), 1u);
  EXPECT_EQ(storage.written_on(), cpu_backend().get());
  EXPECT_EQ(std::memcmp(storage.read_host(), &one, 8), 0);
  EXPECT_EQ(storage.read_on(*cpu_backend())->host(), storage.read_host());
}

TEST(Storage, CountsItsMemory) {
  const std::uint64_t before = cpu_backend()->counters().bytes_in_use;
  {
    Storage storage(1 << 20);
    EXPECT_EQ(cpu_backend()->counters().bytes_in_use, before) << "nothing before the first use";
    storage.write_host(false);
    EXPECT_EQ(cpu_backend()->counters().bytes_in_use, before + (1 << 20));
  }
  EXPECT_EQ(cpu_backend()->counters().bytes_in_use, before);
}

TEST(Storage, GuardZonesSeeWhatIsWrittenBesideOnTheHost) {
  for (const std::int64_t place : {std::int64_t{-1}, std::int64_t{100}}) {
    set_guard_zones(256);
    Storage storage(100, "guarded");
    std::byte* memory = storage.write_host(false);
    EXPECT_TRUE(check_guard_zones().empty());
    set_guard_zones(256);
    Storage other(100, "guarded");
    memory = other.write_host(false);
    memory[place] = std::byte{1};
    const std::vector<std::string> found = check_guard_zones();
    set_guard_zones(0);
    ASSERT_EQ(found.size(), 1u) << place;
    EXPECT_EQ(found[0], place < 0 ? "guarded (cpu) in front: byte 252 was written"
                                  : "guarded (cpu) behind: byte 0 was written");
  }
}

TEST(Run, RefusesADeviceWithoutAnImplementation) {
  const OpCall call{.op = Op::Sort, .size = 10, .work = {1, 8, 8}, .on_cpu = [] {}};
  ExecutionStats stats;
  EXPECT_EQ(run(call, {.stats = &stats}).device, "cpu");
  EXPECT_EQ(stats.decision.reason, runtime::hybrid::Reason::below_minimum);
  EXPECT_EQ(last_stats().device, "cpu");
  EXPECT_EQ(run(call, {.device = Device::cpu()}).decision.reason, runtime::hybrid::Reason::forced);
}

TEST(OpTable, HasNamesOnceAndTheGuesses) {
  std::set<std::string_view> names;
  for (const OpRow& r : kOpTable) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_EQ(&row(r.op), &r);
    EXPECT_GT(r.minimum, 0u) << r.name;
    EXPECT_GT(r.factor, 1) << r.name;
    EXPECT_EQ(measured(r.op).threshold, static_cast<double>(r.minimum)) << r.name;
  }
  EXPECT_EQ(row(Op::Filter).minimum, 65'536u);
  EXPECT_EQ(row(Op::Filter).factor, 100);
}

TEST(ComputeKernel, RefusesMoreThanThePushConstantsHold) {
  KernelParts parts{.name = "wide", .words = std::vector<std::string>(32, "w")};
  try {
    make_kernel(parts);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "make_kernel \"wide\": expected at most 31 arguments and words, got 0 and 32");
  }
}

}  // namespace
}  // namespace topograd::ops
