// Runs the checks of the doctor, from the loader to a shader's result.
#include "doctor.hpp"

#include <algorithm>
#include <optional>

#include "../opened/core.hpp"
#include "self_check.hpp"

namespace topograd::runtime::vulkan {
namespace {

constexpr const char* kSoftwareAdvice =
    "install the driver of the graphics card, or the package mesa-vulkan-drivers";
constexpr const char* kDriverAdvice =
    "the driver computes wrongly or not at all: install another version";

class Doctor {
 public:
  Doctor(const DeviceOptions& options, std::span<const std::uint32_t> square)
      : options_(options), square_(square) {}

  DoctorReport examine() {
    if (look_for_loader() && look_for_driver() && look_for_devices() && open_device()) {
      look_at_features();
      if (!square_.empty() && run_square()) compare_functions();
    }
    return std::move(report_);
  }

 private:
  bool add(DoctorCheck check) {
    if (check.ok) check.advice.clear();
    report_.checks.push_back(std::move(check));
    return report_.checks.back().ok;
  }

  // Runs `step`, which returns the detail of a successful check or throws the problem.
  template <class Step>
  bool attempt(const char* name, const char* advice, Step&& step) {
    try {
      return add({.name = name, .ok = true, .detail = step()});
    } catch (const std::exception& error) {
      return add({.name = name, .ok = false, .detail = error.what(), .advice = advice});
    }
  }

  bool look_for_loader() {
    return attempt("loader", "install the package libvulkan1", [&] {
      options_ = resolved(options_);
      loader_ = open_loader(options_.loader);
      const bool layer = has_validation_layer(loader_);
      validation_ = {.name = "validation layer",
                     .ok = layer,
                     .needed = options_.validation,
                     .detail = layer ? kValidationLayer : "not found",
                     .advice = "install the package vulkan-validationlayers"};
      return loader_.path;
    });
  }

  bool look_for_driver() {
    const bool found = attempt("instance", kSoftwareAdvice, [&] {
      instance_ = shared_instance(options_);
      return "Vulkan " + version_text(instance_->api_version());
    });
    add(validation_);
    return found;
  }

  bool look_for_devices() {
    return attempt("devices", kSoftwareAdvice, [&] {
      std::string text;
      for (const DeviceInfo& info : devices(options_)) {
        text += (text.empty() ? "" : "; ") + std::to_string(info.index) + ": " + info.name + " (" +
                std::string(name(info.type)) + ", " + info.driver + " " + info.driver_version +
                ", Vulkan " + info.api_version +
                (info.unusable.empty() ? "" : ", " + info.unusable) + ")";
      }
      return text;
    });
  }

  bool open_device() {
    return attempt("device", kSoftwareAdvice, [&] {
      device_ = open(options_);
      return device_->info().name;
    });
  }

  void look_at_features() {
    const Features& features = device_->features();
    const struct {
      const char* name;
      bool there;
      const char* without;
    } rows[] = {
        {"float32 atomics", features.atomic_float32_add, "gather or compare-and-swap instead"},
        {"float64 atomics", features.atomic_float64_add, "gather instead"},
        {"int64 atomics", features.int64_atomics, "gather for f64 instead"},
        {"subgroups", features.subgroup_arithmetic, "reductions use shared memory instead"},
        {"timestamps", features.timestamps, "times are wall times instead"},
    };
    add({.name = "float64",
         .ok = features.has_float64(),
         .needed = false,
         .detail = features.float64            ? "present"
                   : features.emulated_float64 ? "emulated by 32-bit integers, with the same bits"
                                               : "not offered by the device, or masked",
         .advice = "f64 and mixed precision run on the CPU; f32 works; so does "
                   "TOPOGRAD_FLOAT64=emulated"});
    for (const auto& row : rows) {
      add({.name = row.name,
           .ok = row.there,
           .needed = false,
           .detail = row.there ? "present" : "not offered by the device, or masked",
           .advice = row.without});
    }
    const std::string& cache = device_->disk_cache().disabled();
    add({.name = "disk cache",
         .ok = cache.empty(),
         .needed = false,
         .detail = cache.empty() ? device_->disk_cache().folder() : cache,
         .advice = "set TOPOGRAD_CACHE_DIR to a folder of your own"});
  }

  bool run_square() {
    return attempt("shader", kDriverAdvice, [&] {
      constexpr std::uint32_t kCount = 1000;
      std::vector<float> values(kCount);
      for (std::uint32_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i) - 500.0f;
      const Buffer buffer = device_->buffer(kCount * sizeof(float), MemoryKind::Device, "doctor");
      device_->upload(buffer, std::span<const float>(values));
      const Kernel kernel = device_->kernel({.spirv = square_,
                                             .name = "doctor_square",
                                             .storage_buffers = 1,
                                             .push_constant_bytes = sizeof kCount,
                                             .local_size = {64, 1, 1}});
      CommandList list = device_->command_list("doctor");
      const Binding binding{&buffer};
      list.dispatch(kernel, {&binding, 1}, push_bytes(kCount), (kCount + 63) / 64);
      device_->submit(list).wait();
      std::vector<float> squares(kCount);
      device_->download(buffer, std::span(squares));
      for (std::uint32_t i = 0; i < kCount; ++i) {
        if (squares[i] == values[i] * values[i]) continue;
        throw Error(ErrorCode::Internal, "the square of " + std::to_string(values[i]) +
                                             " came as " + std::to_string(squares[i]));
      }
      return "squared " + std::to_string(kCount) + " numbers on " + device_->info().name;
    });
  }

  void compare_functions() {
    attempt("functions", kDriverAdvice, [&] {
      const SelfCheck result = run_self_check(options_);
      if (!result.passed()) {
        throw Error(
            ErrorCode::Internal,
            "the driver compiles functions of functions wrongly, and the device is not used "
            "unless it is forced: " +
                result.problem);
      }
      return std::to_string(result.compared) + " numbers of functions of functions agree with " +
             "the CPU";
    });
  }

  DeviceOptions options_;
  std::span<const std::uint32_t> square_;
  DoctorReport report_;
  Loader loader_;
  DoctorCheck validation_;
  std::shared_ptr<Instance> instance_;
  std::shared_ptr<Device> device_;
};

}  // namespace

bool DoctorReport::ok() const {
  return std::ranges::all_of(checks, [](const auto& check) { return check.ok || !check.needed; });
}

DoctorReport doctor(const DeviceOptions& options, std::span<const std::uint32_t> square) {
  return Doctor(options, square).examine();
}

}  // namespace topograd::runtime::vulkan
