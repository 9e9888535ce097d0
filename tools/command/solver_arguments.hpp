// Options of the command that become SolverOptions.
#pragma once

#include "command/output.hpp"

#include <topograd/solver/options.hpp>
#include <topograd/solver/plan_json.hpp>

#include <topograd/ir/error.hpp>

#include <CLI/CLI.hpp>

#include <charconv>

#include <memory>
#include <optional>
#include <string>

namespace topograd::command {

/// Text of the options as given; to_options() reads it.
struct SolverArguments {
  std::string domain, cross_check;
  std::string backend, precision, method, linear, preconditioner, forcing, accumulate, device;
  std::string plan, plan_out;
  bool deterministic = false;
  std::optional<int> max_iterations, max_linear_iterations, threads;
  std::optional<double> tolerance, time_limit;
};

/// Options of every subcommand that evaluates: backend, precision, device, accumulation, threads.
inline void add_place_options(CLI::App& app, SolverArguments& a) {
  app.add_option("--backend", a.backend, "cpu, vulkan (gpu) or automatic (auto)");
  app.add_option("--precision", a.precision, "f32, f64 or mixed");
  app.add_option("--device", a.device, "index or name of a Vulkan device");
  app.add_option("--accumulate", a.accumulate,
                 "gather_store, gather_recompute, atomic_float or atomic_cas");
  app.add_option("--threads", a.threads, "of the CPU backend; 0 = all");
  app.add_flag("--deterministic", a.deterministic,
               "choices from rules alone, and one place from the start");
  app.add_option("--plan", a.plan, "file with a plan record, whose choices are taken");
  app.add_option("--plan-out", a.plan_out, "file for the plan record, - for standard output");
}

inline void add_solve_options(CLI::App& app, SolverArguments& a) {
  app.add_option("--max-iterations", a.max_iterations, "accepted and rejected steps (100)");
  app.add_option("--max-linear-iterations", a.max_linear_iterations, "of CG in one step");
  app.add_option("--forcing", a.forcing,
                 "how exactly CG solves: constant, eisenstat_walker (as the gradient falls)");
  app.add_option("--tolerance", a.tolerance, "function, gradient and parameter tolerance at once");
  app.add_option("--time-limit", a.time_limit, "seconds");
  app.add_option("--domain", a.domain, "mathematical, guarded or strict");
  app.add_option(
      "--cross-check", a.cross_check,
      "instances of each topology to compare with the CPU at each accepted point, or all");
  app.add_option(
      "--method", a.method,
      "automatic (lm, or lbfgs where there are energies), lm, gn, dogleg, lbfgs, newton, "
      "adam, adamw or sgd");
  app.add_option("--linear", a.linear, "automatic, pcg, cholesky, schur or dense");
  app.add_option("--preconditioner", a.preconditioner,
                 "of pcg: automatic, block_jacobi or two_level");
}

/// A number of instances, or "all". Throws Error{InvalidArgument}.
inline std::uint64_t parse_cross_check(const std::string& text) {
  if (text == "all") return kCrossCheckAll;
  std::uint64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code == std::errc() && end == text.data() + text.size()) return count;
  throw Error(ErrorCode::InvalidArgument,
              "expected --cross-check all or a number of instances, got \"" + text + "\"");
}

/// `options` with what was given in their place. Throws Error{InvalidArgument} for text that is
/// none of the names.
inline SolverOptions to_options(const SolverArguments& a, SolverOptions options = {}) {
  if (!a.backend.empty()) options.backend = parse_backend(a.backend);
  if (!a.precision.empty()) options.precision = parse_solve_precision(a.precision);
  if (!a.device.empty()) options.device = a.device;
  if (!a.accumulate.empty()) options.accumulation = codegen::parse_accumulation(a.accumulate);
  if (a.deterministic) options.deterministic = true;
  if (!a.plan.empty())
    options.plan = std::make_shared<const runtime::PlanRecord>(parse_plan(read_text(a.plan)));
  if (!a.domain.empty()) options.domain = parse_domain_policy(a.domain);
  if (!a.cross_check.empty()) options.cross_check = parse_cross_check(a.cross_check);
  if (!a.method.empty()) options.method = parse_method(a.method);
  if (!a.linear.empty()) options.linear_solver = parse_linear_solver(a.linear);
  if (!a.preconditioner.empty()) options.preconditioner = parse_preconditioner(a.preconditioner);
  if (a.max_iterations) options.max_iterations = *a.max_iterations;
  if (a.max_linear_iterations) options.max_linear_iterations = *a.max_linear_iterations;
  if (!a.forcing.empty()) options.forcing_sequence = parse_forcing_sequence(a.forcing);
  if (a.threads) options.threads = *a.threads;
  if (a.time_limit) options.time_limit_seconds = *a.time_limit;
  if (a.tolerance) {
    options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance =
        *a.tolerance;
  }
  return options;
}

}  // namespace topograd::command
