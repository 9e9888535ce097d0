// Plans injections, runs them in child processes, and counts the results.
#include "faults.hpp"

#include "../../../ir/error.hpp"
#include "../../../ir/machine/platform.hpp"
#include "../../../solver/interrupts.hpp"
#include "fault_child.hpp"
#include "folder.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <utility>

namespace topograd::check {
namespace {

namespace vulkan = runtime::vulkan;

constexpr double kSilentSeconds = 120;     // of a child, whose waits are bounded
constexpr std::size_t kInBatch = 200;      // injections per process
constexpr std::size_t kInShortBatch = 10;  // if time is short
constexpr std::size_t kShown = 40;

/// The check in the parent process, which never opens a device.
class FaultsCheck {
 public:
  explicit FaultsCheck(const FaultOptions& options)
      : options_(options), cache_(folder_.path() / "cache") {
    for (const Backend backend : {Backend::automatic, Backend::vulkan}) {
      if (options.backend && *options.backend != backend) continue;
      for (const NamedWork& work : fault_works()) scenarios_.push_back({&work, backend});
    }
  }

  FaultReport run() {
    uses_.resize(scenarios_.size());
    const auto end =
        child([&](const Tell& tell) { explore_uses(scenarios_, options_.device, tell); });
    if (error_) throw *error_;
    if (!end.well()) fail(report_.crashed, "without failures", describe(end));
    plan();
    const auto begin = std::chrono::steady_clock::now();
    const auto late = [&] {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      return Interrupts::came() || (options_.seconds > 0 && spent.count() > options_.seconds);
    };
    for (std::size_t next = 0; next < plan_.size() && !late();) next = batch(next);
    const bool automatic = !options_.backend || *options_.backend == Backend::automatic;
    for (const bool persistent : {false, true}) {
      if (!automatic || Interrupts::came()) break;
      const auto lost = child([&](const Tell& tell) {
        lose_device(options_.device, report_.precision, persistent, tell);
      });
      if (!lost.well()) fail(report_.crashed, "a solve whose device is lost", describe(lost));
    }
    return std::move(report_);
  }

 private:
  platform::ChildEnd child(const std::function<void(const Tell&)>& work) {
    return platform::run_child(
        [&](const Tell& tell) {
          prepare_fault_child(cache_.string());
          work(tell);
        },
        [&](const std::string& line) { hear(line); }, kSilentSeconds);
  }

  static std::string describe(const platform::ChildEnd& end) {
    if (!end.started) return "no process";
    if (end.silent) return "hung";
    if (end.signal != 0) return "killed by signal " + std::to_string(end.signal);
    return "ended with status " + std::to_string(end.status);
  }

  void fail(std::uint64_t& count, const std::string& what, const std::string& text) {
    ++count;
    if (report_.failures.size() < kShown) report_.failures.push_back(what + ": " + text);
  }

  void plan() {
    const auto calls = vulkan::fallible_calls();
    for (std::size_t s = 0; s < scenarios_.size(); ++s) {
      scenarios_[s].precision = report_.precision;
      for (std::size_t call = 0; call < uses_[s].size(); ++call) {
        if (scenarios_[s].work->only_memory) {
          if (calls[call].name == "vkAllocateMemory")
            plan_memory(scenarios_[s], call, uses_[s][call]);
          continue;
        }
        for (const std::uint64_t use : chosen(uses_[s][call])) {
          for (const std::int32_t result : calls[call].results) {
            for (const bool persistent : {false, true})
              plan_.push_back({scenarios_[s], {call, use, result, persistent}});
          }
        }
      }
    }
    report_.planned = plan_.size();
    if (options_.seconds > 0) std::ranges::shuffle(plan_, std::mt19937_64(1));
  }

  /// The device's memory ends at each allocation.
  void plan_memory(const Scenario& scenario, std::size_t call, std::uint64_t uses) {
    constexpr std::int32_t kOutOfDeviceMemory = -2;  // VK_ERROR_OUT_OF_DEVICE_MEMORY
    for (std::uint64_t use = 0; use < uses; ++use)
      plan_.push_back({scenario, {call, use, kOutOfDeviceMemory, true}});
  }

  std::set<std::uint64_t> chosen(std::uint64_t uses) const {
    std::set<std::uint64_t> out;
    if (options_.full) {
      for (std::uint64_t use = 0; use < uses; ++use) out.insert(use);
    } else if (uses > 0) {
      out = {0, uses / 2, uses - 1};
    }
    return out;
  }

