// A thread that waits for the moment of a failure.
#include "failure.hpp"

#include "../../ir/error.hpp"

#include "cases.hpp"

#ifdef TOPOGRAD_WITH_VULKAN
#include "../../runtime/device/driver/faults.hpp"
#endif

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iomanip>
#include <new>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace topograd::test {
namespace {

struct Asked {
  std::string kind, clock;
  int rank = 0, step = 0;
  double share = 0;
};

Asked parse(const std::string& text) {
  std::istringstream words(text);
  Asked asked;
  std::string word;
  std::getline(words, asked.kind, ':');
  std::getline(words, word, ':');
  asked.rank = std::stoi(word);
  std::getline(words, word, ':');
  asked.step = std::stoi(word);
  std::getline(words, word, ':');
  asked.share = std::stod(word);
  std::getline(words, asked.clock);
  return asked;
}

std::atomic<bool> callback_fails{false};

void note_time(const Asked& asked) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::ofstream(asked.clock) << std::setprecision(17) << std::chrono::duration<double>(now).count();
}

/// Fails at once, or at the next call of what throws.
void act(const Asked& asked) {
  note_time(asked);
  if (asked.kind == "kill") std::raise(SIGKILL);
  if (asked.kind == "exit") _exit(3);
  (asked.kind == "residual" ? host_residual_fails : callback_fails) = true;
}

#ifdef TOPOGRAD_WITH_VULKAN
using namespace runtime;

void fail_device(const Asked& asked) {
  constexpr std::int32_t kOutOfDeviceMemory = -2, kDeviceLost = -4;
  const std::span<const vulkan::FallibleCall> calls = vulkan::fallible_calls();
  const auto submit = std::ranges::find(calls, "vkQueueSubmit", &vulkan::FallibleCall::name);
  const bool lost = asked.kind == "device_lost";
  note_time(asked);
  vulkan::inject_fault({.call = static_cast<std::size_t>(submit - calls.begin()),
                        .use = static_cast<std::uint64_t>(asked.share),
                        .result = lost ? kDeviceLost : kOutOfDeviceMemory,
                        .persistent = lost});
}

void inject_device_failure(const Asked& asked, SolverOptions& options) {
  vulkan::watch_driver();
  options.callback = [asked](const IterationSummary& step) {
    if (step.iteration == asked.step) fail_device(asked);
    return CallbackReturn::SOLVER_CONTINUE;
  };
}
#else
void inject_device_failure(const Asked&, SolverOptions&) {
  throw std::runtime_error("there are no devices in this build");
}
#endif

[[noreturn]] void throw_kind(const Asked& asked) {
  note_time(asked);
  if (asked.kind == "memory") throw std::bad_alloc();
  if (asked.kind == "lost") throw Error(ErrorCode::DeviceLost, "the device is lost");
  throw std::runtime_error("the callback has failed");
}

}  // namespace

void inject_failure(const std::string& text, const distributed::Communicator& ranks,
                    SolverOptions& options) {
  const Asked asked = parse(text);
  if (asked.rank >= 0 && asked.rank != ranks.rank()) return;
  if (asked.kind.starts_with("device_")) return inject_device_failure(asked, options);
  options.callback = [asked](const IterationSummary& step) {
    if (step.iteration == asked.step) {
      const std::chrono::duration<double> delay(asked.share * step.iteration_time_in_seconds);
      std::thread([asked, delay] {
        std::this_thread::sleep_for(delay);
        act(asked);
      }).detach();
    }
    if (callback_fails) throw_kind(asked);
    return CallbackReturn::SOLVER_CONTINUE;
  };
}

}  // namespace topograd::test
