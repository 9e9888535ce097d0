// Reports of a solve as text.
#include "summary.hpp"

#include "../ir/machine/formatted.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace topograd {
namespace {

using platform::formatted;

constexpr std::size_t kMostChoices = 12;  // of a plan record, in the report

unsigned long long wide(std::uint64_t value) { return value; }

std::string row(const char* label, const std::string& value) {
  return formatted("%-28s %22s\n", label, value.c_str());
}
std::string row(const char* label, std::uint64_t value) {
  return row(label, formatted("%llu", wide(value)));
}
std::string seconds(const char* label, double value) {
  return row(label, formatted("%.6f", value));
}

// Long expressions are described up to this many.
constexpr std::size_t kMostLongExpressions = 4;

std::string unread_part(const Summary& s) {
  if (s.unread_blocks.empty()) return {};
  std::string out = row("Blocks that nothing reads", s.unread_blocks.size());
  for (const std::string& name : s.unread_names) out += "  " + name + "\n";
  if (s.unread_blocks.size() > s.unread_names.size())
    out += formatted("  and %llu more\n", wide(s.unread_blocks.size() - s.unread_names.size()));
  return out;
}

std::string long_part(const Summary& s) {
  std::string out;
  for (std::size_t k = 0; k < std::min(s.long_expressions.size(), kMostLongExpressions); ++k) {
    const LongExpression& e = s.long_expressions[k];
    out += formatted("  %s: %llu rows, %llu operations, %llu unknowns, %llu kB\n", e.label.c_str(),
                     wide(e.rows), wide(e.operations), wide(e.unknowns),
                     wide((e.bytes + e.work_bytes) / 1000));
    out += "    " + text(e) + "\n";
  }
  if (s.long_expressions.size() > kMostLongExpressions)
    out += formatted("  and %llu more\n", wide(s.long_expressions.size() - kMostLongExpressions));
  return out;
}

std::string shared_part(const Summary& s) {
  std::string out;
  for (std::size_t k = 0; k < std::min(s.shared_values.size(), kMostLongExpressions); ++k) {
    const SharedValues& of = s.shared_values[k];
    out += "  " + (of.label.empty() ? "residual" : of.label) + ": " + text(of) + "\n";
  }
  if (s.shared_values.size() > kMostLongExpressions)
    out += formatted("  and %llu more\n", wide(s.shared_values.size() - kMostLongExpressions));
  return out;
}

std::string problem_part(const Summary& s) {
  std::string out =
      row("Parameters", s.parameters) + row("Unknowns", s.unknowns) + row("Residuals", s.residuals);
  if (s.left_out > 0) out += row("Residuals with weight 0", s.left_out);
  if (s.energies == 0) out += row("Degrees of freedom", s.degrees_of_freedom());
  if (s.energies > 0) out += row("Energies", s.energies);
  out += row("Topologies", s.topologies.size());
  if (s.host_residuals > 0) out += row("Residual blocks on the host", s.host_residuals);
  out += long_part(s) + shared_part(s);
  for (const TopologySummary& t : s.topologies) {
    out += formatted("  %s  %-20s %12llu x %u\n", t.hash.c_str(), t.name.c_str(), wide(t.instances),
                     t.outputs);
  }
  return out + unread_part(s);
}

/// What `automatic` expected of the linear solvers that it compared, beside what was measured.
std::string prediction_part(const Summary& s) {
  if (s.expected_cholesky_seconds <= 0 || s.expected_pcg_seconds <= 0) return {};
  return formatted("  seconds in a step: %.2g expected by cholesky, %.2g by pcg; %.2g measured\n",
                   s.expected_cholesky_seconds, s.expected_pcg_seconds, s.linear_seconds_of_step());
}

std::string backend_part(const Summary& s) {
  std::string out = row("Backend", s.backend) + row("Device", s.device) +
                    formatted("  why: %s\n", s.why.c_str()) +
                    row("Precision", std::string(codegen::name(s.precision)) +
                                         (s.emulated_float64 ? ", emulated float64" : "")) +
                    row("Method", std::string(name(s.method)));
  if (!s.method_note.empty()) out += formatted("  why: %s\n", s.method_note.c_str());
  out += row("Linear solver", std::string(linear_solver_name(s)));
  if (!s.linear_solver_note.empty()) out += formatted("  why: %s\n", s.linear_solver_note.c_str());
  out += prediction_part(s);
  const LinearForm form = form_of(s.linear_solver);
  if (form == LinearForm::factor && !takes_energies(step_method(s))) {
    out += row("Factor", std::string(name(s.factor)));
    if (!s.factor_note.empty()) out += formatted("  why: %s\n", s.factor_note.c_str());
    if (s.factor_bytes > 0) {
      out += row("Device memory of factor", s.factor_bytes) +
             row("  predicted by its plan", s.predicted_factor_bytes);
    }
  }
  if (form == LinearForm::products && !takes_energies(step_method(s))) {
    out += row("Preconditioner", std::string(name(s.preconditioner)));
    if (!s.preconditioner_note.empty())
      out += formatted("  why: %s\n", s.preconditioner_note.c_str());
    out += row("Normal matrix", std::string(name(s.normal_matrix)));
    if (!s.normal_matrix_note.empty())
      out += formatted("  why: %s\n", s.normal_matrix_note.c_str());
  }
  if (!s.accumulation.empty()) out += row("Accumulation", s.accumulation);
  return out;
}

std::string component_part(const Summary& s) {
  const ComponentsSummary& c = s.components;
  if (c.why.empty()) return {};
  std::string out = row("Components", std::string(c.separate ? "separate" : "together")) +
                    formatted("  why: %s\n", c.why.c_str());
  if (!c.separate) return out;
  out += row("  of them", static_cast<std::uint64_t>(c.count)) +
         row("  structures", static_cast<std::uint64_t>(c.groups));
  for (const auto& end : rows_of(Termination{})) {
    const auto count = static_cast<std::uint64_t>(std::ranges::count(c.termination, end.value));
    if (count > 0) out += row(("  " + std::string(end.name)).c_str(), count);
  }
  return out;
}

std::string cost_part(const Summary& s) {
  std::string out = "\nCost:\n" + row("Initial", formatted("%.10e", s.initial_cost)) +
                    row("Final", formatted("%.10e", s.final_cost)) +
                    row("Change", formatted("%.10e", s.initial_cost - s.final_cost));
  if (!std::isnan(s.optimality)) out += row("Optimality", formatted("%.3e", s.optimality));
  out += "\nSteps:\n" + row("Successful", static_cast<std::uint64_t>(s.num_successful_steps)) +
         row("Unsuccessful", static_cast<std::uint64_t>(s.num_unsuccessful_steps));
  if (s.num_nonfinite_steps > 0) {
    out += row("  with a non-finite cost", static_cast<std::uint64_t>(s.num_nonfinite_steps));
  }
  if (s.num_repeated_steps > 0) {
    out +=
        row("  made again: lost with a device", static_cast<std::uint64_t>(s.num_repeated_steps));
  }
  if (s.num_escapes > 0) {
    out += row("  from a saddle or kink", static_cast<std::uint64_t>(s.num_escapes));
  }
  out += row("Linear iterations", static_cast<std::uint64_t>(s.num_linear_iterations));
  if (s.resumed_step >= 0)
    out += row("Resumed after step", static_cast<std::uint64_t>(s.resumed_step));
  if (!s.checkpoint_note.empty()) out += "Checkpoints: " + s.checkpoint_note + "\n";
  if (!s.checkpoint_warning.empty()) out += "  warning: " + s.checkpoint_warning + "\n";
  if (s.num_flips > 0) {
    out += row("Branches that flipped", s.num_flips) + row("  traced again", s.num_retraces);
  }
  return out;
}

std::string constraint_part(const Summary& s) {
  const ConstrainedSummary& c = s.constrained;
  if (c.outer_iterations == 0 && c.constraints.empty()) return {};
  std::string out = "\nConstraints:\n" +
                    row("Rows", static_cast<std::uint64_t>(c.multipliers.size())) +
                    row("Outer iterations", static_cast<std::uint64_t>(c.outer_iterations)) +
                    row("Penalty", formatted("%.3e", c.penalty)) +
                    (c.barrier > 0 ? row("Barrier", formatted("%.3e", c.barrier)) : "") +
                    row("Largest violation", formatted("%.3e", c.kkt.feasibility)) +
                    row("Gradient of the Lagrangian", formatted("%.3e", c.kkt.stationarity)) +
                    row("Complementarity", formatted("%.3e", c.kkt.complementarity));
  if (!c.infeasible.empty()) out += "  not met: " + c.infeasible + "\n";
  std::size_t shown = 0;
  for (const ConstraintSummary& one : c.constraints) {
    if (++shown > kMostChoices) {
      out += formatted("  and %llu more labels\n", wide(c.constraints.size() - kMostChoices));
      break;
    }
    out += formatted(
        "  %-20s %-10s %8llu rows  %8llu active  %-10s  violation %.1e  multiplier %.6g\n",
        one.label.c_str(), kind_name(one).data(), wide(one.rows), wide(one.active),
        name(one.outcome).data(), one.violation, one.largest_multiplier);
  }
  return out;
}

std::string plan_part(const Summary& s) {
  if (s.plan.empty() || !s.on_device) return {};  // the interpreter chooses nothing
  std::string out = "\nPlan (workgroups of " + std::to_string(s.plan.workgroup_size) + "):\n";
  std::size_t shown = 0;
  for (const runtime::PlanChoice& made : s.plan.batches) {
    if (++shown > kMostChoices) {
      out += formatted("  and %llu more\n", wide(s.plan.batches.size() - kMostChoices));
      break;
    }
    out += "  " + made.text() + "\n";
  }
  return out;
}

/// Times of the kernels that took longest to make, in milliseconds.
std::string kernel_part(const Summary& s) {
  std::vector<runtime::KernelFigures> made = s.plan.kernels;
  std::erase_if(made, [](const runtime::KernelFigures& k) { return k.making_ms() <= 0; });
  if (made.empty()) return {};
  const std::size_t shown = std::min(made.size(), kMostChoices);
  const auto slower = [](const auto& a, const auto& b) { return a.making_ms() > b.making_ms(); };
  std::ranges::partial_sort(made, made.begin() + static_cast<std::ptrdiff_t>(shown), slower);
  std::string out = "\nKernels (ms):                      GLSL     SPIR-V   pipeline\n";
  for (const runtime::KernelFigures& one : std::span(made).first(shown)) {
    out += formatted("  %-28s %9.2f  %9.2f  %9.2f  %s\n", one.name.c_str(), one.glsl_ms,
                     one.spirv_ms, one.pipeline_ms, one.origin.c_str());
  }
  if (made.size() > shown) out += formatted("  and %llu more\n", wide(made.size() - shown));
  return out;
}

std::string time_part(const Summary& s) {
  const PhaseTimes& t = s.times;
  std::string out = "\nTime (in seconds):\n";
  if (t.build_seconds > 0) out += seconds("Build", t.build_seconds);
  if (t.device_search_seconds > 0) out += seconds("Look for devices", t.device_search_seconds);
  out += seconds("Plan", t.plan_seconds);
  if (s.on_device || t.compile_wall_ms > 0) {
    out += seconds("Compile", t.compile_wall_ms * 1e-3) +
           seconds("Compile: GLSL", t.glsl_ms * 1e-3) +
           seconds("Compile: SPIR-V", t.spirv_ms * 1e-3) +
           seconds("Compile: pipelines", t.pipeline_ms * 1e-3);
  }
  return out + seconds("Evaluation", t.evaluation_seconds) +
         seconds("Linear solver", t.linear_solver_seconds) + seconds("Total", t.total_seconds);
}

std::string counter_part(const Summary& s) {
  std::string out = "\nCounters:\n" + row("Kernels on CPU", s.kernels_on_cpu) +
                    row("Kernels on device", s.kernels_on_device);
  if (s.on_device) {
    out += row("Submissions", s.submissions) + row("Read-backs", s.readbacks) +
           row("Bytes up", s.bytes_up) + row("Bytes down", s.bytes_down) +
           row("Shaders compiled", s.shaders_compiled) +
           row("Shader cache hits", s.shader_cache_hits);
  }
  return out;
}

}  // namespace

