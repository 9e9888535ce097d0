// Names of options, their ranges, and the defaults of the process.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../solver/option_table.hpp"
#include "../../support/golden.hpp"
#include "../../support/manual.hpp"
#include "../../support/paths.hpp"

#include <functional>
#include <limits>
#include <set>
#include <sstream>

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

/// Every name and every other name, and the rows of the manual's table.
template <class E>
void expect_names(const char* option, std::string& table) {
  for (const auto& row : rows_of(E{})) {
    EXPECT_EQ(name(row.value), row.name);
    EXPECT_EQ(parse_enum<E>(option, row.name), row.value) << row.name;
    std::string names = "`" + std::string(row.name) + "`";
    if constexpr (requires { row.alias; }) {
      if (!row.alias.empty()) {
        EXPECT_EQ(parse_enum<E>(option, row.alias), row.value) << row.alias;
        names += ", `" + std::string(row.alias) + "`";
      }
    }
    EXPECT_FALSE(row.help.empty()) << row.name << " says nothing";
    table += "| `" + std::string(option) + "` | " + names + " | " + std::string(row.help) + " |\n";
  }
}

TEST(Options, NamesAreReadBack) {
  std::string table = "| option | value | meaning |\n|---|---|---|\n";
  expect_names<Backend>("backend", table);
  expect_names<Method>("method", table);
  expect_names<LinearSolver>("linear_solver", table);
  expect_names<FactorPlace>("factor", table);
  expect_names<ForcingSequence>("forcing_sequence", table);
  expect_names<NormalMatrix>("normal_matrix", table);
  expect_names<DoglegType>("dogleg_type", table);
  expect_names<DomainPolicy>("domain", table);
  expect_names<Components>("components", table);
  test::expect_table("docs/reference/solver-options.md", "values", table);
  for (const auto& row : rows_of(Precision{}))
    EXPECT_EQ(parse_solve_precision(row.name), row.value) << row.name;
}

TEST(Options, UnknownNamesListTheKnown) {
  EXPECT_EQ(message_of([] { parse_backend("cuda"); }),
            "backend: expected one of automatic, cpu, vulkan, auto, gpu, got \"cuda\"");
  EXPECT_EQ(message_of([] { parse_precision("f16"); }),
            "precision: expected one of f32, f64, got \"f16\"");
}

TEST(Options, PreconditionersAreTheTable) {
  std::string names, table = "| value | preconditioner |\n|---|---|\n";
  for (const runtime::PreconditionerRow& row : runtime::kPreconditioners) {
    EXPECT_EQ(parse_enum<Preconditioner>("preconditioner", row.name), row.value);
    EXPECT_EQ(name(row.value), row.name);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
    const bool initial = row.value == SolverOptions{}.preconditioner;
    table += "| `" + std::string(row.name) + (initial ? "` (default) | " : "` | ") +
             std::string(row.help) + " |\n";
  }
  EXPECT_EQ(message_of([] { parse_enum<Preconditioner>("preconditioner", "ilu"); }),
            "preconditioner: expected one of " + names + ", got \"ilu\"");
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

// The manual's table has all members of SolverOptions.
TEST(Options, EachFieldHasARow) {
  const std::set<std::string> others = {"line_search", "first_order",  "checkpoint",
                                        "callback",    "restrictions", "linear_solver_ordering"};
  std::istringstream page(test::read_file(test::source_dir() / "docs/reference/solver-options.md"));
  int fields = 0;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("<!--")) inside = line.find("SolverOptions in") != line.npos;
    if (!inside || !line.starts_with("| `")) continue;
    const std::string field = line.substr(3, line.find('`', 3) - 3);
    ++fields;
    EXPECT_TRUE(others.contains(field) || find_option(field) != nullptr) << field;
  }
  EXPECT_GE(fields, 55);
}

TEST(Options, ValuesAreReadBack) {
  for (const SolverOption& option : option_table()) {
    const SolverOptions initial;
    const OptionValue value = option.get(initial);
    if (std::holds_alternative<std::monostate>(value)) continue;
    SolverOptions other;
    set(option, other, value_of(option, text_of(value)));
    EXPECT_EQ(option.get(other), value) << option.name;
    for (const std::string& name :
         option.choices != nullptr ? option.choices() : std::vector<std::string>{}) {
      set(option, other, name);
      EXPECT_EQ(name.empty(), text_of(option.get(other)).empty()) << option.name;
    }
  }
  SolverOptions options;
  set(*find_option("cross_check"), options, value_of(*find_option("cross_check"), "all"));
  EXPECT_EQ(options.cross_check, kCrossCheckAll);
  EXPECT_EQ(message_of([&] { set(*find_option("threads"), options, 1.5); }),
            "threads: expected a whole number, got 1.5");
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
