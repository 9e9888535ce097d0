// Backends of the self-tests.
#include "check_backends.hpp"

#include "../ir/passes/passes.hpp"
#include "../ir/program.hpp"
#include "../runtime/cpu/interpreter/interpreter.hpp"
#include "../runtime/rows/compositions.hpp"
#include "../solver/session/device_engine.hpp"

#include <algorithm>
#include <array>

namespace topograd::check {
namespace {

CheckedBackend make_checked_backend(std::unique_ptr<runtime::RowRunner> runner,
                                    bool emulates = false) {
  const bool keeps = runtime::keeps_subnormals(*runner);
  const bool wide = runner->precision() == Precision::f64;
  return {std::move(runner), keeps, emulates && wide};
}

}  // namespace

ir::Program single_op(ir::Op op) {
  ir::Graph graph;
  std::array<ir::Id, 3> p{};
  for (std::uint32_t k = 0; k < 3; ++k) p[k] = graph.leaf(ir::Op::Parameter, k);
  const ir::Id y = graph.add(op, p[0], p[1], p[2]);
  return ir::expand(graph.extract(std::array{y}, {.parameters = 3}));
}

std::vector<CheckedBackend> open_backends(const Options& options) {
  std::vector<Precision> precisions = {Precision::f64, Precision::f32};
  if (options.precision) precisions = {*options.precision};
  std::vector<CheckedBackend> backends;
  if (options.backend != Backend::vulkan) {
    for (const Precision precision : precisions)
      backends.push_back(make_checked_backend(runtime::cpu::make_row_runner(precision)));
  }
  if (options.backend == Backend::cpu) return backends;
  const DeviceFacts facts = probe_device({.device = options.device, .float64 = options.float64});
  const bool forced = options.backend == Backend::vulkan;
  if (!facts.available && !forced) return backends;
  for (const Precision precision : precisions) {
    const bool wide = precision == Precision::f64;
    if (wide && !facts.float64 && facts.available && !(forced && options.precision)) continue;
    backends.push_back(make_checked_backend(
        make_device_rows(
            {.precision = precision, .device = options.device, .float64 = options.float64}),
        facts.emulated_float64));
  }
  return backends;
}

std::vector<Precision> precisions_of(std::span<const CheckedBackend> backends) {
  std::vector<Precision> found;
  for (const CheckedBackend& backend : backends) {
    const Precision precision = backend.runner->precision();
    if (std::find(found.begin(), found.end(), precision) == found.end()) found.push_back(precision);
  }
  return found;
}

}  // namespace topograd::check
