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

codegen::FloatControls float_controls(const Features& f) {
  const bool f32 = f.signed_zero_inf_nan_preserve_f32 && f.denorm_preserve_f32;
  const bool f64 = f.signed_zero_inf_nan_preserve_f64 && f.denorm_preserve_f64;
  return {.f32 = {f32, f32}, .f64 = {f64, f64}};
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

/// True if the results are doubles; a kernel of floats may still read doubles.
bool sums_doubles(const KernelSource& source) {
  return std::ranges::any_of(source.bindings, [](const codegen::BindingInfo& b) {
    return b.role == codegen::BufferRole::results && b.element == codegen::Element::f64;
  });
}

/// Features of a device that a kernel needs.
struct Needs {
  bool matrices = false;
  bool float64 = false, int64 = false, int64_atomics = false;
  bool float32_atomics = false, float64_atomics = false;
  bool subgroups = false, subgroup_arithmetic = false;
};

Needs needs_of(const KernelSource& source) {
  const bool wide = sums_doubles(source);
  return {.float64 = source.needs_float64,
          .int64_atomics = source.needs_int64_atomics,
          .float32_atomics = source.needs_atomic_float && !wide,
          .float64_atomics = source.needs_atomic_float && wide,
          .subgroup_arithmetic = source.needs_subgroups};
}

Needs needs_of(const codegen::ModuleLayout& layout, bool matrices) {
  return {.matrices = matrices,
          .float64 = layout.uses_float64(),
          .int64 = layout.uses_int64(),
          .int64_atomics = layout.uses_int64_atomics(),
          .float32_atomics = layout.uses_float32_atomic_add(),
          .float64_atomics = layout.uses_float64_atomic_add(),
          .subgroups = layout.uses_subgroups()};
}

void require(const Needs& needs, std::string_view kernel, const DeviceInfo& device) {
  const Features& f = device.features;
  const struct {
    bool needed, there;
    const char* what;
  } rows[] = {{needs.matrices, f.cooperative_matrix, "cooperative matrices"},
              {needs.float64, f.has_float64(), "float64"},
              {needs.int64, f.int64, "int64"},
              {needs.int64_atomics, f.int64_atomics, "64-bit integer atomics"},
              {needs.float32_atomics, f.atomic_float32_add, "float32 atomics"},
              {needs.float64_atomics, f.atomic_float64_add, "float64 atomics"},
              {needs.subgroups, f.subgroup_basic, "subgroups"},
              {needs.subgroup_arithmetic, f.subgroup_arithmetic, "subgroup arithmetic"}};
  for (const auto& row : rows) {
    if (!row.needed || row.there) continue;
    throw Error(ErrorCode::Unsupported, "kernel \"" + std::string(kernel) +
                                            "\": expected a device with " + row.what + ", got \"" +
                                            device.name + "\" without it");
  }
}

/// Compares a module with what its shader says of it: the whole layout of a generated source, the
/// sizes of any other.
void check(const Shader& shader, const codegen::ModuleLayout& got) {
  if (shader.source)
    return codegen::check(got, codegen::expected_layout(*shader.source), shader.name);
  const std::array<std::size_t, 3> want = {
      shader.storage_buffers, shader.push_constant_bytes,
      shader.local_size[0] > 0 ? shader.local_size[0] : got.workgroup_size[0]};
  const std::array<std::size_t, 3> found = {got.bindings.size(), got.push_constant_size,
                                            got.workgroup_size[0]};
  const auto text = [](const std::array<std::size_t, 3>& counts) {
    return std::to_string(counts[0]) + " storage buffers, " + std::to_string(counts[1]) +
           " bytes of push constants and workgroups of " + std::to_string(counts[2]);
  };
  if (want == found) return;
  throw Error(ErrorCode::LayoutMismatch,
              std::string(shader.name) + ": expected " + text(want) + ", got " + text(found));
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

Shader shader_of(const KernelSource& source) {
  const bool f32 = source.float_controls_f32, f64 = source.float_controls_f64;
  return {.name = source.name,
          .glsl = source.glsl,
          .key = source.hash,
          .controls = {.f32 = {f32, f32}, .f64 = {f64, f64}},
          .storage_buffers = static_cast<std::uint32_t>(source.bindings.size()),
          .push_constant_bytes = static_cast<std::uint32_t>(4 * source.push_constants.size()),
          .local_size = {source.workgroup_size, 1, 1},
          .source = &source};
}

std::vector<std::uint32_t> compile_shader(const Shader& shader) {
  return codegen::add_float_controls(
      codegen::compile(
          {.name = std::string(shader.name), .glsl = std::string(shader.glsl), .includes = {}}),
      shader.controls);
}

namespace {

constexpr const char* kModules = "spirv";

/// The words that are stored under the shader's key; empty if there are none.
std::vector<std::uint32_t> load(DiskCache& disk, const Shader& shader) {
  const auto blob = disk.load(kModules, shader.key);
  if (!blob || blob->size() % 4 != 0) return {};
  std::vector<std::uint32_t> words(blob->size() / 4);
  std::memcpy(words.data(), blob->data(), blob->size());
  return words;
}

/// A module that fits its shader and the device.
struct Module {
  std::vector<std::uint32_t> words;
  std::array<std::uint32_t, 3> local_size;
  Origin origin;
};

/// The module on disk, or else that of the compiler, which is then stored.
Module load_or_compile(Device& device, const Shader& shader) {
  Module out{load(device.disk_cache(), shader), shader.local_size, Origin::disk};
  if (out.words.empty()) out = {compile_shader(shader), shader.local_size, Origin::compiled};
  // The key of a generated source depends on its whole layout, so what is on disk has passed. Other
  // keys may depend on the text alone.
  if (shader.source && out.origin == Origin::disk) return out;
  const bool matrices = codegen::has_cooperative_matrices(out.words);
  const codegen::ModuleLayout layout =
      matrices ? codegen::reflect_words(out.words) : codegen::reflect(out.words);
  check(shader, layout);
  if (out.origin == Origin::compiled)
    device.disk_cache().store(kModules, shader.key, std::as_bytes(std::span(out.words)));
  if (shader.source) return out;  // names its needs itself
  require(needs_of(layout, matrices), shader.name, device.info());
  if (matrices && has_khr_matrices(device)) out.words = codegen::to_khr_matrices(out.words);
  out.local_size = layout.workgroup_size;
  return out;
}

}  // namespace

std::size_t unmade_kernels() { return unmade; }

void set_compile_delay(std::chrono::milliseconds delay) { compile_delay = delay; }

StoredKernel KernelCache::make(const Shader& shader, CompileAccount& account) {
  StoredKernel made;
  if (shader.source) {
    require_size(*shader.source);
    require(needs_of(*shader.source), shader.name, device_->info());
  }
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(compile_delay.load());
  const Module module = load_or_compile(*device_, shader);
  made.origin = module.origin;
  account.count(made.origin == Origin::disk ? &CompileStats::disk_hits : &CompileStats::compiled);
  made.spirv_ms = account.add(&CompileStats::spirv_ms, start);
  const Clock::time_point pipeline_start = Clock::now();
  made.kernel = device_->kernel({.spirv = module.words,
                                 .name = std::string(shader.name),
                                 .storage_buffers = shader.storage_buffers,
                                 .push_constant_bytes = shader.push_constant_bytes,
                                 .constants = {},
                                 .local_size = module.local_size});
  made.pipeline_ms = account.add(&CompileStats::pipeline_ms, pipeline_start);
  return made;
}

StoredKernel KernelCache::kernel(const Shader& shader, CompileAccount& account) {
  note_kernel(shader.name, shader.glsl);
  const ForeignCall permission("kernel");
  std::unique_lock lock(mutex_);
  if (const auto found = kernels_.find(shader.key); found != kernels_.end()) {
    const std::shared_future<Kernel> there = found->second;
    lock.unlock();
    account.count(&CompileStats::memory_hits);
    return {.kernel = there.get()};  // another thread may still be making it
  }
  std::promise<Kernel> promise;
  kernels_.emplace(shader.key, promise.get_future().share());
  lock.unlock();
  const CompileAccount::Busy busy(account);
  try {
    StoredKernel made = make(shader, account);
    promise.set_value(made.kernel);
    return made;
  } catch (...) {
    promise.set_exception(std::current_exception());
    lock.lock();
    kernels_.erase(shader.key);
    throw;
  }
}

MadeKernel KernelCache::kernel(KernelSource source, CompileAccount& account) {
  MadeKernel made{kernel(shader_of(source), account), {}};
  made.source = std::move(source);
  return made;
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
