// Pipelines by content, their layouts, the driver's cache, and its figures of kernels.
#include "kernels.hpp"

#include "../../../codegen/spirv/edit_modules.hpp"
#include "core.hpp"

#include <algorithm>
#include <cstring>

namespace topograd::runtime::vulkan {
namespace {

double value(const vk::PipelineExecutableStatisticKHR& statistic) {
  switch (statistic.format) {
    case vk::PipelineExecutableStatisticFormatKHR::eBool32: return statistic.value.b32 ? 1 : 0;
    case vk::PipelineExecutableStatisticFormatKHR::eInt64:
      return static_cast<double>(statistic.value.i64);
    case vk::PipelineExecutableStatisticFormatKHR::eUint64:
      return static_cast<double>(statistic.value.u64);
    case vk::PipelineExecutableStatisticFormatKHR::eFloat64: return statistic.value.f64;
  }
  return 0;
}

}  // namespace

KernelFigures Kernel::figures() const {
  KernelFigures made{.name = name(), .workgroup_size = local_size()[0], .figures = {}};
  if (!core_->info.features.pipeline_executable_properties) return made;
  const vk::Pipeline pipeline = *state_->pipeline;
  const auto executables = core_->driver.call("vkGetPipelineExecutablePropertiesKHR", [&] {
    return core_->device.getPipelineExecutablePropertiesKHR(vk::PipelineInfoKHR(pipeline));
  });
  for (std::uint32_t k = 0; k < executables.size(); ++k) {
    const auto statistics = core_->driver.call("vkGetPipelineExecutableStatisticsKHR", [&] {
      return core_->device.getPipelineExecutableStatisticsKHR(
          vk::PipelineExecutableInfoKHR(pipeline, k));
    });
    for (const vk::PipelineExecutableStatisticKHR& one : statistics)
      made.figures.push_back({one.name.data(), value(one)});
  }
  return made;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kSpirvMagic = 0x07230203;
constexpr std::size_t kSpirvHeaderWords = 5;
constexpr const char* kCacheKind = "pipelines";
constexpr std::size_t kWordsOfFirstRun = 1000;  // of SPIR-V
constexpr std::size_t kEmulatedSize = 20;       // of code with emulated float64, at most
// Writing the whole cache after every pipeline would cost more than it saves. It is written from
// time to time, in at most a twentieth of the time for any size of the cache.
constexpr auto kSaveInterval = std::chrono::seconds(2);
constexpr int kSaveShare = 20;

Hash128 content(const KernelDesc& desc) {
  std::vector<std::uint32_t> shape = {desc.storage_buffers, desc.push_constant_bytes};
  shape.insert(shape.end(), desc.local_size.begin(), desc.local_size.end());
  for (const SpecializationConstant& constant : desc.constants) {
    shape.push_back(constant.id);
    shape.push_back(constant.value);
  }
  return hash_bytes(std::as_bytes(desc.spirv), hash_bytes(std::as_bytes(std::span(shape))));
}

void expect(bool ok, const KernelDesc& desc, const std::string& message) {
  if (ok) return;
  throw Error(ErrorCode::InvalidArgument, "kernel \"" + desc.name + "\": " + message);
}

std::string at_most(const char* what, std::uint64_t got, std::uint64_t bound) {
  return std::string("expected at most ") + std::to_string(bound) + " " + what + ", got " +
         std::to_string(got);
}

// A driver may not check its own blob, so the blob's header is compared first.
bool belongs_to(std::span<const std::byte> blob, const vk::PhysicalDeviceProperties& device) {
  VkPipelineCacheHeaderVersionOne header{};
  if (blob.size() < sizeof header) return false;
  std::memcpy(&header, blob.data(), sizeof header);
  return header.headerSize >= sizeof header &&
         header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         header.vendorID == device.vendorID && header.deviceID == device.deviceID &&
         std::memcmp(header.pipelineCacheUUID, device.pipelineCacheUUID.data(), VK_UUID_SIZE) == 0;
}

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

Kernel::Kernel(std::shared_ptr<Core> core, const KernelState* state)
    : core_(std::move(core)), state_(state) {}

const std::string& Kernel::name() const { return state_->name; }
std::uint32_t Kernel::storage_buffers() const { return state_->storage_buffers; }
std::uint32_t Kernel::push_constant_bytes() const { return state_->push_constant_bytes; }
std::array<std::uint32_t, 3> Kernel::local_size() const { return state_->local_size; }
double Kernel::creation_ms() const { return state_->creation_ms; }

// Devices share one folder, so the key identifies the device; the file's header repeats it.
Hash128 Kernels::cache_key() const {
  return hash_bytes(std::as_bytes(std::span(core_.info.uuid)),
                    hash_text(core_.info.name + core_.info.driver_version));
}

void Kernels::start() {
  const auto blob = core_.disk_cache.load(kCacheKind, cache_key());
  vk::PipelineCacheCreateInfo info;
  if (blob && belongs_to(*blob, core_.physical.getProperties())) {
    info.initialDataSize = blob->size();
    info.pInitialData = blob->data();
    saved_ = hash_bytes(*blob);
  }
  cache_ = core_.driver.call("vkCreatePipelineCache",
                             [&] { return core_.device.createPipelineCache(info); });
  core_.set_name(cache_, "topograd_pipeline_cache");
  save_again_ = Clock::now() + kSaveInterval;
}

void Kernels::save() {
  const std::lock_guard lock(save_mutex_);
  if (*cache_ == vk::PipelineCache{} || core_.driver.lost()) return;
  const Clock::time_point begin = Clock::now();
  const std::vector<std::uint8_t> blob =
      core_.driver.call("vkGetPipelineCacheData", [&] { return cache_.getData(); });
  const auto bytes = std::as_bytes(std::span(blob));
  const Hash128 hash = hash_bytes(bytes);
  if (hash != saved_ && core_.disk_cache.store(kCacheKind, cache_key(), bytes)) saved_ = hash;
  const Clock::duration spent = Clock::now() - begin;
  save_again_ = Clock::now() + std::max<Clock::duration>(kSaveInterval, kSaveShare * spent);
}

const KernelState* Kernels::find_or_make(const KernelDesc& desc) {
  core_.driver.check_lost();
  check(desc);
  const Hash128 key = content(desc);
  std::promise<std::shared_ptr<const KernelState>> promise;
  Future future;
  {
    const std::lock_guard lock(mutex_);
    const auto [it, fresh] = kernels_.try_emplace(key);
    if (fresh) {
      it->second = promise.get_future().share();
    } else {
      ++core_.pipelines.cache_hits;
      future = it->second;
    }
  }
  // Another thread may still be making it.
  if (future.valid()) return future.get().get();
  try {
    const auto made = make(desc);
    promise.set_value(made);
    return made.get();
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    kernels_.erase(key);
    throw;
  }
}

void Kernels::check(const KernelDesc& desc) const {
  const Limits& limits = core_.info.limits;
  const auto [x, y, z] = desc.local_size;
  const std::uint64_t invocations = std::uint64_t{x} * y * z;
  expect(desc.spirv.size() >= kSpirvHeaderWords && desc.spirv.front() == kSpirvMagic, desc,
         "expected a SPIR-V module, got " + std::to_string(desc.spirv.size()) +
             " words of something else");
  expect(invocations > 0, desc, "expected a local size of at least 1 x 1 x 1, got 0 invocations");
  expect(x <= limits.max_workgroup_size_x, desc,
         at_most("invocations along x", x, limits.max_workgroup_size_x));
  expect(invocations <= limits.max_workgroup_invocations, desc,
         at_most("invocations in a workgroup", invocations, limits.max_workgroup_invocations));
  expect(desc.storage_buffers <= limits.max_storage_buffers_per_stage, desc,
         at_most("storage buffers", desc.storage_buffers, limits.max_storage_buffers_per_stage));
  expect(desc.push_constant_bytes <= limits.max_push_constant_bytes, desc,
         at_most("push constant bytes", desc.push_constant_bytes, limits.max_push_constant_bytes));
  expect(desc.push_constant_bytes % 4 == 0, desc,
         "expected push constants in multiples of 4 bytes, got " +
             std::to_string(desc.push_constant_bytes));
}

std::shared_ptr<const KernelState> Kernels::make(const KernelDesc& desc) {
  const Clock::time_point begin = Clock::now();
  auto state = std::make_shared<KernelState>();
  state->core = &core_;
  state->name = desc.name;
  state->storage_buffers = desc.storage_buffers;
  state->push_constant_bytes = desc.push_constant_bytes;
  state->local_size = desc.local_size;
  state->set_layout = set_layout(desc.storage_buffers);
  state->layout = pipeline_layout(desc.storage_buffers, desc.push_constant_bytes);
  state->pipeline = make_pipeline(desc, state->layout);
  core_.set_name(state->pipeline, desc.name);
  const Clock::duration spent = Clock::now() - begin;
  state->creation_ms = milliseconds(spent);
  const std::size_t size = core_.info.features.emulated_float64 ? kEmulatedSize : 1;
  state->first_runs = 1 + size * desc.spirv.size() / kWordsOfFirstRun;
  ++core_.pipelines.created;
  core_.pipelines.ns += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
  bool due = false;
  {
    const std::lock_guard lock(save_mutex_);
    due = Clock::now() > save_again_;
    if (due) save_again_ = Clock::time_point::max();  // by this thread alone
  }
  try {
    if (due) save();
  } catch (const Error&) {
    // Ignored: a cold start next time; a device loss shows in the next call.
  }
  return state;
}

namespace {

/// Some compilers end the process at longer ones.
void require_length(std::span<const std::uint32_t> words, const std::string& name,
                    std::uint64_t most) {
  if (most == ~std::uint64_t{0}) return;
  const std::uint64_t length = codegen::inlined_instructions(words);
  if (length <= most) return;
  throw Error(ErrorCode::Unsupported,
              "kernel \"" + name + "\": expected at most " + std::to_string(most) +
                  " instructions, more than this driver's compiler takes, got " +
                  std::to_string(length) +
                  ": split the residual into several, use precision f32, or backend cpu");
}

}  // namespace

vk::raii::Pipeline Kernels::make_pipeline(const KernelDesc& desc, vk::PipelineLayout layout) {
  std::vector<vk::SpecializationMapEntry> entries;
  std::vector<std::uint32_t> values;
  for (const SpecializationConstant& constant : desc.constants) {
    const auto offset = static_cast<std::uint32_t>(values.size() * sizeof constant.value);
    entries.emplace_back(constant.id, offset, sizeof constant.value);
    values.push_back(constant.value);
  }
  const vk::SpecializationInfo specialization(static_cast<std::uint32_t>(entries.size()),
                                              entries.data(), values.size() * sizeof(std::uint32_t),
                                              values.data());
  const ForeignCall permission("vkCreateShaderModule");  // until the module is destroyed
  std::span<const std::uint32_t> words = desc.spirv;
  std::vector<std::uint32_t> emulated;
  if (core_.info.features.emulated_float64) words = emulated = codegen::emulate_float64(desc.spirv);
  require_length(words, desc.name, core_.info.limits.max_inlined_instructions);
  const vk::ShaderModuleCreateInfo module_info({}, words.size_bytes(), words.data());
  try {
    const vk::raii::ShaderModule module = core_.driver.call(
        "vkCreateShaderModule", [&] { return core_.device.createShaderModule(module_info); });
    core_.set_name(module, desc.name);
    const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *module,
                                                  "main", &specialization);
    vk::PipelineCreateFlags flags;
    if (core_.info.features.pipeline_executable_properties)
      flags |= vk::PipelineCreateFlagBits::eCaptureStatisticsKHR;
    const vk::ComputePipelineCreateInfo info(flags, stage, layout);
    return core_.driver.call("vkCreateComputePipelines",
                             [&] { return core_.device.createComputePipeline(cache_, info); });
  } catch (const Error& error) {
    // Other results of these two calls mean that the driver rejects the module.
    const bool refused = error.code() == ErrorCode::Internal;
    throw Error(refused ? ErrorCode::Unsupported : error.code(),
                "kernel \"" + desc.name + "\": " + error.what());
  }
}

vk::DescriptorSetLayout Kernels::set_layout(std::uint32_t storage_buffers) {
  const std::lock_guard lock(mutex_);
  const auto found = set_layouts_.find(storage_buffers);
  if (found != set_layouts_.end()) return *found->second;
  std::vector<vk::DescriptorSetLayoutBinding> bindings;
  for (std::uint32_t i = 0; i < storage_buffers; ++i) {
    bindings.emplace_back(i, vk::DescriptorType::eStorageBuffer, 1,
                          vk::ShaderStageFlagBits::eCompute);
  }
  auto layout = core_.driver.call("vkCreateDescriptorSetLayout", [&] {
    return core_.device.createDescriptorSetLayout({{}, bindings});
  });
  core_.set_name(layout, "topograd_" + std::to_string(storage_buffers) + "_buffers");
  return *set_layouts_.emplace(storage_buffers, std::move(layout)).first->second;
}

vk::PipelineLayout Kernels::pipeline_layout(std::uint32_t storage_buffers,
                                            std::uint32_t push_bytes) {
  const vk::DescriptorSetLayout set = set_layout(storage_buffers);
  const std::lock_guard lock(mutex_);
  const auto found = layouts_.find({storage_buffers, push_bytes});
  if (found != layouts_.end()) return *found->second;
  const vk::PushConstantRange range(vk::ShaderStageFlagBits::eCompute, 0, push_bytes);
  const vk::PipelineLayoutCreateInfo info({}, 1, &set, push_bytes > 0 ? 1 : 0, &range);
  auto layout = core_.driver.call("vkCreatePipelineLayout",
                                  [&] { return core_.device.createPipelineLayout(info); });
  core_.set_name(layout, "topograd_" + std::to_string(storage_buffers) + "_buffers_" +
                             std::to_string(push_bytes) + "_bytes");
  const auto [it, fresh] =
      layouts_.emplace(std::pair(storage_buffers, push_bytes), std::move(layout));
  return *it->second;
}

}  // namespace topograd::runtime::vulkan
