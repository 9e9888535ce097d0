// Names of options, their ranges, and the defaults of the process.
#include "options.hpp"

#include "../ir/error.hpp"
#include "../ir/machine/platform.hpp"
#include "option_table.hpp"

#include <charconv>
#include <mutex>

namespace topograd {
namespace {

std::uint64_t environment_count(const char* variable, std::uint64_t fallback) {
  const std::optional<std::string> text = platform::environment(variable);
  if (!text) return fallback;
  std::uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end) {
    throw Error(ErrorCode::InvalidArgument,
                std::string(variable) + ": expected a whole number >= 0, got \"" + *text + "\"");
  }
  return value;
}

ProcessDefaults environment_defaults() {
  ProcessDefaults defaults;
  if (const auto text = platform::environment("TOPOGRAD_BACKEND")) {
    try {
      defaults.backend = parse_backend(*text);
    } catch (const Error& error) {
      throw Error(error.code(), std::string("TOPOGRAD_BACKEND: ") + error.what());
    }
  }
  defaults.fallback_threshold =
      environment_count("TOPOGRAD_FALLBACK_THRESHOLD", defaults.fallback_threshold);
  defaults.max_instances_per_dispatch =
      environment_count("TOPOGRAD_MAX_INSTANCES_PER_DISPATCH", defaults.max_instances_per_dispatch);
  return defaults;
}

std::mutex defaults_mutex;

/// Guarded by defaults_mutex. Never destroyed: other threads may still ask while the process ends.
std::optional<ProcessDefaults>& defaults_in_force() {
  static auto& made = *new std::optional<ProcessDefaults>;
  return made;
}

void check_ranges(const SolverOptions& o) {
  for (const SolverOption& option : option_table()) check_range(option, o);
#ifndef TOPOGRAD_CHOLMOD
  if (o.factor == FactorPlace::cholmod)
    throw Error(ErrorCode::Unsupported,
                "factor cholmod: this build has no CHOLMOD; use factor host, or configure with "
                "-DTOPOGRAD_CHOLMOD=ON");
#endif
}

/// Portable bits need more than functions and factors that have them. Throws Error{Unsupported}.
void make_portable(SolverOptions& o) {
  const auto refuse = [](std::string_view what, std::string_view instead) {
    throw Error(ErrorCode::Unsupported,
                "bits portable: " + std::string(what) + "; use " + std::string(instead));
  };
  if (o.backend == Backend::vulkan && o.precision == Precision::f32)
    refuse("devices may round f32 otherwise", "precision f64 or mixed, or backend cpu");
  if (o.backend == Backend::vulkan && o.components == Components::separate)
    refuse("components on a device have another order", "backend cpu or components together");
  if (o.factor == FactorPlace::device || o.factor == FactorPlace::cholmod)
    refuse("the factor of \"" + std::string(name(o.factor)) + "\" has other bits", "factor host");
  if (o.method == Method::adam || o.method == Method::adamw)
    refuse("the method \"" + std::string(name(o.method)) + "\" uses functions of the machine",
           "lbfgs, newton or sgd");
  if (o.backend == Backend::automatic) o.backend = Backend::cpu;
  o.factor = FactorPlace::host;
  o.deterministic = true;
}

}  // namespace

Backend parse_backend(std::string_view text) { return parse_enum<Backend>("backend", text); }
Method parse_method(std::string_view text) { return parse_enum<Method>("method", text); }
LinearSolver parse_linear_solver(std::string_view text) {
  return parse_enum<LinearSolver>("linear solver", text);
}
Precision parse_solve_precision(std::string_view text) {
  return parse_enum<Precision>("precision", text);
}
Float64 parse_float64(std::string_view text) { return parse_enum<Float64>("float64", text); }
Precision parse_precision(std::string_view text) {
  return parse_row(codegen::kKernelPrecisions, "precision", text);
}

ProcessDefaults process_defaults() {
  const std::lock_guard lock(defaults_mutex);
  if (!defaults_in_force()) defaults_in_force() = environment_defaults();
  return *defaults_in_force();
}

void set_process_defaults(const ProcessDefaults& defaults) {
  const std::lock_guard lock(defaults_mutex);
  defaults_in_force() = defaults;
}

SolverOptions resolved(SolverOptions options) {
  check_ranges(options);
  if (options.bits == Bits::portable) make_portable(options);
  const ProcessDefaults defaults = process_defaults();
  if (options.backend == Backend::automatic) options.backend = defaults.backend;
  if (!options.fallback_threshold) options.fallback_threshold = defaults.fallback_threshold;
  if (!options.max_instances_per_dispatch) {
    options.max_instances_per_dispatch = defaults.max_instances_per_dispatch;
  }
  return options;
}

}  // namespace topograd
