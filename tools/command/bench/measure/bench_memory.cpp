// Sums up the memory that the problem and the engine report.
#include "bench_memory.hpp"

#include "../../../../ir/error.hpp"
#include "../../../../ir/machine/platform.hpp"
#include "../../../../solver/session/device_engine.hpp"

#include <nlohmann/json.hpp>

#include <vector>

namespace topograd::command {
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

}  // namespace topograd::command
