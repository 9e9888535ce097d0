// Parses SolverOptions, expressions and losses from the command line.
#include "shared_arguments.hpp"

#include <charconv>
#include <memory>
#include <string_view>
#include <vector>

#include "../../../frontend/loss.hpp"
#include "../../../ir/error.hpp"
#include "../../../runtime/plan/record/plan_record.hpp"
#include "../../../solver/option_table.hpp"
#include "output.hpp"

namespace topograd::command {
namespace {

/// Sets a field by "NAME=VALUE". Throws Error{InvalidArgument}.
void set_by_name(SolverOptions& options, const std::string& text) {
  const std::size_t equals = text.find('=');
  const SolverOption* const option = find_option(std::string_view(text).substr(0, equals));
  if (option == nullptr || equals == std::string::npos) {
    std::string names;
    for (const SolverOption& known : option_table())
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    throw Error(ErrorCode::InvalidArgument, "expected --option NAME=VALUE with one of the names " +
                                                names + ", got \"" + text + "\"");
  }
  set(*option, options, value_of(*option, std::string_view(text).substr(equals + 1)));
}

void set_cross_check(SolverOptions& options, const std::string& text) {
  try {
    set_by_name(options, "cross_check=" + text);
  } catch (const Error&) {
    throw Error(ErrorCode::InvalidArgument,
                "expected --cross-check all or a number of instances, got \"" + text + "\"");
  }
}

/// Adds an option with the names of an enum, and the default of SolverOptions.
template <class E>
void add_choice(Command app, const char* option, std::string& text, const char* help, E initial) {
  app.option(option, &text, help).choices(names_of<E>()).shown_default(std::string(name(initial)));
}

/// Sets a field to the value of this name; leaves it if the option is not given.
template <class E>
void set_named(E& field, std::string_view what, const std::string& text) {
  if (!text.empty()) field = parse_enum<E>(what, text);
}

[[noreturn]] void refuse(const std::string& text) {
  std::string known = "trivial";
  for (const LossRow& row : kLosses)
    known += ", " + std::string(row.name) + (number_count(row) == 1 ? ":A" : ":A,B");
  throw Error(ErrorCode::InvalidArgument,
              "--loss: expected one of " + known + ", got \"" + text + "\"");
}

std::vector<double> numbers(std::string_view list, const std::string& text) {
  std::vector<double> out;
  while (true) {
    const std::string_view word = list.substr(0, list.find(','));
    double value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size()) refuse(text);
    out.push_back(value);
    if (word.size() == list.size()) return out;
    list.remove_prefix(word.size() + 1);
  }
}

}  // namespace

ir::Program parse_expression(const ExpressionArguments& arguments) {
  try {
    return parse(arguments.text, arguments.names);
  } catch (const Error& error) {
    const std::string message = error.what();
    throw Error(error.code(), message.substr(0, message.find('\n')));
  }
}

void add_backend_options(Command app, SolverArguments& a) {
  const SolverOptions defaults;
  app.group("Where it runs");
  add_choice(app, "--backend", a.backend, "where kernels run", defaults.backend);
  add_choice(app, "--precision", a.precision,
             "floating-point numbers of kernels; mixed is for solves", defaults.precision);
  app.option("--device", &a.device, "index or name of a Vulkan device");
  add_choice(app, "--float64", a.float64,
             "f64 of the device: emulated takes integers, with the same bits; automatic does so "
             "where it has none",
             defaults.float64);
  app.option("--accumulate", &a.accumulate,
             "how gradients are summed on a device; if not given, by the faster gather")
      .choices(names_of<codegen::Accumulation>());
  app.option("--threads", &a.threads, "threads of the CPU backend; 0, the default, takes all");
  app.flag("--deterministic", a.deterministic,
           "make every choice from rules, without measuring, for the same bits in every run");
  add_choice(
      app, "--bits", a.bits,
      "portable: the same bits on every machine, with sums on the CPU; see topograd check repeat "
      "--portable",
      defaults.bits);
  app.option("--plan", &a.plan, "file with a plan record whose choices are used");
  app.output("--plan-out", &a.plan_out, "file for the plan record, - for standard output");
}

