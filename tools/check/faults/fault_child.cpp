// Makes calls fail during work and checks the result.
#include "fault_child.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../runtime/device/device.hpp"
#include "../../../runtime/device/driver/validation.hpp"
#include "../../../solver/session/device_engine.hpp"
#include "../../../solver/session/session.hpp"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

namespace topograd::check {
namespace {

namespace vulkan = runtime::vulkan;

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// Releases devices until the driver has no objects, or for as long as work in flight may take.
/// Returns a description of the remaining objects.
std::string remains() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until = Clock::now() + std::chrono::seconds(20);
  std::map<std::string, std::uint64_t> live;
  for (;;) {
    vulkan::release_devices();
    live = vulkan::live_objects();
    if (live.empty() || Clock::now() > until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::string text;
  for (const auto& [kind, count] : live)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return text;
}

/// A driver that reports its own absence is not counted as a failure.
bool says_absent(const Injection& injection) {
  const std::string_view call = vulkan::fallible_calls()[injection.fault.call].name;
  const std::string result = vulkan::result_name(injection.fault.result);
  return (call == "vkCreateInstance" && result == "ErrorIncompatibleDriver") ||
         (call == "vkEnumeratePhysicalDevices" && result == "ErrorInitializationFailed");
}

struct Result {
  Outcome outcome = Outcome::wrong;
  bool leaked = false, miscounted = false;
  std::uint64_t fallbacks = 0;
  std::string text;
};

void work(const Injection& injection, const std::string& device, Result& result) {
  const bool automatic = injection.scenario.backend == Backend::automatic;
  try {
    const FaultAnswer answer = injection.scenario.work->run(injection.scenario.backend, device,
                                                            injection.scenario.precision);
    result.outcome = answer.right ? Outcome::right : Outcome::wrong;
    result.text = answer.why;
    result.fallbacks = answer.fallbacks;
    const std::uint64_t expected = automatic && answer.on_cpu ? 1 : 0;
    const bool may_be_absent = says_absent(injection) && answer.fallbacks == 0;
    result.miscounted = answer.fallbacks != expected && !may_be_absent;
    if (result.miscounted)
      result.text = std::to_string(answer.fallbacks) + " fallbacks counted: " + result.text;
  } catch (const Error& error) {
    const bool typed = !automatic && is_device_failure(error.code());
    result.outcome = typed ? Outcome::typed : Outcome::wrong;
    result.text = std::string(name(error.code())) + ": " + error.what();
  } catch (const std::exception& error) {
    result.text = std::string("an exception of another type: ") + error.what();
  }
}

Result inject(const Injection& injection, const std::string& device) {
  Result result;
  const std::uint64_t strays = vulkan::stray_destructions();
  vulkan::inject_fault(injection.fault);
  work(injection, device, result);
  const bool reached = vulkan::end_faults() > 0;
  const std::string left = remains();
  for (const vulkan::ValidationMessage& message : vulkan::take_validation_messages()) {
    result.outcome = Outcome::wrong;
    result.text = "validation: " + message.text + ": " + result.text;
  }
  result.leaked = !left.empty() || vulkan::stray_destructions() != strays;
  if (result.leaked) {
    result.text = "left: " + left + ", destroyed without having lived: " +
                  std::to_string(vulkan::stray_destructions() - strays) + ": " + result.text;
  }
  if (!reached && result.outcome == Outcome::right && !result.leaked)
    result.outcome = Outcome::not_reached;
  return result;
}

/// Works without failures, first to fill the caches, then to count calls.
void count_uses(const Scenario& scenario, std::size_t number, const std::string& device,
                Precision precision, const Tell& tell) {
  for (int k = 0; k < 2; ++k) {
    vulkan::take_uses();
    const FaultAnswer answer = scenario.work->run(scenario.backend, device, precision);
    if (!answer.right || answer.on_cpu || answer.fallbacks != 0)
      throw Error(ErrorCode::Internal, scenario.name() + " without failures: " + answer.why);
  }
  std::string line = std::string(kUses) + " " + std::to_string(number);
  for (const std::uint64_t uses : vulkan::take_uses()) line += " " + std::to_string(uses);
  tell(line);
}

}  // namespace

std::string Injection::name() const {
  const vulkan::FallibleCall& call = vulkan::fallible_calls()[fault.call];
  return scenario.name() + ", " + std::string(call.name) + " #" + std::to_string(fault.use) +
         (fault.persistent ? " and later: " : ": ") + vulkan::result_name(fault.result);
}

void prepare_fault_child(const std::string& cache) {
  platform::set_environment("TOPOGRAD_CACHE_DIR", cache);
  platform::set_environment("TOPOGRAD_HYBRID_STATE", "none");
  platform::set_environment("TOPOGRAD_HYBRID_ADMIT_SOFTWARE", "1");
  vulkan::watch_driver();
}

void run_injections(std::span<const Injection> injections, std::size_t first,
                    const std::string& device, const Tell& tell) {
  for (std::size_t k = 0; k < injections.size(); ++k) {
    const std::string number = std::to_string(first + k);
    tell(std::string(kBegin) + " " + number);
    const Result result = inject(injections[k], device);
    tell(std::string(kEnd) + " " + number + " " + std::to_string(static_cast<int>(result.outcome)) +
         " " + std::to_string(result.leaked) + " " + std::to_string(result.miscounted) + " " +
         std::to_string(result.fallbacks) + " " + one_line(result.text));
    if (result.leaked) return;
  }
}

void explore_uses(std::span<const Scenario> scenarios, const std::string& device,
                  const Tell& tell) {
  try {
    const DeviceFacts facts = probe_device({.device = device});
    if (!facts.usable) throw Error(facts.code, facts.problem);
    const Precision precision = facts.float64 ? Precision::f64 : Precision::f32;
    tell(std::string(kDevice) + " " + std::string(name(precision)) + " " + facts.name);
    for (std::size_t k = 0; k < scenarios.size(); ++k)
      count_uses(scenarios[k], k, device, precision, tell);
  } catch (const Error& error) {
    tell(std::string(kError) + " " + std::to_string(static_cast<int>(error.code())) + " " +
         one_line(error.what()));
  }
}

void lose_device(const std::string& device, Precision precision, bool persistent,
                 const Tell& tell) {
  const auto calls = vulkan::fallible_calls();
  const auto submit = static_cast<std::size_t>(
      std::ranges::find(calls, "vkQueueSubmit", &vulkan::FallibleCall::name) - calls.begin());
  vulkan::take_uses();
  long_solve(Backend::automatic, device, precision);
  const std::uint64_t submissions = vulkan::take_uses()[submit];
  constexpr std::int32_t kDeviceLost = -4;  // VK_ERROR_DEVICE_LOST
  vulkan::inject_fault({submit, submissions / 2, kDeviceLost, persistent});
  const FaultAnswer answer = long_solve(Backend::automatic, device, precision);
  vulkan::end_faults();
  const bool right = answer.right && answer.on_cpu && answer.fallbacks == 1;
  std::ostringstream line;
  line << kLost << " " << answer.steps << " " << answer.steps_on_device << " "
       << answer.repeated_steps << " " << right << " " << one_line(answer.why);
  tell(line.str());
  if (const std::string left = remains(); !left.empty())
    throw Error(ErrorCode::Internal, "a solve whose device was lost left " + left);
}

}  // namespace topograd::check
