// Fractions of the copy bandwidth.
#include "bench_times.hpp"

#include "../../../../ir/error.hpp"
#include "../../../../solver/interrupts.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace topograd::command {
namespace {

constexpr std::array<std::string_view, 11> kNames = {
    "residual", "cost", "jacobian", "gradient",   "cost_gradient",   "values",
    "jtjp",     "hvp",  "step100",  "evaluation", "fresh_evaluation"};

void check_names(const std::vector<std::string>& only) {
  for (const std::string& name : only) {
    if (std::ranges::find(kNames, name) != kNames.end()) continue;
    std::string names;
    for (const std::string_view known : kNames)
      names += (names.empty() ? "" : ", ") + std::string(known);
    throw Error(ErrorCode::InvalidArgument,
                "bench: expected --only to name some of " + names + ", got \"" + name + "\"");
  }
}

}  // namespace

nlohmann::ordered_json share_of_copy(double bytes, double microseconds, double bytes_per_second) {
  if (microseconds <= 0 || bytes_per_second <= 0) return nullptr;
  return bytes / (microseconds * 1e-6) / bytes_per_second;
}

BenchTimes::BenchTimes(double copy_rate, runtime::Traffic traffic, int samples,
                       std::vector<std::string> only)
    : copy_rate_(copy_rate),
      traffic_(std::move(traffic)),
      samples_(samples),
      only_(std::move(only)),
      times_(nlohmann::ordered_json::object()),
      shares_(nlohmann::ordered_json::object()) {
  check_names(only_);
}

bool BenchTimes::wants(const std::string& name) const {
  if (Interrupts::came()) return false;
  return only_.empty() || std::ranges::find(only_, name) != only_.end();
}

void BenchTimes::add(const std::string& name, const runtime::Timing& timing, std::uint64_t bytes) {
  times_[name + "_us"] = timing.device_us;
  times_[name + "_wall_us"] = timing.wall_us;
  times_[name + "_bytes"] = bytes;
  shares_[name] = share_of_copy(static_cast<double>(bytes), timing.device_us, copy_rate_);
  times_[name + "_share_of_copy"] = shares_[name];
}

void BenchTimes::write(nlohmann::ordered_json& report) const {
  report.update(times_);
  report["copy_gb_s"] = copy_rate_ * 1e-9;
  report["share_of_copy"] = shares_;
}

}  // namespace topograd::command
