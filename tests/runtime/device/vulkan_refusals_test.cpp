// Errors of the Vulkan layer with their messages.
#include <gtest/gtest.h>

#include <functional>

#include "../../../ir/error.hpp"

#include "../../support/validation.hpp"
#include "vulkan_shaders.hpp"

namespace topograd::test {
namespace {

using namespace runtime::vulkan;  // the tested namespace

class VulkanRefusals : public VulkanTest {
 protected:
  struct Row {
    const char* name;
    std::function<void()> call;
    std::string message;  ///< part of it
  };

  static void expect_refused(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      try {
        row.call();
        ADD_FAILURE() << row.name << ": nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << row.name << ": " << error.what();
        EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
            << row.name << ": " << error.what();
      }
    }
  }
};

TEST_F(VulkanRefusals, RecordingNamesKernelAndBinding) {
  const auto small =
      require_device({.limits = {.max_storage_buffer_range = 1024, .max_workgroups_x = 8}});
  const Kernel kernel = map_kernel(*small, "float", "a[i] + 1.0");
  const Kernel foreign = map_kernel(*device_, "float", "a[i] + 1.0");
  const Buffer buffer = small->buffer(4096, MemoryKind::Device, "b");
  const Buffer other = device_->buffer(64, MemoryKind::Device, "o");
  const Buffer none;
  CommandList list = small->command_list("l");
  const auto n = std::uint32_t{1};
  const auto run = [&](const Kernel& what, Binding binding, std::uint32_t groups = 1) {
    list.dispatch(what, {&binding, 1}, push_bytes(n), groups);
  };
  const std::string prefix = "command list \"l\": dispatch of kernel \"map a[i] + 1.0\": ";
  const std::string binding = prefix + "binding 0 (buffer \"b\"): ";
  expect_refused({
      {"groups",
       [&] {
         run(kernel, {&buffer, 0, 64}, 9);
       },
       prefix + "expected 1 to 8 workgroups along x, got 9"},
      {"no groups",
       [&] {
         run(kernel, {&buffer, 0, 64}, 0);
       },
       prefix + "expected 1 to 8 workgroups along x, got 0"},
      {"range",
       [&] {
         run(kernel, {&buffer, 0, 2048});
       },
       binding + "expected at most 1024 bytes (maxStorageBufferRange), got 2048"},
      {"whole", [&] { run(kernel, {&buffer}); }, binding + "expected at most 1024 bytes"},
      {"outside",
       [&] {
         run(kernel, {&buffer, 4032, 128});
       },
       binding + "bytes 4032 + 128 do not lie in its 4096 bytes"},
      {"alignment",
       [&] {
         run(kernel, {&buffer, 1, 4});
       },
       binding + "expected an offset in multiples"},
      {"none", [&] { run(kernel, {&none}); }, "dispatch: expected a buffer, got none"},
      {"foreign buffer", [&] { run(kernel, {&other}); },
       "dispatch: buffer \"o\" is of another device"},
      {"foreign kernel",
       [&] {
         run(foreign, {&buffer, 0, 64});
       },
       prefix + "it is of another device"},
      {"no kernel",
       [&] {
         run(Kernel{}, {&buffer, 0, 64});
       },
       "expected a kernel, got none"},
      {"bindings", [&] { list.dispatch(kernel, {}, push_bytes(n), 1); },
       prefix + "expected 1 bindings, got 0"},
      {"push",
       [&] {
         const Binding good{&buffer, 0, 64};
         list.dispatch(kernel, {&good, 1}, {}, 1);
       },
       prefix + "expected 4 bytes of push constants, got 0"},
      {"copy", [&] { list.copy(buffer, 4000, buffer, 0, 97); },
       "copy: bytes 4000 + 97 do not lie in buffer \"b\" of 4096 bytes"},
      {"overlap", [&] { list.copy(buffer, 0, buffer, 32, 64); }, "copy: the ranges overlap"},
      {"fill", [&] { list.fill(buffer, 2, 4, 0); },
       "fill: expected offset and size in multiples of 4"},
      {"label", [&] { list.end_label(); }, "end_label without begin_label"},
      {"upload", [&] { small->upload(buffer, 4090, std::as_bytes(std::span("seven!"))); },
       "upload: bytes 4090 + 7 do not lie in buffer \"b\""},
  });
  run(kernel, {&buffer, 0, 64}, 1);
  EXPECT_EQ(list.dispatches(), 1u);
  small->submit(list).wait();
  expect_refused(
      {{"again", [&] { list.barrier(); }, "\"l\": barrier after it was submitted"},
       {"foreign list", [&] { device_->submit(list); }, "submit: expected a command list"},
       {"empty list", [&] { device_->submit(CommandList{}); }, "submit: expected a command"},
       {"empty record", [&] { CommandList{}.barrier(); }, "barrier: expected a list"}});
}

TEST_F(VulkanRefusals, KernelsNameTheLimit) {
  const auto small = require_device({.limits = {.max_workgroup_size_x = 32,
                                                .max_workgroup_invocations = 64,
                                                .max_storage_buffers_per_stage = 4}});
  const auto spirv = compile(map_shader("float", "a[i]"));
  const std::vector<std::uint32_t> noise(8, 1);
  const auto make = [&](KernelDesc desc) {
    desc.name = "k";
    if (desc.spirv.empty()) desc.spirv = spirv;
    small->kernel(desc);
  };
  expect_refused({
      {"noise", [&] { make({.spirv = noise}); },
       "kernel \"k\": expected a SPIR-V module, got 8 words"},
      {"size x",
       [&] {
         make({.local_size = {64, 1, 1}});
       },
       "kernel \"k\": expected at most 32 invocations along x, got 64"},
      {"invocations",
       [&] {
         make({.local_size = {32, 3, 1}});
       },
       "kernel \"k\": expected at most 64 invocations in a workgroup, got 96"},
      {"none",
       [&] {
         make({.local_size = {0, 1, 1}});
       },
       "expected a local size of at least"},
      {"buffers", [&] { make({.storage_buffers = 5}); },
       "expected at most 4 storage buffers, got 5"},
      {"push", [&] { make({.push_constant_bytes = 1 << 20}); }, "push constant bytes, got 1048576"},
      {"push words", [&] { make({.push_constant_bytes = 6}); }, "multiples of 4 bytes, got 6"},
  });
}

TEST_F(VulkanRefusals, BuffersNameTheAllocationLimit) {
  const auto small = require_device({.limits = {.max_allocation_size = 4096}});
  EXPECT_EQ(small->buffer(4096).size(), 4096u);
  expect_refused({{"large", [&] { small->buffer(4097, MemoryKind::Device, "big"); },
                   "buffer \"big\": expected 1 to 4096 bytes (maxMemoryAllocationSize of \"" +
                       small->info().name + "\"), got 4097"},
                  {"empty", [&] { small->buffer(0); }, "got 0"}});
}

}  // namespace
}  // namespace topograd::test
