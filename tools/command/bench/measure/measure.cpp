// Medians of times, the rate of copying, memory by use, and counters of energy.
#include "measure.hpp"

#include "../../../../ir/error.hpp"
#include "../../../../ir/machine/platform.hpp"
#include "../../../../solver/interrupts.hpp"
#include "../../../../solver/session/device_engine.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

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

namespace {

/// Bytes of the batches' columns: indices, data, and row numbers.
runtime::MemoryUse columns_of(const runtime::Model& model) {
  runtime::MemoryUse use{"columns of the problem", 0, 0};
  for (const runtime::Term& term : model.terms) use.host += term.batch->bytes();
  return use;
}

std::vector<runtime::MemoryUse> uses_of(NamedProblem& named, const runtime::Model& model,
                                        runtime::Engine& engine) {
  const runtime::MemoryUse columns = columns_of(model);
  const problems::TriangleMesh mesh = named.mesh();
  std::vector<runtime::MemoryUse> uses = {
      {"the caller's unknowns", model.scalars * sizeof(double), 0},
      {"the mesh",
       mesh.positions.size() * sizeof(double) + mesh.triangles.size() * sizeof(mesh.triangles[0]),
       0},
      columns,
      {"the rest of the problem", named.problem().bytes() - columns.host, 0},
      {"the point and flags of this command",
       model.scalars * sizeof(double) + model.constant.capacity(), 0}};
  for (runtime::MemoryUse& use : engine.abilities().measurements->memory())
    uses.push_back(std::move(use));
  std::erase_if(uses, [](const runtime::MemoryUse& use) { return use.host + use.device == 0; });
  return uses;
}

}  // namespace

MemoryMeter::MemoryMeter(const SolverOptions& options) : before_(platform::heap_bytes()) {
  if (options.backend != Backend::vulkan) return;
  try {
    opened_ = make_device_rows({.device = options.device});
  } catch (const Error&) {
    return;  // the engine reports the error
  }
  driver_ = platform::heap_bytes() - before_;
}

nlohmann::ordered_json MemoryMeter::report(NamedProblem& named, const runtime::Model& model,
                                           runtime::Engine& engine) const {
  // Read before the lists below allocate memory themselves.
  const std::uint64_t now = platform::heap_bytes();
  nlohmann::ordered_json memory = nlohmann::ordered_json::array();
  std::uint64_t host = 0, device = 0;
  std::vector<runtime::MemoryUse> uses = uses_of(named, model, engine);
  if (driver_ > 0) uses.push_back({"the driver, as it is opened", driver_, 0});
  for (const runtime::MemoryUse& use : uses) {
    memory.push_back({{"use", use.use}, {"host", use.host}, {"device", use.device}});
    host += use.host;
    device += use.device;
  }
  nlohmann::ordered_json report;
  report["host_bytes"] = now > before_ ? now - before_ : 0;
  report["host_bytes_explained"] = host;
  report["device_bytes"] = engine.stats().device_bytes;
  report["device_bytes_explained"] = device;
  report["memory"] = std::move(memory);
  return report;
}

namespace {

constexpr int kMostPackages = 8;

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

std::string package_folder(int package) {
  return "/sys/class/powercap/intel-rapl:" + std::to_string(package) + "/";
}

/// NVML's functions under their C names.
struct Nvml {
  platform::SharedLibrary library{"libnvidia-ml.so.1"};
  void* card = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;

  Nvml() {
    if (!library.ok()) return;
    const auto init = reinterpret_cast<int (*)()>(library.symbol("nvmlInit_v2"));
    const auto find = reinterpret_cast<int (*)(unsigned, void**)>(
        library.symbol("nvmlDeviceGetHandleByIndex_v2"));
    if (init == nullptr || find == nullptr || init() != 0 || find(0, &card) != 0) return;
    energy = reinterpret_cast<int (*)(void*, unsigned long long*)>(
        library.symbol("nvmlDeviceGetTotalEnergyConsumption"));
  }
};

std::optional<std::uint64_t> card_millijoules() {
  static const Nvml kNvml;
  unsigned long long number = 0;
  if (kNvml.energy == nullptr || kNvml.energy(kNvml.card, &number) != 0) return std::nullopt;
  return number;
}

}  // namespace

EnergyMeter::EnergyMeter() : card_(card_millijoules()) {
  for (int k = 0; k < kMostPackages; ++k)
    packages_.push_back(read_number(package_folder(k) + "energy_uj"));
}

EnergyMeter::Joules EnergyMeter::used() const {
  Joules out;
  for (int k = 0; k < kMostPackages; ++k) {
    const auto before = packages_[static_cast<std::size_t>(k)];
    const auto now = read_number(package_folder(k) + "energy_uj");
    if (!before || !now) continue;
    const std::uint64_t range = read_number(package_folder(k) + "max_energy_range_uj").value_or(0);
    const std::uint64_t spent = *now >= *before ? *now - *before : *now + range - *before;
    out.cpu = out.cpu.value_or(0) + static_cast<double>(spent) * 1e-6;
  }
  const auto card = card_millijoules();
  if (card_ && card) out.device = static_cast<double>(*card - *card_) * 1e-3;
  return out;
}

}  // namespace topograd::command
