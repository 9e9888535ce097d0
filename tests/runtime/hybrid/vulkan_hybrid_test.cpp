// The hybrid executor on a Vulkan device: results, residency, lists, losses.
#include <unistd.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "../../support/validation.hpp"

#include "../../../runtime/cache/disk_cache.hpp"
#include "../../../runtime/hybrid/vulkan/hybrid_backend.hpp"

namespace topograd::test {
namespace {

using namespace runtime::hybrid;
namespace vk = runtime::vulkan;

constexpr const char* kSaxpy = R"(#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Y { float y[]; };
layout(set = 0, binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Push { uint first; uint items; float a; };
void main() {
  uint i = first + gl_GlobalInvocationID.x;
  if (i < items) result[i] = a * x[i] + y[i];
}
)";

class Saxpy final : public Task {
 public:
  explicit Saxpy(std::size_t size) : x(size), y(size), out(size, -1) {
    for (std::size_t k = 0; k < size; ++k) {
      x[k] = static_cast<float>(k % 1000);
      y[k] = static_cast<float>(k % 77);
    }
  }
  TaskShape shape() const override {
    return {.kernel = {3, 4},
            .operation = "saxpy",
            .size = x.size(),
            .bytes_in = 8 * x.size(),
            .bytes_out = 4 * x.size(),
            .where = where};
  }
  bool splittable() const override { return true; }
  void run_on_cpu(const CpuThreads&, Items items) override {
    for (std::uint64_t k = items.begin; k < items.end; ++k) out[k] = a * x[k] + y[k];
  }
  std::optional<DeviceProgram> program(Items items) override {
    const auto part = [&](auto& v) { return std::span(v).subspan(items.begin, items.count()); };
    DeviceProgram program{
        .name = "saxpy", .glsl = kSaxpy, .items = items.count(), .itemwise = true};
    program.arrays.push_back({.read = {std::as_bytes(part(x))}, .key = key, .version = version});
    program.arrays.push_back({.read = {std::as_bytes(part(y))}});
    program.arrays.push_back({.written = {std::as_writable_bytes(part(out))}});
    const auto constant = std::as_bytes(std::span(&a, 1));
    program.constants.assign(constant.begin(), constant.end());
    return program;
  }
  bool right() const {
    for (std::size_t k = 0; k < x.size(); ++k)
      if (out[k] != a * x[k] + y[k]) return false;
    return true;
  }

