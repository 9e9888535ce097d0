// Barriers, and proof that a missing one is detected.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "../../../runtime/device/command_stream.hpp"
#include "../../../runtime/device/kernels/launch.hpp"
#include "../../support/validation.hpp"
#include "vulkan_shaders.hpp"

namespace topograd::test {
namespace {

using namespace runtime::vulkan;  // the tested namespace

class VulkanSync : public VulkanTest {};

constexpr std::uint32_t kCount = 4096;

// b[i] = a[i] + 1, with `a` read-only. The layer ignores hazards between two bindings that may both
// write (their bytes may differ), so read-only bindings must be declared so.
Kernel next_kernel(Device& device) {
  const auto spirv = compile(
      "#version 450\nlayout(local_size_x = 64) in;\n"
      "layout(set = 0, binding = 0) readonly buffer A { uint a[]; };\n"
      "layout(set = 0, binding = 1) buffer B { uint b[]; };\n"
      "void main() { uint i = gl_GlobalInvocationID.x; b[i] = a[i] + 1u; }\n");
  return device.kernel(
      {.spirv = spirv, .name = "next", .storage_buffers = 2, .local_size = {64, 1, 1}});
}

// Two commands on the same bytes.
enum class Pair { WriteRead, ReadWrite, CopyRead, WriteCopy };

void run_pair(Device& device, Pair pair, bool with_barrier) {
  const Kernel next = next_kernel(device);
  const Buffer x = filled(device, std::vector<std::uint32_t>(kCount, 0), "x");
  const Buffer y = filled(device, std::vector<std::uint32_t>(kCount, 0), "y");
  const Buffer z = filled(device, std::vector<std::uint32_t>(kCount, 0), "z");
  CommandList list = device.command_list(with_barrier ? "ordered" : "racing");
  const auto run = [&](const Buffer& from, const Buffer& to) {
    const Binding bindings[] = {{&from}, {&to}};
    list.dispatch(next, bindings, {}, map_groups(kCount));
  };
  const auto copy = [&](const Buffer& from, const Buffer& to) {
    list.copy(from, 0, to, 0, kCount * 4);
  };
  list.begin_label("pair");
  if (pair == Pair::CopyRead) copy(x, y);
  if (pair == Pair::WriteRead || pair == Pair::WriteCopy) run(x, y);
  if (pair == Pair::ReadWrite) run(y, x);
  if (with_barrier) list.barrier();
  if (pair == Pair::WriteRead || pair == Pair::CopyRead) run(y, z);
  if (pair == Pair::ReadWrite) run(z, y);
  if (pair == Pair::WriteCopy) copy(y, z);
  list.end_label();
  device.submit(list).wait();
}

bool reports_hazard(const std::vector<ValidationMessage>& messages) {
  return std::ranges::any_of(messages, [](const ValidationMessage& message) {
    return message.id.starts_with("SYNC-HAZARD") && message.error;
  });
}

TEST_F(VulkanSync, AMissingBarrierIsReported) {
  if (!validation_is_on()) GTEST_SKIP() << "validation is off";
  for (const Pair pair : {Pair::WriteRead, Pair::ReadWrite, Pair::CopyRead, Pair::WriteCopy}) {
    const CapturedValidation captured;
    run_pair(*device_, pair, true);
    EXPECT_TRUE(captured.messages().empty()) << static_cast<int>(pair);
    run_pair(*device_, pair, false);
    EXPECT_TRUE(reports_hazard(captured.messages())) << static_cast<int>(pair);
  }
}

TEST_F(VulkanSync, MessagesReachTheProcess) {
  if (!validation_is_on()) GTEST_SKIP() << "validation is off";
  run_pair(*device_, Pair::WriteRead, false);
  const auto messages = take_validation_messages();
  ASSERT_TRUE(reports_hazard(messages));
  EXPECT_NE(messages.front().text.find("vkCmdDispatch"), std::string::npos) << messages[0].text;
  EXPECT_TRUE(take_validation_messages().empty());
}

// Every pair of consecutive commands, through one buffer: silent and right.
TEST_F(VulkanSync, AChainOfEveryCommandIsOrdered) {
  const Kernel twice = map_kernel(*device_, "uint", "a[i] * 2u");
  const Buffer a = filled(*device_, counting<std::uint32_t>(kCount), "a");
  const Buffer b = device_->buffer(kCount * 4, MemoryKind::Device, "b");
  const Buffer counts = filled<std::uint32_t>(*device_, {map_groups(kCount), 1, 1});
  CommandList list = device_->command_list("chain");
  const Binding binding{&a};
  const auto step = [&](auto&& record) {
    record();
    list.barrier();
  };
  step([&] { record_map(list, twice, a, kCount); });  // x 2
  step([&] { record_map(list, twice, a, kCount); });  // x 4
  step([&] { list.copy(a, 0, b, 0, kCount * 4); });   // b = 4 i
  step([&] { list.fill(a, 0, kCount * 4, 0); });
  step([&] { list.copy(b, 0, a, 0, kCount * 4); });
  step([&] { list.fill(counts, 0, 4, map_groups(kCount / 2)); });
  step([&] {
    list.dispatch_indirect(twice, {&binding, 1}, push_bytes(kCount), counts, 0);  // half x 8
  });
  step([&] { list.fill(counts, 0, 4, map_groups(kCount)); });
  device_->submit(list);
  // A second submission reads and writes the first one's results without a host wait between.
  CommandList next = device_->command_list("next");
  record_map(next, twice, a, kCount);
  device_->submit(next);
  const auto values = contents<std::uint32_t>(*device_, a);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(values[i], i * (i < kCount / 2 ? 16 : 8)) << i;
  }
}

TEST(Hazards, CommandsWaitForWhatTheyReadAndForReadersOfWhatTheyWrite) {
  const int a = 0, b = 0;
  const struct {
    const char* what;
    Hazards::Use first, second;
    bool barrier;
  } rows[] = {
      {"read twice", {&a, 0, 8, false}, {&a, 0, 8, false}, false},
      {"read after write", {&a, 0, 8, true}, {&a, 4, 8, false}, true},
      {"written after read", {&a, 0, 8, false}, {&a, 4, 8, true}, true},
      {"written twice", {&a, 0, 8, true}, {&a, 7, 8, true}, true},
      {"ranges side by side", {&a, 0, 8, true}, {&a, 8, 16, true}, false},
      {"two buffers", {&a, 0, 8, true}, {&b, 0, 8, true}, false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    DeclaredKernels kernels;
    CommandList list(kernels);  // records nothing
    Hazards hazards(list);
    EXPECT_FALSE(hazards.order(row.first));
    EXPECT_EQ(hazards.order(row.second), row.barrier);
    EXPECT_EQ(hazards.order(row.second), row.second.written) << "itself alone after the barrier";
  }
}

TEST_F(VulkanSync, AStreamRecordsTheBarriersThatItNeeds) {
  const Kernel next = next_kernel(*device_);
  const auto make = [&] {
    return std::make_shared<StreamBuffer>(
        filled<std::uint32_t>(*device_, std::vector<std::uint32_t>(kCount, 7)));
  };
  const auto a = make(), b = make(), c = make();
  CommandStream stream(device_, "stream");
  const auto step = [&](StreamBuffer& from, StreamBuffer& to) {
    const CommandStream::Argument arguments[] = {{&from, 0, kCount * 4, false},
                                                 {&to, 0, kCount * 4, true}};
    stream.dispatch(next, arguments, {}, {kCount / 64});
  };
  step(*a, *b);  // b = 8
  step(*a, *c);  // c = 8
  EXPECT_EQ(stream.barriers(), 0u);
  step(*b, *a);  // a = 9
  EXPECT_EQ(stream.barriers(), 1u);
  stream.copy(*a, 0, *c, 0, kCount * 4);  // c = 9
  EXPECT_EQ(stream.barriers(), 2u);
  stream.fill(*b, 0, kCount * 4, 1);
  EXPECT_EQ(stream.barriers(), 2u) << "no one uses it after the second one";
  EXPECT_TRUE(c->recorded);
  stream.flush();
  EXPECT_FALSE(c->recorded);
  c->last.wait();
  EXPECT_EQ(stream.dispatches(), 3u);
  for (const auto& [buffer, value] : {std::pair(a, 9u), {b, 1u}, {c, 9u}}) {
    EXPECT_EQ(contents<std::uint32_t>(*device_, buffer->buffer),
              std::vector<std::uint32_t>(kCount, value));
  }
}

}  // namespace
}  // namespace topograd::test