static_assert(sizeof(PhaseTimes) == sizeof(runtime::MakingTimes) + 5 * sizeof(double));

PhaseTimes& PhaseTimes::operator+=(const PhaseTimes& more) {
  MakingTimes::operator+=(more);
  build_seconds += more.build_seconds;
  device_search_seconds += more.device_search_seconds;
  evaluation_seconds += more.evaluation_seconds;
  linear_solver_seconds += more.linear_solver_seconds;
  total_seconds += more.total_seconds;
  return *this;
}

void Summary::add(const runtime::EngineStats& stats) {
  EngineCounts::operator+=(stats);
  static_cast<runtime::MakingTimes&>(times) += stats;
}

void add_counts(Summary& total, const Summary& more) {
  total.num_successful_steps += more.num_successful_steps;
  total.num_unsuccessful_steps += more.num_unsuccessful_steps;
  total.num_nonfinite_steps += more.num_nonfinite_steps;
  total.num_repeated_steps += more.num_repeated_steps;
  total.num_escapes += more.num_escapes;
  total.num_linear_iterations += more.num_linear_iterations;
  total.num_flips += more.num_flips;
  total.num_retraces += more.num_retraces;
  total.times += more.times;
  static_cast<runtime::EngineCounts&>(total) += more;
}

std::uint64_t Summary::degrees_of_freedom() const {
  std::uint64_t rows = residuals - left_out;
  for (const ConstraintSummary& one : constrained.constraints)
    rows += one.active - std::min(one.active, one.redundant);
  return rows - std::min(rows, read_unknowns);
}