  /// Runs injections from `first` on; returns the next one. A process that crashes has run the
  /// injection that it had begun.
  std::size_t batch(std::size_t first) {
    const std::size_t most = options_.seconds > 0 ? kInShortBatch : kInBatch;
    const std::size_t size = std::min(most, plan_.size() - first);
    const auto part = std::span<const Injection>(plan_).subspan(first, size);
    running_.reset();
    next_ = first;
    const auto end =
        child([&](const Tell& tell) { run_injections(part, first, options_.device, tell); });
    if (!end.well()) {
      const std::size_t at = running_.value_or(next_ > first ? next_ - 1 : first);
      const std::string what = running_ ? "" : "at the end of a process, after ";
      fail(report_.crashed, what + plan_[at].name(), describe(end));
      if (running_) {
        ++report_.injections;
        next_ = *running_ + 1;
      } else if (next_ == first) {
        next_ = first + 1;  // the process did not begin the injection
      }
    }
    return next_;
  }

  void hear(const std::string& line) {
    std::istringstream in(line);
    std::string head;
    in >> head;
    if (head == kBegin) {
      std::size_t number = 0;
      in >> number;
      running_ = number;
    } else if (head == kEnd) {
      hear_end(in);
    } else if (head == kUses) {
      std::size_t scenario = 0;
      in >> scenario;
      for (std::uint64_t uses = 0; in >> uses;) uses_.at(scenario).push_back(uses);
    } else if (head == kDevice) {
      std::string precision;
      std::getline(in >> precision >> std::ws, report_.device);
      report_.precision = parse_precision(precision);
    } else if (head == kError) {
      int code = 0;
      std::string text;
      std::getline(in >> code >> std::ws, text);
      error_ = Error(static_cast<ErrorCode>(code), "check faults: " + text);
    } else if (head == kLost) {
      hear_lost(in);
    }
  }

  void hear_end(std::istringstream& in) {
    std::size_t number = 0;
    int outcome = 0;
    bool leaked = false, miscounted = false;
    std::uint64_t fallbacks = 0;
    std::string text;
    std::getline(in >> number >> outcome >> leaked >> miscounted >> fallbacks >> std::ws, text);
    running_.reset();
    next_ = number + 1;
    const Injection& injection = plan_.at(number);
    if (static_cast<Outcome>(outcome) == Outcome::not_reached) {
      ++report_.not_reached;
      return;
    }
    ++report_.injections;
    ++report_.calls[std::string(vulkan::fallible_calls()[injection.fault.call].name)];
    report_.fallbacks += fallbacks;
    switch (static_cast<Outcome>(outcome)) {
      case Outcome::right: ++report_.right_answers; break;
      case Outcome::typed: ++report_.typed_errors; break;
      case Outcome::wrong:
      case Outcome::not_reached: fail(report_.wrong, injection.name(), text);
    }
    if (leaked) fail(report_.leaked, injection.name(), text);
    if (miscounted) fail(report_.miscounted, injection.name(), text);
  }

  void hear_lost(std::istringstream& in) {
    LostSolve solve;
    std::string text;
    std::getline(in >> solve.steps >> solve.steps_on_device >> solve.repeated_steps >>
                     solve.right >> std::ws,
                 text);
    report_.lost.push_back(solve);
    if (!solve.right && report_.failures.size() < kShown)
      report_.failures.push_back("a solve whose device is lost: " + text);
  }

  FaultOptions options_;
  Folder folder_{"faults"};
  std::filesystem::path cache_;
  std::vector<Scenario> scenarios_;
  std::vector<std::vector<std::uint64_t>> uses_;  // by scenario and call
  std::vector<Injection> plan_;
  std::optional<std::size_t> running_;  // begun but not ended
  std::size_t next_ = 0;
  std::optional<Error> error_;
  FaultReport report_;
};

}  // namespace

bool FaultReport::broken() const {
  return (injections == 0 && note.empty()) || wrong + crashed + leaked + miscounted > 0 ||
         std::ranges::any_of(lost, [](const LostSolve& solve) { return !solve.right; });
}

FaultReport check_faults(const FaultOptions& options) {
  options.validate();
  if (options.backend == Backend::cpu) return {.note = kNoDriver};
  // A forked process cannot use the threads and locks of drivers.
  if (vulkan::has_opened_driver())
    throw Error(ErrorCode::Unsupported,
                "check faults: expected a process that has not used Vulkan, which can be copied");
  return FaultsCheck(options).run();
}

}  // namespace topograd::check
