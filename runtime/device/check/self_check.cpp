// Runs compositions of functions on a device; the result is remembered.
#include "self_check.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "../../../codegen/math/library.hpp"
#include "../../../ir/error.hpp"
#include "../../../ir/machine/foreign_call.hpp"
#include "../../cache/disk_cache.hpp"
#include "../../cpu/tiles/tile_ops.hpp"
#include "../kernels/launch.hpp"
#include "../opened/core.hpp"

namespace topograd::runtime::vulkan {
namespace {

using ir::Op;

constexpr const char* kKind = "self_check";
constexpr std::string_view kPassed = "passed", kFailed = "failed: ";

/// Finds the device for the options without opening it.
DeviceInfo find(const DeviceOptions& options) {
  const std::vector<DeviceInfo> list = devices(options);
  return list.at(choose_device(list, options));
}

/// Hash of the functions that shaders call, of the compositions, and of a software device's target.
Hash128 key_of(const DeviceInfo& info) {
  static const Hash128 kSource = [] {
    Hash128 hash;
    for (const codegen::Precision precision : {Precision::f32, Precision::f64})
      hash = hash_text(codegen::math::library(codegen::math::functions(), precision), hash);
    for (const Composition& composition : self_check_compositions())
      hash = hash_text(text(composition), hash);
    return hash;
  }();
  Hash128 key = hash_text(std::to_string(info.limits.subgroup_size), kSource);
  if (info.software()) key = hash_text(cpu::tile_ops<double>().name, key);
  return key;
}

/// Results of this process, so that repeated calls list no devices.
struct Remembered {
  std::mutex mutex;
  std::vector<std::pair<DeviceOptions, SelfCheck>> results;
};

Remembered& remembered() {
  static Remembered& instance = *new Remembered;
  return instance;
}

std::optional<SelfCheck> find_remembered(const DeviceOptions& options) {
  const std::lock_guard lock(remembered().mutex);
  for (const auto& [known, result] : remembered().results) {
    if (known == options) return result;
  }
  return std::nullopt;
}

void remember(const DeviceOptions& options, const SelfCheck& result) {
  const std::lock_guard lock(remembered().mutex);
  remembered().results.emplace_back(options, SelfCheck{.problem = result.problem});
}

std::optional<SelfCheck> load(const DeviceOptions& options, const DeviceInfo& info) {
  DiskCache disk(disk_cache_options(options, info));
  const auto blob = disk.load(kKind, key_of(info));
  if (!blob) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(blob->data()), blob->size());
  if (text == kPassed) return SelfCheck{};
  if (!text.starts_with(kFailed)) return std::nullopt;
  return SelfCheck{.problem = std::string(text.substr(kFailed.size()))};
}

void store(const DeviceOptions& options, const DeviceInfo& info, const SelfCheck& result) {
  const std::string text =
      result.passed() ? std::string(kPassed) : std::string(kFailed) + result.problem;
  DiskCache(disk_cache_options(options, info))
      .store(kKind, key_of(info), std::as_bytes(std::span(text)));
}

SelfCheck run_on(const std::shared_ptr<Device>& device) {
  CompositionReport report;
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    if (precision == Precision::f64 && !device->features().float64) continue;
    const std::unique_ptr<RowRunner> runner = make_row_runner(device, precision);
    const CheckedRunner checked{runner.get(), keeps_subnormals(*runner)};
    const Rows rows = composition_rows(precision);
    for (const Composition& composition : self_check_compositions()) {
      report.add(check_composition(composition, rows, {&checked, 1}));
      if (report.wrong.empty()) continue;
      return {report.compared,
              std::string(name(precision)) + ", " + report.wrong.front().message()};
    }
  }
  return {.compared = report.compared};
}

}  // namespace

const std::vector<Composition>& self_check_compositions() {
  // Every function that shaders call, inside or outside another one; the first are those that a
  // driver is known to compile wrongly.
  static const auto& all = *new std::vector<Composition>([] {
    std::vector<Composition> out = {
        {Op::Tan, Op::Atan},       {Op::Sin, Op::Erf},    {Op::Cos, Op::Sinh},
        {Op::Asin, Op::Atan},      {Op::Gelu, Op::Erf},   {Op::Softplus, Op::Sinh},
        {Op::Sigmoid, Op::Atan2},  {Op::Tanh, Op::Asinh}, {Op::Cosh, Op::Acosh},
        {Op::Cbrt, Op::Atanh},     {Op::Exp, Op::Log},    {Op::Expm1, Op::Log1p},
        {Op::Exp2, Op::Log2},      {Op::Log10, Op::Pow},  {Op::Acos, Op::Mod},
        {Op::NormalCdf, Op::Hypot}};
    std::set<Op> seen = {Op::Sqrt, Op::Rsqrt};  // exact ones, and a division
    for (const Composition& composition : out) seen.insert(composition.begin(), composition.end());
    for (const ir::OpInfo& op : ir::kOps) {
      const bool rounds = !op.function.empty() && op.ulp_f32 != 0;
      if (rounds && seen.insert(op.op).second) out.push_back({op.op, Op::Atan});
    }
    return out;
  }());
  return all;
}

SelfCheck run_self_check(const DeviceOptions& options) {
  const DeviceOptions full = resolved(options);
  // Not shared with other users of the device, whose counters show their own work. Time limits
  // differ.
  DeviceOptions own = full;
  own.timeout_seconds += 1;
  const std::shared_ptr<Device> device = open(own);
  SelfCheck result = run_on(device);
  store(full, device->info(), result);
  return result;
}

SelfCheck self_check(const DeviceOptions& options) {
  static std::mutex& running = *new std::mutex;
  const DeviceOptions full = resolved(options);
  if (const auto known = find_remembered(full)) return *known;
  const ForeignCall permission("self_check");
  const std::lock_guard lock(running);  // many threads may ask first, and one runs it
  if (const auto known = find_remembered(full)) return *known;
  const auto known = load(full, find(full));
  SelfCheck result = known ? *known : run_self_check(full);
  remember(full, result);
  return result;
}

void remember_self_check(const DeviceOptions& options, const SelfCheck& result) {
  const DeviceOptions full = resolved(options);
  store(full, find(full), result);
  const std::lock_guard lock(remembered().mutex);
  remembered().results.clear();
}

void require_self_check(const DeviceOptions& options) {
  SelfCheck result = self_check(options);
  if (result.passed()) return;
  throw Error(ErrorCode::Unsupported, "device \"" + find(options).name + "\" computes wrongly (" +
                                          result.problem +
                                          "); install another version of its driver");
}

}  // namespace topograd::runtime::vulkan
