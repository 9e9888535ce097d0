// Devices by rank.
#include "rank_device.hpp"

#include "../ir/error.hpp"
#include "../runtime/cpu/engine.hpp"
#include "../runtime/hybrid/backend.hpp"
#include "../solver/session/device_engine.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace topograd::distributed {
namespace {

/// Residuals of a rank, on average, from which on devices are faster than its cores: an iteration
/// of conjugate gradients waits for the device twice.
constexpr std::uint64_t kWorthADevice = std::uint64_t{1} << 18;

std::uint64_t residuals_of(const runtime::Model& part) {
  std::uint64_t count = 0;
  for (const runtime::Term& term : part.terms) count += term.batch->size();
  return count;
}

}  // namespace

RankDevice choose_device(const Communicator& ranks, const SolverOptions& options) {
  RankDevice chosen{.options = options};
  if (options.backend == Backend::cpu) return chosen;
  const bool asked = options.backend == Backend::vulkan;
  const ListedDevices devices = devices_by_uuid(options);
  if (devices.names.empty()) {
    if (!asked) return chosen;
    const DeviceFacts facts = probe_device(options);
    throw Error(facts.code, facts.problem);
  }
  chosen.name = devices.names[static_cast<std::size_t>(ranks.rank_here()) % devices.names.size()];
  chosen.options.device = chosen.name;
  if (asked) {
    chosen.use = RankDevice::Use::device;
  } else if (!devices.software) {
    chosen.use = RankDevice::Use::where_it_pays;
  }
  return chosen;
}

RankEngine make_rank_engine(const Communicator& ranks, const runtime::Model& part,
                            const runtime::EngineOptions& options, runtime::ModelPart& of,
                            const RankDevice& device) {
  using Use = RankDevice::Use;
  const std::uint64_t worth = kWorthADevice * static_cast<std::uint64_t>(ranks.size());
  const bool many = ranks.sum(residuals_of(part)) >= worth;
  RankEngine made;
  std::optional<Error> problem;
  if (device.use == Use::device || (device.use == Use::where_it_pays && many)) {
    runtime::EngineOptions there = options;
    there.device = device.name;
    try {
      require_self_check(device.options);
      made.engine = make_device_engine(part, there);
    } catch (const Error& error) {
      if (!runtime::hybrid::is_device_failure(error.code())) throw;
      problem = error;
      made.problem = error.what();
    }
  }
  made.some_on_devices = ranks.any(made.engine != nullptr);
  const bool some_on_cpus = ranks.any(made.engine == nullptr);
  of.mixed = made.some_on_devices && some_on_cpus;
  if (problem && device.use == Use::device && !made.some_on_devices) throw *problem;
  if (made.engine == nullptr) made.engine = runtime::cpu::make_cpu_engine(part, options);
  return made;
}

}  // namespace topograd::distributed
