// Vulkan devices, their abilities, and the checks of topograd doctor.
#include "info.hpp"
#include "solve/progress.hpp"

#include "../../codegen/spirv/shader_compiler.hpp"
#include "../../ir/error.hpp"
#include "../../runtime/device/check/doctor.hpp"
#include "../../runtime/device/device.hpp"
#include "../../runtime/device/driver/validation.hpp"
#include "../../runtime/plan/record/remembered_plans.hpp"
#include "../../runtime/vulkan/recording/context.hpp"

#include <nlohmann/json.hpp>

#include <array>

namespace topograd::command {
namespace {

namespace vk = runtime::vulkan;
using codegen::Precision;
using nlohmann::ordered_json;

constexpr const char* kSquare = R"(#version 450
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint n; };
layout(std430, set = 0, binding = 0) buffer Values { float v[]; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  v[i] = v[i] * v[i];
}
)";

ordered_json describe_strategies(const vk::Features& features) {
  ordered_json by_precision;
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    ordered_json strategies;
    for (const codegen::AccumulationRow& row : codegen::kAccumulations) {
      const vk::AccumulationChoice strategy =
          vk::choose_accumulation(row.value, precision, features);
      const bool there = precision == Precision::f32 || features.has_float64();
      strategies[std::string(row.name)] =
          !there ? std::string("no float64")
          : strategy.why.empty()
              ? std::string("yes")
              : strategy.why + ": " + std::string(name(strategy.accumulation)) + " instead";
    }
    by_precision[std::string(name(precision))] = std::move(strategies);
  }
  return by_precision;
}

ordered_json describe_features(const vk::Features& f) {
  return {{"float64", f.float64},
          {"emulated_float64", f.emulated_float64},
          {"int64_atomics", f.int64_atomics},
          {"float32_atomics", f.atomic_float32_add},
          {"float64_atomics", f.atomic_float64_add},
          {"subgroups", f.subgroup_arithmetic},
          {"large_workgroups", f.large_workgroups},
          {"shared_32k", f.shared_32k},
          {"large_buffers", f.large_buffer_range},
          {"mapped_memory", f.mapped_memory},
          {"timestamps", f.timestamps},
          {"memory_budget", f.memory_budget},
          {"pipeline_executable_properties", f.pipeline_executable_properties},
          {"cooperative_matrix", f.cooperative_matrix}};
}

ordered_json describe_device(const vk::DeviceInfo& info) {
  ordered_json json;
  json["index"] = info.index;
  json["name"] = info.name;
  json["type"] = vk::name(info.type);
  json["vendor"] = info.vendor;
  json["driver"] = info.driver + " " + info.driver_version;
  json["api_version"] = info.api_version;
  if (!info.unusable.empty()) json["unusable"] = info.unusable;
  json["features"] = describe_features(info.features);
  json["limits"] = {{"max_storage_buffer_range", info.limits.max_storage_buffer_range},
                    {"max_workgroup_invocations", info.limits.max_workgroup_invocations},
                    {"max_workgroups_x", info.limits.max_workgroups_x},
                    {"shared_memory_bytes", info.limits.shared_memory_bytes},
                    {"subgroup_size", info.limits.subgroup_size}};
  json["accumulation"] = describe_strategies(info.features);
  return json;
}

/// Measurements by device: batches of the size class, and the chosen strategy.
ordered_json describe_plans(const runtime::DiskCache& cache) {
  ordered_json plans = ordered_json::object();
  for (const runtime::PlanRecord& plan : runtime::remembered_plans(cache)) {
    const runtime::PlanChoice& made = plan.batches[0];
    const std::string size = "2^" + std::to_string(runtime::size_class(made.instances));
    plans[plan.device][made.topology + " " + plan.precision + " " + size] = made.text();
  }
  return plans;
}

}  // namespace

ordered_json describe_cache() {
  const runtime::DiskCache cache(runtime::DiskCacheOptions{});
  if (!cache.disabled().empty()) return {{"off", cache.disabled()}};
  return {{"folder", cache.folder()},
          {"shaders", cache.count("spirv")},
          {"pipeline_caches", cache.count("pipelines")},
          {"measured_plans", describe_plans(cache)}};
}

ordered_json describe_devices() {
  try {
    ordered_json list = ordered_json::array();
    for (const vk::DeviceInfo& info : vk::devices()) list.push_back(describe_device(info));
    return list;
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

ordered_json run_doctor(const std::string& device) {
  vk::DeviceOptions options;
  options.device = device;
  const vk::DoctorReport report =
      vk::doctor(options, codegen::compile({.name = "square", .glsl = kSquare, .includes = {}}));
  ordered_json checks = ordered_json::array();
  for (const vk::DoctorCheck& check : report.checks) {
    checks.push_back({{"name", check.name},
                      {"state", check.ok       ? "ok"
                                : check.needed ? "missing"
                                               : "without"},
                      {"detail", check.detail}});
    const bool said = check.detail.find(check.advice) != std::string::npos;  // in the error
    if (!said) checks.back()["advice"] = check.advice;
  }
  return checks;
}

std::uint64_t shaders_compiled() { return codegen::shaders_compiled(); }

std::string validation_report() {
  std::string text;
  for (const vk::ValidationMessage& message : vk::take_validation_messages()) {
    text += message.id + ": " + message.text + "\n";
  }
  return text;
}

}  // namespace topograd::command