std::string Summary::brief_report() const {
  return formatted(
      "Topograd report: iterations: %d, initial cost: %e, final cost: %e, backend: %s, "
      "termination: %s",
      num_iterations(), initial_cost, final_cost, backend.c_str(), name(termination).data());
}

namespace {

std::string cross_check_part(const CrossCheck& c) {
  if (c.compared == 0) return "";
  std::string text = formatted("\nCross-check: %llu outputs compared, %llu differences\n",
                               static_cast<unsigned long long>(c.compared),
                               static_cast<unsigned long long>(c.differences));
  for (const std::string& message : c.messages) text += "  " + message + "\n";
  return text;
}

}  // namespace

std::string Summary::full_report() const {
  return "Topograd solver report\n\n" + problem_part(*this) + "\n" + backend_part(*this) +
         component_part(*this) + cost_part(*this) + constraint_part(*this) + plan_part(*this) +
         time_part(*this) + kernel_part(*this) + counter_part(*this) +
         cross_check_part(cross_check) + (profile.measured ? "\n" + profile_table(*this) : "") +
         "\nTermination: " + formatted("%32s (%s)\n", name(termination).data(), message.c_str()) +
         (advice == Advice::none ? "" : "Advice: " + std::string(text(advice)) + "\n");
}

double explained_share(const Summary& summary) {
  double us = 0;
  for (const runtime::KernelTime& one : summary.kernels)
    if (one.work != runtime::TimedWork::rest) us += one.us;
  return summary.profile.step_us > 0 ? us / summary.profile.step_us : 0;
}