  std::vector<float> x, y, out;
  float a = 2;  // sums of small whole numbers: exact
  std::uint64_t key = 0, version = 0;
  Override where = Override::none;
};

class VulkanHybrid : public VulkanTest {
 protected:
  void SetUp() override {
    VulkanTest::SetUp();
    if (IsSkipped()) return;
    executor = std::make_unique<Executor>(HybridOptions{.admit_software = true});
    executor->add_device(vk::make_hybrid_backend(device_->options()));
  }
  std::string gpu() const { return device_->info().name; }
  std::unique_ptr<Executor> executor;
};

TEST_F(VulkanHybrid, DeviceAndCpuGiveTheSame) {
  for (const std::size_t size : {1u, 63u, 64u, 65u, 1000u, 100001u}) {
    for (const Override where : {Override::cpu, Override::device}) {
      Saxpy task(size);
      task.where = where;
      const ExecutionStats stats = executor->execute(task);
      EXPECT_TRUE(task.right()) << size;
      EXPECT_EQ(stats.device, where == Override::cpu ? "cpu" : gpu());
      if (where == Override::cpu) continue;
      EXPECT_EQ(stats.bytes_up, 8 * size);
      EXPECT_EQ(stats.bytes_down, 4 * size);
      EXPECT_GT(stats.times.kernel, 0);
    }
  }
}

TEST_F(VulkanHybrid, DispatchesBeyondTheLimitAreSeveral) {
  vk::DeviceOptions options = device_->options();
  options.limits.max_workgroups_x = 3;
  Executor small(HybridOptions{.admit_software = true});
  small.add_device(vk::make_hybrid_backend(options));
  Saxpy task(10000);
  task.where = Override::device;
  small.execute(task);
  EXPECT_TRUE(task.right());
}

TEST_F(VulkanHybrid, UnchangedInputsAreUploadedOnce) {
  Saxpy task(4096);
  task.where = Override::device;
  task.key = 17;
  const auto bytes = [&] { return executor->execute(task).bytes_up; };
  EXPECT_EQ(bytes(), 32768u);
  EXPECT_EQ(bytes(), 16384u);
  EXPECT_EQ(bytes(), 16384u);
  task.x[5] = 500;
  task.version = 1;
  EXPECT_EQ(bytes(), 32768u);
  EXPECT_TRUE(task.right());
}

TEST_F(VulkanHybrid, ArraysThatStayLeaveWhereMemoryRunsOut) {
  Saxpy small(4096), large(3'000'000);
  small.where = Override::device;
  small.key = 18;
  const auto bytes = [&] { return executor->execute(small).bytes_up; };
  bytes();
  ASSERT_EQ(bytes(), 16384u) << "x stays";
  // The pools retry after they have released all idle memory.
  constexpr std::int32_t kOutOfDeviceMemory = -2;  // VK_ERROR_OUT_OF_DEVICE_MEMORY
  device_->inject_fault("vkAllocateMemory", 0, kOutOfDeviceMemory, 2);
  const ExecutionStats stats = executor->execute(large);
  device_->inject_fault("", 0, 0, 0);
  EXPECT_EQ(stats.device, gpu());
  EXPECT_EQ(stats.fallback, "");
  EXPECT_TRUE(large.right());
  EXPECT_EQ(bytes(), 32768u) << "x was given back, and comes again";
  EXPECT_TRUE(small.right());
}

TEST_F(VulkanHybrid, ArraysThatStayKeepToTheirLimit) {
  Executor two(HybridOptions{.admit_software = true, .resident_limit = 2 * 16384});
  two.add_device(vk::make_hybrid_backend(device_->options()));
  Saxpy tasks[] = {Saxpy(4096), Saxpy(4096), Saxpy(4096)};
  const auto bytes = [&](std::size_t k) {
    tasks[k].where = Override::device;
    tasks[k].key = 30 + k;
    return two.execute(tasks[k]).bytes_up;
  };
  EXPECT_EQ(bytes(0), 32768u);
  EXPECT_EQ(bytes(1), 32768u);
  EXPECT_EQ(bytes(0), 16384u) << "both stay";
  EXPECT_EQ(bytes(2), 32768u) << "and takes the place of the one that was not used for longest";
  EXPECT_EQ(bytes(0), 16384u);
  EXPECT_EQ(bytes(1), 32768u);

  Executor none(HybridOptions{.admit_software = true, .resident_limit = 0});
  none.add_device(vk::make_hybrid_backend(device_->options()));
  for (int k = 0; k < 2; ++k) EXPECT_EQ(none.execute(tasks[0]).bytes_up, 32768u);
}

TEST_F(VulkanHybrid, SteadyStateAllocatesNothing) {
  Saxpy task(50000);
  task.where = Override::device;
  Task* const list[] = {&task};
  executor->warm_up(list, 1);
  const std::uint64_t before = device_->memory().driver_allocations;
  for (int k = 0; k < 1000; ++k) executor->execute(task);
  EXPECT_EQ(device_->memory().driver_allocations, before);
}

TEST_F(VulkanHybrid, ModulesAreKeptOnDisk) {
  std::string source = kSaxpy;
  source += "// " + std::to_string(::getpid()) + "\n";  // never compiled before
  Saxpy task(1000);
  DeviceProgram program = *task.program({0, 1000});
  program.glsl = source;
  const auto backend = vk::make_hybrid_backend(device_->options());
  const runtime::DiskCacheCounters before = device_->disk_cache().counters();
  backend->prepare(program);
  const runtime::DiskCacheCounters made = device_->disk_cache().counters();
  EXPECT_EQ(made.misses - before.misses, 1u);
  EXPECT_EQ(made.writes - before.writes, 1u);
  // Another backend finds the kernel in memory.
  vk::make_hybrid_backend(device_->options())->prepare(program);
  EXPECT_EQ(device_->disk_cache().counters().hits, made.hits);
  // A device that is opened anew, as in another process, finds the module.
  vk::DeviceOptions anew = device_->options();
  anew.timeout_seconds += 1;
  const auto opened = vk::open(anew);
  const runtime::DiskCacheCounters empty = opened->disk_cache().counters();
  vk::make_hybrid_backend(anew)->prepare(program);
  const runtime::DiskCacheCounters found = opened->disk_cache().counters();
  EXPECT_EQ(found.hits - empty.hits, 1u);
  EXPECT_EQ(found.misses, empty.misses);
  EXPECT_EQ(found.writes, empty.writes);
}

TEST_F(VulkanHybrid, ListsAreOneDispatch) {
  std::vector<std::unique_ptr<Saxpy>> tasks;
  std::vector<Task*> list;
  for (int k = 0; k < 100; ++k) {
    tasks.push_back(std::make_unique<Saxpy>(30 + k % 5));
    tasks.back()->where = Override::device;
    list.push_back(tasks.back().get());
  }
  const vk::Counters before = device_->counters();
  const auto stats = executor->execute(list);
  EXPECT_EQ((device_->counters() - before).dispatches, 1u);
  EXPECT_EQ(stats[99].coalesced, 100u);
  for (const auto& task : tasks) EXPECT_TRUE(task->right());
}

TEST_F(VulkanHybrid, EightThreadsShareOneDevice) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Saxpy kept(2000);  // an input that stays on the device
      kept.key = static_cast<std::uint64_t>(100 + t);
      kept.where = Override::device;
      for (int k = 0; k < 12; ++k) {
        Saxpy a(static_cast<std::size_t>(500 + 97 * ((k + t) % 5))), b(700);
        if (k % 4 == 0) a.where = Override::device;
        Task* const list[] = {&a, &kept, &b};
        executor->execute(list);
        wrong += a.right() && b.right() && kept.right() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(executor->statistics("saxpy", gpu()).failures, 0u);
}

TEST_F(VulkanHybrid, LossesEndOnTheCpuAndTheDeviceComesBack) {
  double now = 0;
  vk::DeviceOptions options = device_->options();
  options.timeout_seconds = 59;  // another device than in other tests
  Executor mortal(HybridOptions{.admit_software = true}, [&] { return now; });
  mortal.add_device(vk::make_hybrid_backend(options));
  Saxpy task(5000);
  mortal.execute(task);
  vk::open(options)->inject_fault("vkQueueSubmit", 0, VK_ERROR_DEVICE_LOST);
  std::ranges::fill(task.out, -1.0f);
  const ExecutionStats stats = mortal.execute(task);
  EXPECT_EQ(stats.device, "cpu");
  EXPECT_FALSE(stats.fallback.empty());
  EXPECT_TRUE(task.right());
  EXPECT_EQ(mortal.execute(task).decision.reason, Reason::breaker_open);
  now += mortal.scheduler().options().back_off_seconds;
  std::ranges::fill(task.out, -1.0f);
  EXPECT_EQ(mortal.execute(task).device, gpu());
  EXPECT_TRUE(task.right());
}

TEST_F(VulkanHybrid, BadShadersAreRefusedOnceAndForAll) {
  class Broken final : public Task {
   public:
    TaskShape shape() const override {
      return {.kernel = {9, 9}, .operation = "bad", .size = 5000};
    }
    void run_on_cpu(const CpuThreads&, Items) override { ++runs; }
    std::optional<DeviceProgram> program(Items items) override {
      return DeviceProgram{
          .name = "bad", .glsl = "#version 450\nvoid main() { x; }", .items = items.count()};
    }
    int runs = 0;
  } task;
  EXPECT_NE(executor->execute(task).fallback, "");
  EXPECT_EQ(executor->execute(task).decision.reason, Reason::unsupported);
  EXPECT_EQ(task.runs, 2);
}

TEST_F(VulkanHybrid, EachDeviceIsFoundAndDescribed) {
  Executor all(HybridOptions{});
  EXPECT_GE(vk::add_vulkan_devices(all, {.validation = device_->options().validation}), 1u);
  const auto list = all.capabilities();
  ASSERT_GE(list.size(), 2u);
  EXPECT_GT(list[1].memory_bytes, 0u);
  EXPECT_FALSE(list[1].driver.empty());
  Executor none(HybridOptions{});
  EXPECT_EQ(vk::add_vulkan_devices(none, {.loader = "/nowhere/libvulkan.so"}), 0u);
  EXPECT_EQ(none.capabilities().size(), 1u);
}

}  // namespace
}  // namespace topograd::test
