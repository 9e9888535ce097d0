// Makes kernels of generated source, in the background or where they are needed.
#include "kernel_cache.hpp"

#include "../../../codegen/spirv/edit_modules.hpp"
#include "../../../codegen/spirv/reflect.hpp"
#include "../../../codegen/spirv/shader_compiler.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/foreign_call.hpp"
#include "../../../ir/machine/parallel.hpp"
#include "../../cache/disk_cache.hpp"
#include "../../kernel_listing.hpp"
#include "../driver/features.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace topograd::runtime::vulkan {
namespace {

constexpr const char* kKind = "spirv";

}  // namespace

codegen::FloatControls float_controls(const Features& f) {
  const bool f32 = f.signed_zero_inf_nan_preserve_f32 && f.denorm_preserve_f32;
  const bool f64 = f.signed_zero_inf_nan_preserve_f64 && f.denorm_preserve_f64;
  codegen::FloatControls controls;
  controls.f32 = {f32, f32};
  controls.f64 = {f64, f64};
  return controls;
}

Module load_or_compile(DiskCache& disk, Hash128 key,
                       const std::function<std::vector<std::uint32_t>()>& compile) {
  const auto blob = disk.load(kKind, key);
  if (blob && !blob->empty() && blob->size() % 4 == 0) {
    std::vector<std::uint32_t> words(blob->size() / 4);
    std::memcpy(words.data(), blob->data(), blob->size());
    return {std::move(words), true};
  }
  std::vector<std::uint32_t> words = compile();
  disk.store(kKind, key, std::as_bytes(std::span(words)));
  return {std::move(words), false};
}

namespace {

// Never destroyed: threads of the pool may read it until the process ends.
ir::Arena& arena() {
  static ir::Arena& made = *new ir::Arena;
  return made;
}

}  // namespace

KernelJob::KernelJob(std::function<MadeKernel()> make)
    : make_(std::move(make)), future_(promise_.get_future()) {}

void KernelJob::run() {
  if (taken_.exchange(true)) return;
  try {
    promise_.set_value(make_());
  } catch (...) {
    promise_.set_exception(std::current_exception());
  }
  make_ = nullptr;  // releases the request
}

bool KernelJob::ready() const {
  return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

const MadeKernel& KernelJob::get() {
  const ForeignCall permission("kernel");  // the thread that began the job had it too
  run();
  return future_.get();
}

void run_in_background(const std::shared_ptr<KernelJob>& job) {
  arena().enqueue([weak = std::weak_ptr<KernelJob>(job)] {
    const auto held = weak.lock();
    if (held) run_if_callable([&] { held->run(); });
  });
}

namespace {

using codegen::KernelSource;
using Clock = CompileAccount::Clock;

std::atomic<std::chrono::milliseconds> compile_delay{std::chrono::milliseconds{0}};

std::atomic<std::size_t> unmade{0};

/// Counts a started job until it is done or dropped.
struct Unmade {
  Unmade() { ++unmade; }
  ~Unmade() { --unmade; }
  Unmade(const Unmade&) = delete;
  Unmade& operator=(const Unmade&) = delete;
};

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
        return b.role == codegen::BufferRole::results && b.element == codegen::Element::f64;
      });
}

void require_features(const KernelSource& source, const DeviceInfo& device) {
  const Features& f = device.features;
  require(f.has_float64() || !source.needs_float64, source, "float64", device);
  require(f.int64_atomics || !source.needs_int64_atomics, source, "64-bit integer atomics", device);
  require(f.subgroup_arithmetic || !source.needs_subgroups, source, "subgroup arithmetic", device);
  const bool adds = sums_doubles(source) ? f.atomic_float64_add : f.atomic_float32_add;
  require(adds || !source.needs_atomic_float, source, "atomic addition of floats", device);
}

void require_size(const KernelSource& source) {
  if (source.statements <= kMostStatements) return;
  throw Error(ErrorCode::Unsupported,
              "kernel \"" + source.name + "\": expected at most " +
                  std::to_string(kMostStatements) + " statements, got " +
                  std::to_string(source.statements) +
                  ": split the residual into several, or solve on backend cpu");
}

}  // namespace

