// Reading of SolverOptions from the command line.
#include "command/solver_arguments.hpp"

#include "command/output.hpp"
#include "command/telemetry.hpp"

#include <topograd/ir/error.hpp>
#include <topograd/runtime/plan_json.hpp>

#include <charconv>
#include <memory>

namespace topograd::command {
namespace {

/// A number of instances, or "all". Throws Error{InvalidArgument}.
std::uint64_t parse_cross_check(const std::string& text) {
  if (text == "all") return kCrossCheckAll;
  std::uint64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code == std::errc() && end == text.data() + text.size()) return count;
  throw Error(ErrorCode::InvalidArgument,
              "expected --cross-check all or a number of instances, got \"" + text + "\"");
}

}  // namespace

void add_place_options(Command app, SolverArguments& a) {
  app.group("Where it runs");
  app.option("--backend", &a.backend, "default: automatic").choices({"cpu", "vulkan", "automatic"});
  app.option("--precision", &a.precision, "default: f64").choices({"f32", "f64", "mixed"});
  app.option("--device", &a.device, "index or name of a Vulkan device");
  app.option("--accumulate", &a.accumulate, "how gradients are summed; default: the faster gather")
      .choices({"gather_store", "gather_recompute", "atomic_float", "atomic_cas"});
  app.option("--threads", &a.threads, "threads of the CPU backend; 0, the default, takes all");
  app.flag("--deterministic", a.deterministic,
           "make every choice from rules, without measuring, for the same bits in every run");
  app.option("--plan", &a.plan, "file with a plan record whose choices are used");
  app.output("--plan-out", &a.plan_out, "file for the plan record, - for standard output");
}

void add_solve_options(Command app, SolverArguments& a) {
  app.group("The method");
  app.option("--method", &a.method, "default: automatic, lm or with energies lbfgs")
      .choices({"automatic", "lm", "gn", "dogleg", "lbfgs", "newton", "adam", "adamw", "sgd"});
  app.option("--linear", &a.linear, "linear solver; default: automatic")
      .choices({"automatic", "pcg", "cholesky", "schur", "dense"});
  app.option("--preconditioner", &a.preconditioner, "of pcg; default: automatic")
      .choices({"automatic", "block_jacobi", "two_level"});
  app.option("--normal-matrix", &a.normal_matrix, "of pcg on a device; default: automatic")
      .choices({"automatic", "matrix_free", "assembled"});
  app.option("--forcing", &a.forcing, "how exactly CG solves; default: automatic")
      .choices({"automatic", "constant", "eisenstat_walker"});
  app.option("--domain", &a.domain, "what operands outside of domains do; default: mathematical")
      .choices({"mathematical", "guarded", "strict"});
  app.option("--cross-check", &a.cross_check,
             "instances of each topology to compare with the CPU at each accepted point, or all");
  app.group("Limits and tolerances");
  app.option("--max-iterations", &a.max_iterations,
             "accepted and rejected steps; default: 100, and what a problem file says");
  app.option("--max-linear-iterations", &a.max_linear_iterations, "of CG in one step");
  app.option("--tolerance", &a.tolerance, "function, gradient and parameter tolerance at once");
  app.option("--time-limit", &a.time_limit, "seconds; default: none");
}

SolverOptions to_options(const SolverArguments& a, SolverOptions options) {
  warn_of_fallbacks();
  if (!a.backend.empty()) options.backend = parse_backend(a.backend);
  if (!a.precision.empty()) options.precision = parse_solve_precision(a.precision);
  if (!a.device.empty()) options.device = a.device;
  if (!a.accumulate.empty()) options.accumulation = codegen::parse_accumulation(a.accumulate);
  if (a.deterministic) options.deterministic = true;
  if (!a.plan.empty())
    options.plan =
        std::make_shared<const runtime::PlanRecord>(runtime::parse_plan(read_text(a.plan)));
  if (!a.domain.empty()) options.domain = parse_domain_policy(a.domain);
  if (!a.cross_check.empty()) options.cross_check = parse_cross_check(a.cross_check);
  if (!a.method.empty()) options.method = parse_method(a.method);
  if (!a.linear.empty()) options.linear_solver = parse_linear_solver(a.linear);
  if (!a.preconditioner.empty()) options.preconditioner = parse_preconditioner(a.preconditioner);
  if (!a.normal_matrix.empty()) options.normal_matrix = parse_normal_matrix(a.normal_matrix);
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
