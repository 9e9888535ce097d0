// Names of options, their ranges, and the defaults of the process.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/options.hpp"
#include "../../support/manual.hpp"

#include <functional>
#include <limits>

namespace topograd {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Options, NamesAreReadBack) {
  const struct {
    const char* text;
    Backend backend;
  } rows[] = {{"automatic", Backend::automatic},
              {"auto", Backend::automatic},
              {"cpu", Backend::cpu},
              {"vulkan", Backend::vulkan},
              {"gpu", Backend::vulkan}};
  for (const auto& row : rows) EXPECT_EQ(parse_backend(row.text), row.backend) << row.text;
  for (const Backend b : {Backend::automatic, Backend::cpu, Backend::vulkan}) {
    EXPECT_EQ(parse_backend(name(b)), b);
  }
  for (const Method m : {Method::levenberg_marquardt, Method::gauss_newton}) {
    EXPECT_EQ(parse_method(name(m)), m);
  }
  for (const LinearSolver s :
       {LinearSolver::automatic, LinearSolver::pcg, LinearSolver::cholesky}) {
    EXPECT_EQ(parse_linear_solver(name(s)), s);
  }
  for (const Precision p : {Precision::f32, Precision::f64}) {
    EXPECT_EQ(parse_precision(codegen::name(p)), p);
  }
}

TEST(Options, UnknownNamesListTheKnown) {
  EXPECT_EQ(message_of([] { parse_backend("cuda"); }),
            "unknown backend \"cuda\"; expected one of automatic, cpu, vulkan, auto, gpu");
  EXPECT_EQ(message_of([] { parse_precision("f16"); }),
            "unknown precision \"f16\"; expected one of f32, f64");
}

TEST(Options, PreconditionersAreTheTable) {
  std::string names = "automatic";
  std::string table =
      "| value | preconditioner |\n|---|---|\n"
      "| `automatic` (default) | block-Jacobi until its iterations have cost as many products as "
      "the coarse matrix takes, then two-level |\n";
  for (const runtime::PreconditionerRow& row : runtime::kPreconditioners) {
    EXPECT_EQ(parse_preconditioner(row.name), row.kind);
    EXPECT_EQ(name(row.kind), row.name);
    names += ", " + std::string(row.name);
    table += "| `" + std::string(row.name) + "` | " + std::string(row.meaning) + " |\n";
  }
  EXPECT_EQ(message_of([] { parse_preconditioner("ilu"); }),
            "unknown preconditioner \"ilu\"; expected one of " + names);
  test::expect_table("docs/methods.md", "preconditioners", table);
}

TEST(Options, RangesAreChecked) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    SolverOptions options;
    const char* message;
  } rows[] = {
      {{.max_iterations = -1}, "options: max_iterations must be a finite number >= 0, got -1"},
      {{.time_limit_seconds = 0}, "options: time_limit_seconds must be a finite number > 0, got 0"},
      {{.function_tolerance = nan},
       "options: function_tolerance must be a finite number >= 0, got nan"},
      {{.initial_trust_region_radius = -2},
       "options: initial_trust_region_radius must be a finite number > 0, got -2"},
      {{.min_relative_decrease = 1}, "options: min_relative_decrease must be in [0, 1), got 1"},
      {{.linear_tolerance = 0}, "options: linear_tolerance must be in (0, 1), got 0"},
      {{.max_linear_iterations = 0},
       "options: max_linear_iterations must be a finite number >= 1, got 0"},
      {{.threads = -4}, "options: threads must be a finite number >= 0, got -4"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(message_of([&] { resolved(row.options); }), row.message);
  }
}

TEST(Options, ProcessDefaultsFillWhatIsEmpty) {
  const ProcessDefaults before = process_defaults();
  set_process_defaults(
      {.backend = Backend::cpu, .fallback_threshold = 7, .max_instances_per_dispatch = 9});
  const SolverOptions filled = resolved({});
  EXPECT_EQ(filled.backend, Backend::cpu);
  EXPECT_EQ(filled.fallback_threshold, 7u);
  EXPECT_EQ(filled.max_instances_per_dispatch, 9u);
  const SolverOptions given = resolved(
      {.backend = Backend::vulkan, .fallback_threshold = 1, .max_instances_per_dispatch = 2});
  EXPECT_EQ(given.backend, Backend::vulkan);
  EXPECT_EQ(given.fallback_threshold, 1u);
  EXPECT_EQ(given.max_instances_per_dispatch, 2u);
  set_process_defaults(before);
}

}  // namespace
}  // namespace topograd
