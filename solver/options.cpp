// Names of options, their ranges, and the defaults of the process.
#include "options.hpp"

#include "../ir/error.hpp"
#include "../ir/machine/platform.hpp"

#include <charconv>
#include <cmath>
#include <locale>
#include <mutex>
#include <sstream>

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

void check(bool ok, const char* field, const char* range, double value) {
  if (ok) return;
  std::ostringstream message;
  message.imbue(std::locale::classic());
  message << "options: " << field << " must be " << range << ", got " << value;
  throw Error(ErrorCode::InvalidArgument, message.str());
}

void check_at_least(const char* field, double value, double least) {
  const std::string range = "a finite number >= " + std::to_string(static_cast<int>(least));
  check(std::isfinite(value) && value >= least, field, range.c_str(), value);
}

void check_positive(const char* field, double value) {
  check(std::isfinite(value) && value > 0, field, "a finite number > 0", value);
}

void check_share(const char* field, double value) {
  check(value >= 0 && value < 1, field, "in [0, 1)", value);
}

void check_descent(const SolverOptions& o) {
  const LineSearchOptions& s = o.line_search;
  check(s.sufficient_decrease > 0 && s.sufficient_decrease < 1, "line_search.sufficient_decrease",
        "in (0, 1)", s.sufficient_decrease);
  check(s.sufficient_curvature_decrease > s.sufficient_decrease &&
            s.sufficient_curvature_decrease < 1,
        "line_search.sufficient_curvature_decrease", "in (sufficient_decrease, 1)",
        s.sufficient_curvature_decrease);
  check(std::isfinite(s.max_expansion) && s.max_expansion > 1, "line_search.max_expansion",
        "a finite number > 1", s.max_expansion);
  check_at_least("line_search.min_step_size", s.min_step_size, 0);
  check_at_least("line_search.max_evaluations", s.max_evaluations, 1);
  check_at_least("max_lbfgs_rank", o.max_lbfgs_rank, 1);
  check_at_least("max_escapes", o.max_escapes, 0);
  check_positive("first_order.learning_rate", o.first_order.learning_rate);
  check_share("first_order.beta1", o.first_order.beta1);
  check_share("first_order.beta2", o.first_order.beta2);
  check_positive("first_order.epsilon", o.first_order.epsilon);
  check_at_least("first_order.weight_decay", o.first_order.weight_decay, 0);
  check_share("first_order.momentum", o.first_order.momentum);
}

void check_ranges(const SolverOptions& o) {
  check_at_least("max_iterations", o.max_iterations, 0);
  check_positive("time_limit_seconds", o.time_limit_seconds);
  check_at_least("function_tolerance", o.function_tolerance, 0);
  check_at_least("gradient_tolerance", o.gradient_tolerance, 0);
  check_at_least("parameter_tolerance", o.parameter_tolerance, 0);
  check_at_least("absolute_gradient_tolerance", o.absolute_gradient_tolerance, 0);
  check_positive("constraint_tolerance", o.constraint_tolerance);
  check_positive("kkt_tolerance", o.kkt_tolerance);
  check_at_least("initial_penalty", o.initial_penalty, 0);
  check_at_least("initial_barrier", o.initial_barrier, 0);
  check_at_least("max_outer_iterations", o.max_outer_iterations, 1);
  check_positive("initial_trust_region_radius", o.initial_trust_region_radius);
  check_positive("min_trust_region_radius", o.min_trust_region_radius);
  check(o.max_trust_region_radius >= o.min_trust_region_radius, "max_trust_region_radius",
        ">= min_trust_region_radius", o.max_trust_region_radius);
  check(o.min_relative_decrease >= 0 && o.min_relative_decrease < 1, "min_relative_decrease",
        "in [0, 1)", o.min_relative_decrease);
  check_at_least("min_lm_diagonal", o.min_lm_diagonal, 0);
  check(o.max_lm_diagonal >= o.min_lm_diagonal, "max_lm_diagonal", ">= min_lm_diagonal",
        o.max_lm_diagonal);
  check_at_least("max_consecutive_nonmonotonic_steps", o.max_consecutive_nonmonotonic_steps, 1);
  check_at_least("max_consecutive_invalid_steps", o.max_consecutive_invalid_steps, 0);
  check(o.linear_tolerance > 0 && o.linear_tolerance < 1, "linear_tolerance", "in (0, 1)",
        o.linear_tolerance);
  check(o.eta >= 0 && o.eta < 1, "eta", "in [0, 1)", o.eta);
  check_at_least("max_linear_iterations", o.max_linear_iterations, 1);
  check_at_least("threads", o.threads, 0);
  check(o.domain_epsilon > 0 && o.domain_epsilon < 1, "domain_epsilon", "in (0, 1)",
        o.domain_epsilon);
  check(o.checkpoint.every_seconds >= 0, "checkpoint.every_seconds", ">= 0",
        o.checkpoint.every_seconds);
#ifndef TOPOGRAD_CHOLMOD
  if (o.factor == FactorPlace::cholmod)
    throw Error(ErrorCode::Unsupported,
                "factor cholmod: this build has no CHOLMOD; use factor host, or configure with "
                "-DTOPOGRAD_CHOLMOD=ON");
#endif
  check_descent(o);
}

}  // namespace

Backend parse_backend(std::string_view text) { return parse_enum<Backend>("backend", text); }
Method parse_method(std::string_view text) { return parse_enum<Method>("method", text); }
LinearSolver parse_linear_solver(std::string_view text) {
  return parse_enum<LinearSolver>("linear solver", text);
}
FactorPlace parse_factor_place(std::string_view text) {
  return parse_enum<FactorPlace>("factor", text);
}
Preconditioner parse_preconditioner(std::string_view text) {
  return parse_enum<Preconditioner>("preconditioner", text);
}
NormalMatrix parse_normal_matrix(std::string_view text) {
  return parse_enum<NormalMatrix>("normal matrix", text);
}
ForcingSequence parse_forcing_sequence(std::string_view text) {
  return parse_enum<ForcingSequence>("forcing sequence", text);
}
DoglegType parse_dogleg_type(std::string_view text) {
  return parse_enum<DoglegType>("type of dogleg", text);
}
DomainPolicy parse_domain_policy(std::string_view text) {
  return parse_enum<DomainPolicy>("domain", text);
}
Components parse_components(std::string_view text) {
  return parse_enum<Components>("components", text);
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
  const ProcessDefaults defaults = process_defaults();
  if (options.backend == Backend::automatic) options.backend = defaults.backend;
  if (!options.fallback_threshold) options.fallback_threshold = defaults.fallback_threshold;
  if (!options.max_instances_per_dispatch) {
    options.max_instances_per_dispatch = defaults.max_instances_per_dispatch;
  }
  return options;
}

}  // namespace topograd
