// topograd check compile: pipelines of all kinds of kernels on a device's compiler, without a run.
#include "checks.hpp"

#include "../arguments/output.hpp"
#include "../input/named_problem.hpp"

#include "../../../api/source.hpp"
#include "../../../ir/error.hpp"
#include "../../check/pipelines.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace topograd::command {
namespace {

using check::Float64;
using check::Precision;
using nlohmann::ordered_json;

constexpr const char* kKernels[] = {"residual", "cost",   "gradient", "jacobian",
                                    "jtjp",     "blocks", "hessian",  "hvp"};
constexpr double kSlowMs = 1000;

struct CompileArguments {
  std::vector<std::string> only;
  std::string json;
  check::CompileOptions options;
};

/// A small instance of a named problem: kernels do not depend on the number of residuals.
std::unique_ptr<NamedProblem> small(const ProblemKind& kind) {
  ProblemArguments arguments;
  arguments.name = kind.name;
  arguments.set = kind.set;
  arguments.width = 4;
  if (kind.needs_mesh) arguments.icosphere = 1;
  arguments.bundle.cameras = 3;
  arguments.bundle.points = 10;
  arguments.bundle.observations = 30;
  return make_problem(arguments);
}

/// Kernels of a problem; a kind that it cannot have is left out.
void add_kernels(const Problem& problem, const std::string& name,
                 std::vector<check::CatalogueKernel>& out) {
  for (const char* kernel : kKernels) {
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      std::vector<NamedSource> made;
      try {
        made = sources(problem, {.kernel = kernel, .precision = precision});
      } catch (const Error&) {
        continue;  // energies have no residuals
      }
      for (const NamedSource& source : made) {
        out.push_back({name + " " + kernel, source.name, source.text, precision, Float64::native});
        if (precision == Precision::f32) continue;
        out.push_back(out.back());
        out.back().float64 = Float64::emulated;
      }
    }
  }
}

/// Names of groups: solver, ops, and problems.
bool is_wanted(const CompileArguments& arguments, const std::string& group) {
  return arguments.only.empty() || std::ranges::find(arguments.only, group) != arguments.only.end();
}

void check_names(const std::vector<std::string>& only) {
  std::string known = "solver, ops";
  for (const ProblemKind& kind : problem_kinds()) {
    if (known.find(kind.name) == std::string::npos) known += ", " + std::string(kind.name);
  }
  for (const std::string& name : only) {
    const bool is_problem = std::ranges::any_of(
        problem_kinds(), [&](const ProblemKind& kind) { return kind.name == name; });
    if (name != "solver" && name != "ops" && !is_problem)
      throw Error(ErrorCode::InvalidArgument,
                  "check compile: expected one of " + known + ", got \"" + name + "\"");
  }
}

std::vector<check::CatalogueKernel> catalogue(const CompileArguments& arguments) {
  check_names(arguments.only);
  std::vector<check::CatalogueKernel> out;
  for (const ProblemKind& kind : problem_kinds()) {
    if (!is_wanted(arguments, kind.name)) continue;
    add_kernels(small(kind)->problem(), kind.set.empty() ? kind.name : kind.set, out);
  }
  for (check::CatalogueKernel& kernel : check::kernel_catalogue())
    if (is_wanted(arguments, kernel.group == "solver" ? "solver" : "ops"))
      out.push_back(std::move(kernel));
  return out;
}

std::string precision_of(const check::CompiledKernel& kernel) {
  const bool emulated = kernel.float64 == Float64::emulated;
  return std::string(name(kernel.precision)) + (emulated ? " emulated" : "");
}

struct Row {
  std::uint64_t kernels = 0, failures = 0, skipped = 0, spilling = 0, slow = 0;
  double registers = 0, code_bytes = 0, shared_bytes = 0, milliseconds = 0;

  void add(const check::CompiledKernel& kernel) {
    ++kernels;
    failures += kernel.problem.empty() ? 0 : 1;
    skipped += kernel.skipped ? 1 : 0;
    spilling += kernel.spills() > 0 ? 1 : 0;
    slow += kernel.pipeline_ms > kSlowMs ? 1 : 0;
    registers = std::max(registers, kernel.registers());
    code_bytes = std::max(code_bytes, kernel.code_bytes());
    shared_bytes = std::max(shared_bytes, kernel.shared_bytes());
    milliseconds = std::max(milliseconds, kernel.pipeline_ms);
  }
};