void add_method_options(Command app, SolverArguments& a) {
  const SolverOptions defaults;
  app.group("The method");
  add_choice(app, "--method", a.method,
             "how steps are found, also lm, gn and al; automatic is lm, lbfgs with energies, or al "
             "with constraints",
             defaults.method);
  add_choice(app, "--linear", a.linear, "linear solver", defaults.linear_solver);
  add_choice(app, "--factor", a.factor, "where cholesky factorises", defaults.factor);
  add_choice(app, "--preconditioner", a.preconditioner, "preconditioner of pcg",
             defaults.preconditioner);
  add_choice(app, "--normal-matrix", a.normal_matrix, "how pcg multiplies by JᵀJ on a device",
             defaults.normal_matrix);
  add_choice(app, "--forcing", a.forcing, "how exactly CG solves", defaults.forcing_sequence);
  add_choice(app, "--components", a.components,
             "what happens to parts of the problem that share no unknown", defaults.components);
  add_choice(app, "--domain", a.domain, "what happens to operands outside of domains",
             defaults.domain);
}

void add_limit_options(Command app, SolverArguments& a) {
  app.group("Limits and tolerances");
  app.option("--max-iterations", &a.max_iterations,
             "accepted and rejected steps; a problem file may have another default")
      .shown_default("100");
  app.option("--max-linear-iterations", &a.max_linear_iterations, "iterations of CG in one step");
  app.option("--tolerance", &a.tolerance, "function, gradient and parameter tolerance at once");
  app.option("--time-limit", &a.time_limit, "seconds; if not given, no limit");
  app.option("--option", &a.options,
             "any field of SolverOptions as NAME=VALUE, such as max_lbfgs_rank=5; may be repeated");
}

void add_solve_options(Command app, SolverArguments& a) {
  add_method_options(app, a);
  app.option("--cross-check", &a.cross_check,
             "instances of each topology to compare with the CPU at each accepted point, or all");
  add_limit_options(app, a);
}

void add_checkpoint_options(Command app, SolverArguments& a) {
  app.group("Checkpoints");
  app.output(
      "--checkpoint", &a.checkpoint,
      "file for the state of the solve, replaced as a whole during the solve and at its end");
  app.option("--checkpoint-every", &a.checkpoint_every,
             "least number of seconds between two checkpoints; 0: after each accepted step")
      .shown_default("60");
  app.option("--resume", &a.resume,
             "checkpoint of the same problem and options from which to continue");
}

SolverOptions to_options(const SolverArguments& a, SolverOptions options) {
  warn_of_fallbacks();
  set_named(options.backend, "backend", a.backend);
  set_named(options.precision, "precision", a.precision);
  if (!a.device.empty()) options.device = a.device;
  set_named(options.float64, "float64", a.float64);
  if (!a.accumulate.empty()) options.accumulation = codegen::parse_accumulation(a.accumulate);
  if (a.deterministic) options.deterministic = true;
  set_named(options.bits, "bits", a.bits);
  if (a.profile) options.profile = true;
  if (!a.plan.empty())
    options.plan =
        std::make_shared<const runtime::PlanRecord>(runtime::parse_plan(read_text(a.plan)));
  set_named(options.domain, "domain", a.domain);
  if (!a.cross_check.empty()) set_cross_check(options, a.cross_check);
  set_named(options.method, "method", a.method);
  set_named(options.linear_solver, "linear solver", a.linear);
  set_named(options.factor, "factor", a.factor);
  set_named(options.preconditioner, "preconditioner", a.preconditioner);
  set_named(options.normal_matrix, "normal matrix", a.normal_matrix);
  if (a.max_iterations) options.max_iterations = *a.max_iterations;
  if (a.max_linear_iterations) options.max_linear_iterations = *a.max_linear_iterations;
  set_named(options.forcing_sequence, "forcing sequence", a.forcing);
  set_named(options.components, "components", a.components);
  if (a.threads) options.threads = *a.threads;
  if (a.time_limit) options.time_limit_seconds = *a.time_limit;
  if (a.checkpoint_every && a.checkpoint.empty())
    throw Error(ErrorCode::InvalidArgument, "--checkpoint-every expects --checkpoint FILE");
  options.checkpoint.file = a.checkpoint;
  if (a.checkpoint_every) options.checkpoint.every_seconds = *a.checkpoint_every;
  if (!a.resume.empty()) options.resume = input_file(a.resume, "--checkpoint");
  if (a.tolerance) {
    options.function_tolerance = options.gradient_tolerance = options.parameter_tolerance =
        *a.tolerance;
  }
  for (const std::string& text : a.options) set_by_name(options, text);
  return options;
}

Loss parse_loss(const std::string& text) {
  if (text.empty() || text == "trivial") return {};
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) refuse(text);
  const std::string_view name = std::string_view(text).substr(0, colon);
  const std::vector<double> given = numbers(std::string_view(text).substr(colon + 1), text);
  const LossRow* const loss = find_loss(name);
  if (loss == nullptr || given.size() != number_count(*loss)) refuse(text);
  return make_loss(*loss, given);
}

}  // namespace topograd::command
