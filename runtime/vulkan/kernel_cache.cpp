// Making and remembering kernels.
#include <topograd/runtime/vulkan/kernel_cache.hpp>

#include <topograd/codegen/float_controls.hpp>
#include <topograd/codegen/reflect.hpp>
#include <topograd/codegen/shader_compiler.hpp>
#include <topograd/ir/error.hpp>
#include <topograd/runtime/disk_cache.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>

namespace topograd::runtime::vulkan {
namespace {

using codegen::KernelSource;

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

codegen::FloatControls float_controls(const KernelSource& source) {
  codegen::FloatControls controls;
  controls.f32 = {source.float_controls_f32, source.float_controls_f32};
  controls.f64 = {source.float_controls_f64, source.float_controls_f64};
  return controls;
}

void require(bool there, const KernelSource& source, const char* what, const DeviceInfo& device) {
  if (there) return;
  throw Error(ErrorCode::Unsupported, "kernel \"" + source.name + "\": expected a device with " +
                                          what + ", got \"" + device.name + "\" without it");
}

/// True if the results are doubles; a kernel of floats may still read doubles.
bool sums_doubles(const KernelSource& source) {
  return std::any_of(
      source.bindings.begin(), source.bindings.end(), [](const codegen::BindingInfo& b) {
        return b.role == codegen::BufferRole::out && b.element == codegen::Element::f64;
      });
}

void require_features(const KernelSource& source, const DeviceInfo& device) {
  const Features& f = device.features;
  require(f.float64 || !source.needs_float64, source, "float64", device);
  require(f.int64_atomics || !source.needs_int64_atomics, source, "64-bit integer atomics", device);
  require(f.subgroup_arithmetic || !source.needs_subgroups, source, "subgroup arithmetic", device);
  const bool adds = sums_doubles(source) ? f.atomic_float64_add : f.atomic_float32_add;
  require(adds || !source.needs_atomic_float, source, "atomic addition of floats", device);
}

std::optional<std::vector<std::uint32_t>> load(DiskCache& disk, Hash128 key) {
  const auto blob = disk.load("spirv", key);
  if (!blob || blob->empty() || blob->size() % 4 != 0) return std::nullopt;
  std::vector<std::uint32_t> words(blob->size() / 4);
  std::memcpy(words.data(), blob->data(), blob->size());
  return words;
}

}  // namespace

CompileStats CompileStats::operator-(const CompileStats& earlier) const {
  return {compiled - earlier.compiled, disk_hits - earlier.disk_hits,
          memory_hits - earlier.memory_hits, spirv_ms - earlier.spirv_ms,
          pipeline_ms - earlier.pipeline_ms};
}

std::vector<std::uint32_t> compile_checked(const KernelSource& source) {
  std::vector<std::uint32_t> words =
      codegen::compile({.name = source.name, .glsl = source.glsl, .includes = {}});
  words = codegen::add_float_controls(words, float_controls(source));
  codegen::check(codegen::reflect(words), codegen::expected_layout(source), source.name);
  return words;
}

std::vector<std::uint32_t> KernelCache::module(const KernelSource& source) {
  const Hash128 key = source.hash;
  DiskCache& disk = device_->disk_cache();
  if (auto words = load(disk, key)) {
    ++stats_.disk_hits;
    return *words;
  }
  std::vector<std::uint32_t> words = compile_checked(source);
  ++stats_.compiled;
  disk.store("spirv", key, std::as_bytes(std::span(words)));
  return words;
}

Kernel KernelCache::kernel(const KernelSource& source) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kernels_.find(source.hash); found != kernels_.end()) {
    ++stats_.memory_hits;
    return found->second;
  }
  require_features(source, device_->info());
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::uint32_t> words = module(source);
  stats_.spirv_ms += milliseconds_since(start);
  const auto pipeline_start = std::chrono::steady_clock::now();
  Kernel kernel = device_->kernel(
      {.spirv = words,
       .name = source.name,
       .storage_buffers = static_cast<std::uint32_t>(source.bindings.size()),
       .push_constant_bytes = static_cast<std::uint32_t>(4 * source.push_constants.size()),
       .constants = {},
       .local_size = {source.workgroup_size, 1, 1}});
  stats_.pipeline_ms += milliseconds_since(pipeline_start);
  return kernels_.emplace(source.hash, std::move(kernel)).first->second;
}

CompileStats KernelCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::shared_ptr<KernelCache> kernel_cache(const std::shared_ptr<Device>& device) {
  static std::mutex mutex;
  static std::unordered_map<const Core*, std::weak_ptr<KernelCache>> caches;
  const std::lock_guard lock(mutex);
  std::erase_if(caches, [](const auto& entry) { return entry.second.expired(); });
  auto& slot = caches[device->core().get()];
  auto cache = slot.lock();
  if (!cache) slot = cache = std::make_shared<KernelCache>(device);
  return cache;
}

}  // namespace topograd::runtime::vulkan
