// Storages and routing on the CPU alone.
#include "../support/manual.hpp"

#include <gtest/gtest.h>

#include "../../ir/error.hpp"
#include "../../ops/run/host_blocks.hpp"
#include "../../ops/run/run.hpp"
#include "../../ops/run/storage.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

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

TEST(HostBlocks, LargeOnesAreGivenOutAgain) {
  constexpr std::uint64_t kBytes = 1 << 20;
  HostBlocks blocks(4 * kBytes);
  const std::span<std::byte> first = blocks.take(kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 64, 0u);
  EXPECT_EQ(first.size(), kBytes);
  blocks.give_back(first);
  EXPECT_EQ(blocks.kept_bytes(), kBytes);
  // One that needs more, or less than four fifths, gets another block.
  const std::span<std::byte> larger = blocks.take(kBytes + 1), smaller = blocks.take(kBytes / 2);
  EXPECT_NE(larger.data(), first.data());
  EXPECT_NE(smaller.data(), first.data());
  const std::span<std::byte> again = blocks.take(kBytes - kBytes / 8);
  EXPECT_EQ(again.data(), first.data());
  EXPECT_EQ(again.size(), kBytes) << "gives back all of it";
  EXPECT_EQ(blocks.kept_bytes(), 0u);
  for (const std::span<std::byte> block : {larger, smaller, again}) blocks.give_back(block);
}

TEST(HostBlocks, KeepsAtMostItsLimitAndNoSmallOnes) {
  constexpr std::uint64_t kBytes = HostBlocks::kLeastKept;
  HostBlocks blocks(3 * kBytes);
  blocks.give_back(blocks.take(kBytes - 64));
  EXPECT_EQ(blocks.kept_bytes(), 0u) << "small";
  blocks.give_back(blocks.take(4 * kBytes));
  EXPECT_EQ(blocks.kept_bytes(), 0u) << "larger than all that may be kept";
  std::vector<std::span<std::byte>> taken;
  for (int k = 0; k < 5; ++k) taken.push_back(blocks.take(kBytes));
  for (const std::span<std::byte> block : taken) blocks.give_back(block);
  EXPECT_EQ(blocks.kept_bytes(), 3 * kBytes);
  const std::set<const std::byte*> kept = {taken[2].data(), taken[3].data(), taken[4].data()};
  const std::span<std::byte> one = blocks.take(kBytes);
  EXPECT_TRUE(kept.contains(one.data())) << "the first two have left";
  blocks.give_back(one);
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
  const OpCall call{.op = Operation::Sort, .size = 10, .work = {1, 8, 8}, .on_cpu = [] {}};
  ExecutionStats stats;
  EXPECT_EQ(run(call, {.stats = &stats}).device, "cpu");
  EXPECT_EQ(stats.decision.reason, runtime::hybrid::Reason::below_minimum);
  EXPECT_EQ(last_stats().device, "cpu");
  EXPECT_EQ(run(call, {.device = Device::cpu()}).decision.reason, runtime::hybrid::Reason::forced);
}

TEST(OperationTable, HasNamesOnceAndTheGuesses) {
  std::set<std::string_view> names;
  for (const OperationRow& r : kOperations) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_EQ(&row(r.operation), &r);
    EXPECT_GT(r.minimum, 0u) << r.name;
    EXPECT_GT(r.factor, 1) << r.name;
    EXPECT_EQ(measured(r.operation).threshold, static_cast<double>(r.minimum)) << r.name;
  }
  EXPECT_EQ(row(Operation::Filter).minimum, 65'536u);
  EXPECT_EQ(row(Operation::Filter).factor, 100);
}

/// A row for each group of functions of tensors, with the operations that their statistics name.
TEST(OperationTable, IsTheManuals) {
  struct Group {
    std::string_view description;
    std::vector<std::string> functions, runs;

    void add(const char* function, Operation operation = Operation::Map) {
      const auto once = [](std::vector<std::string>& list, std::string_view word) {
        if (std::ranges::find(list, word) == list.end()) list.emplace_back(word);
      };
      once(functions, function);
      once(runs, name(operation));
    }
  };
  struct Tensor {
    const char* name;
    Operation runs;
    bool derivative = true;
  };
  std::vector<Group> groups;
#define TG_GROUP(description) groups.push_back({description, {}, {}});
#define TG_TENSOR(result, function, parameters, ...)      \
  {                                                       \
    constexpr Tensor row{.name = #function, __VA_ARGS__}; \
    groups.back().add(row.name, row.runs);                \
  }
#define TG_ELEMENTWISE(name, ...) groups.back().add(#name);
#define TG_EXPRESSION(name, ...) groups.back().add(#name);
#include "../../ops/run/operations.def"
  std::string table = "| operations | in statistics | description |\n|---|---|---|\n";
  const auto joined = [](const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) out += (out.empty() ? "`" : " ") + word;
    return out + "`";
  };
  for (const Group& group : groups) {
    table += "| " + joined(group.functions) + " | " + joined(group.runs) + " | " +
             std::string(group.description) + " |\n";
  }
  topograd::test::expect_table("docs/tensors.md", "operations", table);
}

/// "((const Tensor&, a), (bool, keep, false))" as it is written in C++.
std::string signature(const std::string& function, std::string_view parameters) {
  std::string out = function + "(";
  for (std::size_t open = parameters.find("(const"); open != parameters.npos;
       open = parameters.find('(', open + 1)) {
    const std::string_view one = parameters.substr(open + 1, parameters.find(')', open) - open - 1);
    const std::size_t name = one.find(", "), value = one.find(", ", name + 1);
    out += out.back() == '(' ? "" : ", ";
    out.append(one.substr(0, name)).append(" ").append(one.substr(name + 2, value - name - 2));
    if (value != one.npos) out.append(" = ").append(one.substr(value + 2));
  }
  return out + ")";
}

/// Every function of operations.def with its parameters.
TEST(OperationTable, HasTheSignaturesOfTheManual) {
  std::string table = "| result | function |\n|---|---|\n";
  const auto add = [&](const char* result, const char* function, std::string_view parameters) {
    table += "| `" + std::string(result) + "` | `" + signature(function, parameters) + "` |\n";
  };
#define TG_TENSOR(result, function, parameters, ...) add(#result, #function, #parameters);
#define TG_ELEMENTWISE(function, op, ...) add("Tensor", #function, #__VA_ARGS__);
#define TG_EXPRESSION(function, parameters) add("Tensor", #function, #parameters);
#include "../../ops/run/operations.def"
  EXPECT_NE(table.find("`sum(const Tensor& a, const Axes& axes = {}, bool keep = false)`"),
            table.npos);
  EXPECT_NE(table.find("`irfft(const Tensor& y, std::int64_t n)`"), table.npos);
  EXPECT_NE(table.find("`maximum(const Tensor& a, const Tensor& b)`"), table.npos);
  topograd::test::expect_table("docs/tensors.md", "signatures", table);
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