/// Largest figures by problem, or ops or solver, and precision.
std::string table(const check::CompileReport& found) {
  std::map<std::string, Row> rows;
  for (const check::CompiledKernel& kernel : found.kernels) {
    const std::string first = kernel.group.substr(0, kernel.group.find(' '));
    rows[first + ", " + precision_of(kernel)].add(kernel);
  }
  std::string text =
      "kernels                            count  failed  skipped  spilling  over 1 s   largest: "
      "registers  shared B     code B        ms\n";
  char line[200];
  for (const auto& [what, row] : rows) {
    std::snprintf(
        line, sizeof line,
        "%-33s %6llu  %6llu  %7llu  %8llu  %8llu            %9.0f  %8.0f  %9.0f  %8.1f\n",
        what.c_str(), static_cast<unsigned long long>(row.kernels),
        static_cast<unsigned long long>(row.failures), static_cast<unsigned long long>(row.skipped),
        static_cast<unsigned long long>(row.spilling), static_cast<unsigned long long>(row.slow),
        row.registers, row.shared_bytes, row.code_bytes, row.milliseconds);
    text += line;
  }
  return text;
}

ordered_json describe(const check::CompiledKernel& kernel) {
  ordered_json json = {{"group", kernel.group},
                       {"name", kernel.name},
                       {"precision", name(kernel.precision)},
                       {"float64", name(kernel.float64)},
                       {"spirv_words", kernel.words},
                       {"skipped", kernel.skipped},
                       {"problem", kernel.problem},
                       {"pipeline_ms", kernel.pipeline_ms},
                       {"registers", kernel.registers()},
                       {"spills", kernel.spills()},
                       {"shared_bytes", kernel.shared_bytes()},
                       {"code_bytes", kernel.code_bytes()},
                       {"figures", ordered_json::object()}};
  for (const auto& figure : kernel.figures) json["figures"][figure.name] = figure.value;
  return json;
}

void run_compile(const CompileArguments& arguments) {
  const check::CompileReport found = check::check_compile(catalogue(arguments), arguments.options);
  ordered_json report = {{"check", "compile"},
                         {"broken", found.failures > 0},
                         {"device", found.device},
                         {"driver", found.driver},
                         {"native_float64", found.native_float64},
                         {"failures", found.failures},
                         {"skipped", found.skipped},
                         {"kernels", ordered_json::array()}};
  std::string text = found.device + ", " + found.driver + "\n" + table(found);
  for (const check::CompiledKernel& kernel : found.kernels) {
    report["kernels"].push_back(describe(kernel));
    const std::string who = kernel.group + ", " + kernel.name + ", " + precision_of(kernel);
    char figures[100];
    std::snprintf(figures, sizeof figures, ": %.0f spills, %.0f B of code, %.0f ms\n",
                  kernel.spills(), kernel.code_bytes(), kernel.pipeline_ms);
    if (!kernel.problem.empty()) text += "FAILED " + who + ": " + kernel.problem + "\n";
    if (kernel.spills() > 0 || kernel.pipeline_ms > kSlowMs) text += who + figures;
  }
  text += std::to_string(found.kernels.size()) + " kernels, " + std::to_string(found.failures) +
          " failures, " + std::to_string(found.skipped) + " skipped\n";
  finish_check(arguments.json, text, report);
}

}  // namespace

void add_check_compile(Command check) {
  auto arguments = std::make_shared<CompileArguments>();
  Command command = check.subcommand(
      "compile", "Pipelines of all kinds of kernels on a device's compiler; nothing runs");
  std::vector<std::string> groups = {"solver", "ops"};
  for (const ProblemKind& kind : problem_kinds())
    if (std::ranges::find(groups, kind.name) == groups.end()) groups.push_back(kind.name);
  command.option("kernels", &arguments->only, "solver, ops, or problems; otherwise all")
      .choices(groups);
  command.option("--device", &arguments->options.device, "index or name of a Vulkan device");
  command.option("--most-words", &arguments->options.most_words,
                 "kernels with more words of SPIR-V are skipped");
  command.option("--most-emulated", &arguments->options.most_emulated,
                 "the same for those with emulated float64");
  command.output("--json", &arguments->json, "file for the report, - for standard output");
  command.callback(noting_signals([arguments] { run_compile(*arguments); }));
}

}  // namespace topograd::command