class CompileAccount::Busy {
 public:
  explicit Busy(CompileAccount& of) : account_(of) {
    const std::lock_guard lock(account_.mutex_);
    if (account_.busy_++ == 0) account_.busy_since_ = Clock::now();
  }
  ~Busy() {
    const std::lock_guard lock(account_.mutex_);
    if (--account_.busy_ > 0) return;
    account_.stats_.wall_ms +=
        std::chrono::duration<double, std::milli>(Clock::now() - account_.busy_since_).count();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  CompileAccount& account_;
};

double CompileAccount::add(double CompileStats::*time, Clock::time_point start) {
  const double spent = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  const std::lock_guard lock(mutex_);
  stats_.*time += spent;
  return spent;
}

void CompileAccount::count(std::uint64_t CompileStats::*counter) {
  const std::lock_guard lock(mutex_);
  ++(stats_.*counter);
}

CompileStats CompileAccount::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::vector<std::uint32_t> compile_checked(const KernelSource& source) {
  std::vector<std::uint32_t> words =
      codegen::compile({.name = source.name, .glsl = source.glsl, .includes = {}});
  words = codegen::add_float_controls(words, float_controls(source));
  codegen::check(codegen::reflect(words), codegen::expected_layout(source), source.name);
  return words;
}

std::vector<std::uint32_t> KernelCache::module(MadeKernel& made, CompileAccount& account) {
  Module found = load_or_compile(device_->disk_cache(), made.source.hash,
                                 [&] { return compile_checked(made.source); });
  account.count(found.from_disk ? &CompileStats::disk_hits : &CompileStats::compiled);
  made.origin = found.from_disk ? "disk" : "compiled";
  return std::move(found.words);
}

std::size_t unmade_kernels() { return unmade; }

void set_compile_delay(std::chrono::milliseconds delay) { compile_delay = delay; }

void KernelCache::make(MadeKernel& made, CompileAccount& account) {
  const KernelSource& source = made.source;
  require_size(source);
  require_features(source, device_->info());
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(compile_delay.load());
  const std::vector<std::uint32_t> words = module(made, account);
  made.spirv_ms = account.add(&CompileStats::spirv_ms, start);
  const Clock::time_point pipeline_start = Clock::now();
  made.kernel = device_->kernel(
      {.spirv = words,
       .name = source.name,
       .storage_buffers = static_cast<std::uint32_t>(source.bindings.size()),
       .push_constant_bytes = static_cast<std::uint32_t>(4 * source.push_constants.size()),
       .constants = {},
       .local_size = {source.workgroup_size, 1, 1}});
  made.pipeline_ms = account.add(&CompileStats::pipeline_ms, pipeline_start);
}

MadeKernel KernelCache::kernel(KernelSource source, CompileAccount& account) {
  note_kernel(source.name, source.glsl);
  const Hash128 hash = source.hash;
  MadeKernel made{.source = std::move(source), .kernel = {}};
  std::promise<Kernel> promise;
  std::shared_future<Kernel> there;
  {
    const std::lock_guard lock(mutex_);
    const auto [it, fresh] = kernels_.try_emplace(hash);
    if (fresh) {
      it->second = promise.get_future().share();
    } else {
      there = it->second;
    }
  }
  if (there.valid()) {
    account.count(&CompileStats::memory_hits);
    made.kernel = there.get();  // another thread may still be making it
    return made;
  }
  const CompileAccount::Busy busy(account);
  try {
    make(made, account);
    promise.set_value(made.kernel);
    return made;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    kernels_.erase(hash);
    throw;
  }
}

std::shared_ptr<KernelJob> KernelCache::begin(std::function<KernelSource()> generate,
                                              std::shared_ptr<CompileAccount> account) {
  auto job = std::make_shared<KernelJob>([self = shared_from_this(), generate = std::move(generate),
                                          account = std::move(account),
                                          counted = std::make_shared<Unmade>()] {
    const Clock::time_point start = Clock::now();
    KernelSource source = generate();
    const double glsl_ms = account->add(&CompileStats::glsl_ms, start);
    MadeKernel made = self->kernel(std::move(source), *account);
    made.glsl_ms = glsl_ms;
    return made;
  });
  run_in_background(job);
  return job;
}

std::shared_ptr<KernelCache> kernel_cache(const std::shared_ptr<Device>& device) {
  static auto& mutex = *new std::mutex;
  static auto& caches = *new std::unordered_map<const Core*, std::weak_ptr<KernelCache>>;
  const std::lock_guard lock(mutex);
  std::erase_if(caches, [](const auto& entry) { return entry.second.expired(); });
  auto& slot = caches[device->core().get()];
  auto cache = slot.lock();
  if (!cache) slot = cache = std::make_shared<KernelCache>(device);
  return cache;
}

}  // namespace topograd::runtime::vulkan
