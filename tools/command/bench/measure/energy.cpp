// RAPL by sysfs, and NVML if its library is installed.
#include "energy.hpp"

#include "../../../../ir/machine/platform.hpp"

#include <fstream>

namespace topograd::command {
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