std::string profile_table(const Summary& summary) {
  const ProfileSummary& profile = summary.profile;
  if (!profile.measured) return {};
  std::string out = formatted("Profile of the steps: %.6f s, %.1f %% of it named below\n",
                              profile.step_us * 1e-6, 100 * explained_share(summary));
  if (profile.copy_rate > 0)
    out += formatted("  a copy: %.4g GB/s, read and written\n", profile.copy_rate * 1e-9);
  if (!profile.note.empty()) out += "  " + profile.note + "\n";
  out += formatted("  %-44s %-6s %9s %13s %11s %7s %8s %7s %13s\n", "kernel or pass", "on", "calls",
                   "us", "longest us", "share", "GB/s", "of copy", "predicted us");
  for (const runtime::KernelTime& one : summary.kernels) {
    const double rate = one.us > 0 ? static_cast<double>(one.bytes) / (one.us * 1e-6) : 0;
    const bool moves = one.bytes > 0 && rate > 0;
    out += formatted("  %-44s %-6s %9llu %13.1f %11.1f %5.1f %% %8s %7s %13s\n", one.name.c_str(),
                     name(one.work).data(), wide(one.calls), one.us, one.longest_us,
                     profile.step_us > 0 ? 100 * one.us / profile.step_us : 0,
                     moves ? formatted("%.4g", rate * 1e-9).c_str() : "-",
                     moves && profile.copy_rate > 0
                         ? formatted("%.0f %%", 100 * rate / profile.copy_rate).c_str()
                         : "-",
                     one.predicted_us > 0 ? formatted("%.1f", one.predicted_us).c_str() : "-");
  }
  return out;
}

std::string_view linear_solver_name(const Summary& summary) {
  const bool by_gradients =
      takes_energies(step_method(summary)) && step_method(summary) != Method::newton;
  return by_gradients ? "none" : name(summary.linear_solver);
}

std::string history_table(const Summary& summary) {
  std::string out =
      "iter      cost      cost_change  |gradient|   |step|    tr_ratio  tr_radius  ls_iter  "
      "iter_time  total_time\n";
  for (const IterationSummary& i : summary.iterations) {
    out += formatted("%4d  %12.6e  %10.2e  %10.2e  %9.2e  %9.2e  %9.2e  %7d  %9.2e  %10.2e%s\n",
                     i.iteration, i.cost, i.cost_change, i.gradient_max_norm, i.step_norm,
                     i.relative_decrease, i.trust_region_radius, i.linear_iterations,
                     i.iteration_time_in_seconds, i.cumulative_time_in_seconds,
                     i.step_is_successful ? "" : "  rejected");
  }
  return out;
}

}  // namespace topograd
