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

void watch_device() { vulkan::watch_driver(); }

void fail_submission(std::uint64_t number, bool lost) {
  constexpr std::int32_t kOutOfDeviceMemory = -2, kDeviceLost = -4;
  const std::span<const vulkan::FallibleCall> calls = vulkan::fallible_calls();
  const auto submit = std::ranges::find(calls, "vkQueueSubmit", &vulkan::FallibleCall::name);
  vulkan::inject_fault({.call = static_cast<std::size_t>(submit - calls.begin()),
                        .use = number,
                        .result = lost ? kDeviceLost : kOutOfDeviceMemory,
                        .persistent = lost});
}

double failed_calls() { return static_cast<double>(vulkan::end_faults()); }

#else
void watch_device() { throw std::runtime_error("there are no devices in this build"); }
void fail_submission(std::uint64_t, bool) {}
double failed_calls() { return 0; }
#endif

bool is_loss(const std::string& kind) { return kind == "device_lost"; }

void inject_device_failure(const Asked& asked, SolverOptions& options) {
  watch_device();
  options.callback = [asked](const IterationSummary& step) {
    if (step.iteration == asked.step) {
      note_time(asked);
      fail_submission(static_cast<std::uint64_t>(asked.share), is_loss(asked.kind));
    }
    return CallbackReturn::SOLVER_CONTINUE;
  };
}

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
      const auto fail = [asked, delay] {
        std::this_thread::sleep_for(delay);
        act(asked);
      };
      if (asked.share == 0) {
        fail();
      } else {
        std::thread(fail).detach();
      }
    }
    if (callback_fails) throw_kind(asked);
    return CallbackReturn::SOLVER_CONTINUE;
  };
}

FailingSubmission FailingSubmission::parse(const std::string& text,
                                           const distributed::Communicator& ranks) {
  FailingSubmission out;
  if (text.empty()) return out;
  std::istringstream words(text);
  std::string kind, word;
  std::getline(words, kind, ':');
  out.lost_ = is_loss(kind);
  std::getline(words, word, ':');
  out.here_ = std::stoi(word) == -1 || std::stoi(word) == ranks.rank();
  std::getline(words, word);
  out.number_ = std::stoull(word);
  if (out.here_) watch_device();
  return out;
}

void FailingSubmission::begin() const {
  if (here_) fail_submission(number_, lost_);
}

double FailingSubmission::end() const { return here_ ? failed_calls() : 0; }

}  // namespace topograd::test
