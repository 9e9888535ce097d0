// NIST's regression sets: models from headers, certified values from two starts.
#include <gtest/gtest.h>

#include "../../../ir/error.hpp"
#include "../../../ir/evaluate.hpp"
#include "../../../solver/solve.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "../../../tools/problems/nist.hpp"
#include "../../support/paths.hpp"

namespace topograd {
namespace {

using Numbers = std::vector<double>;

/// A header's lines and the model in C++; b and columns count from 1 and from y.
struct ModelRow {
  const char* name;
  std::vector<std::string> lines;
  std::size_t parameters;
  std::vector<std::string> columns;
  std::function<double(const double* b, double y, double x, double x2)> right_minus_left;
};

const std::vector<ModelRow> kModels = {
    {"brackets for calls",
     {"Model:         Exponential Class", "               2 Parameters (b1 and b2)", "",
      "               y = b1*(1-exp[-b2*x])  +  e", "", ""},
     2,
     {"y", "x"},
     [](const double* b, double y, double x, double) {
       return b[1] * (1 - std::exp(-b[2] * x)) - y;
     }},
    {"two lines, the break after an operator",
     {"               y = (b1 + b2*x + b3*x**2) /",
      "                   (1 + b4*x + b5*x**2)  +  e"},
     5,
     {"y", "x"},
     [](const double* b, double y, double x, double) {
       return (b[1] + b[2] * x + b[3] * x * x) / (1 + b[4] * x + b[5] * x * x) - y;
     }},
    {"two lines, the break before an operator",
     {"               y = b1*exp( -b2*x ) + b3*exp( -(x-b4)**2 / b5**2 ) ",
      "                                   + b6*exp( -(x-b7)**2 / b8**2 ) + e"},
     8,
     {"y", "x"},
     [](const double* b, double y, double x, double) {
       const double u = (x - b[4]) / b[5], v = (x - b[7]) / b[8];
       return b[1] * std::exp(-b[2] * x) + b[3] * std::exp(-u * u) + b[6] * std::exp(-v * v) - y;
     }},
    {"two predictors, a function of the response",
     {"               log[y] = b1 - b2*x1 * exp[-b3*x2]  +  e"},
     3,
     {"y", "x1", "x2"},
     [](const double* b, double y, double x, double x2) {
       return b[1] - b[2] * x * std::exp(-b[3] * x2) - std::log(y);
     }},
    {"pi and arctan",
     {"               pi = 3.141592653589793238462643383279E0",
      "               y =  b1 - b2*x - arctan[b3/(x-b4)]/pi  +  e"},
     4,
     {"y", "x"},
     [](const double* b, double y, double x, double) {
       return b[1] - b[2] * x - std::atan(b[3] / (x - b[4])) / std::numbers::pi - y;
     }},
    {"three lines of cosines",
     {"               pi = 3.141592653589793238462643383279",
      "               y = b1 + b2*cos( 2*pi*x/12 ) + b3*sin( 2*pi*x/12 ) ",
      "                      + b5*cos( 2*pi*x/b4 ) + b6*sin( 2*pi*x/b4 )",
      "                      + b8*cos( 2*pi*x/b7 ) + b9*sin( 2*pi*x/b7 )  + e"},
     9,
     {"y", "x"},
     [](const double* b, double y, double x, double) {
       const double t = 2 * std::numbers::pi * x;
       return b[1] + b[2] * std::cos(t / 12) + b[3] * std::sin(t / 12) + b[5] * std::cos(t / b[4]) +
              b[6] * std::sin(t / b[4]) + b[8] * std::cos(t / b[7]) + b[9] * std::sin(t / b[7]) - y;
     }},
    {"negative and broken powers",
     {"               y = b1 * (1-(1+b2*x/2)**(-2)) * (1+2*b2*x)**(-.5)  +  e"},
     2,
     {"y", "x"},
     [](const double* b, double y, double x, double) {
       return b[1] * (1 - std::pow(1 + b[2] * x / 2, -2)) / std::sqrt(1 + 2 * b[2] * x) - y;
     }},
    {"powers of parameters",
     {"               y = b1 / ((1+exp[b2-b3*x])**(1/b4)) + (b2+x)**(-1/b3) * x**b2  +  e"},
     4,
     {"y", "x"},
     [](const double* b, double y, double x, double) {
       return b[1] / std::pow(1 + std::exp(b[2] - b[3] * x), 1 / b[4]) +
              std::pow(b[2] + x, -1 / b[3]) * std::pow(x, b[2]) - y;
     }},
    {"a minus before a square",
     {"               y = (b1/b2) * exp[-0.5*((x-b3)/b2)**2] - x**2 + e"},
     3,
     {"y", "x"},
     [](const double* b, double y, double x, double) {
       const double u = (x - b[3]) / b[2];
       return b[1] / b[2] * std::exp(-0.5 * u * u) - x * x - y;
     }},
    {"no error term",
     {"  y = b1 * exp(x) / b2"},
     2,
     {"y", "x"},
     [](const double* b, double y, double x, double) { return b[1] * std::exp(x) / b[2] - y; }},
};

TEST(Nist, ModelsAreReadFromHeaders) {
  const Numbers b = {1.3, 0.7, 1.1, 2.3, 0.9, 1.7, 0.4, 1.9, 0.6};
  const Numbers data = {2.5, 0.8, 1.4};
  for (const ModelRow& row : kModels) {
    SCOPED_TRACE(row.name);
    const ir::Program program = problems::parse_nist_model(row.lines, row.parameters, row.columns);
    const Numbers values = ir::evaluate<double>(
        program, {.parameters = b, .data = data, .uniforms = {}, .tangents = {}, .seeds = {}});
    const double expected = row.right_minus_left(b.data() - 1, data[0], data[1], data[2]);
    ASSERT_EQ(values.size(), 1u);
    EXPECT_NEAR(values[0], expected, 1e-14 * std::abs(expected));
  }
}

SolverOptions tight(LinearSolver solver) {
  return {.backend = Backend::cpu,
          .linear_solver = solver,
          .max_iterations = 1000,
          .function_tolerance = 1e-15,
          .gradient_tolerance = 1e-15,
          .parameter_tolerance = 1e-15};
}

TEST(Nist, CertifiedParametersToSixDigits) {
  const std::string folder = test::source_dir() / "tests/data/nist";
  const std::vector<std::string> files = problems::nist_files(folder);
  ASSERT_EQ(files.size(), 2u);
  for (const std::string& file : files) {
    const problems::NistSet set = problems::read_nist(file);
    for (std::size_t start = 0; start < 2; ++start) {
      for (const LinearSolver solver : {LinearSolver::cholesky, LinearSolver::dense}) {
        SCOPED_TRACE(set.name + " from start " + std::to_string(start + 1) + " by " +
                     std::string(name(solver)));
        const auto nist = problems::nist(set, start);
        EXPECT_EQ(nist->problem.topology_count(), 1u);
        const Summary summary = solve(nist->problem, tight(solver));
        EXPECT_NEAR(2 * summary.final_cost, set.certified_sum, 1e-9 * set.certified_sum);
        EXPECT_GE(problems::matching_digits(nist->b, set.certified), 6) << summary.message;
      }
    }
  }
}

TEST(Nist, DigitsAreThoseOfTheWorstParameter) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    Numbers b, certified;
    double digits;
  } rows[] = {
      {{2, -4}, {2, -4}, 11},
      {{2.0002, -4}, {2, -4}, 4},
      {{2, -4.004}, {2, -4}, 3},
      {{1e-5, 3}, {0, 3}, 5},
      {{-2}, {2}, 0},
      {{nan, 1}, {1, 1}, 0},
      {{1, nan}, {1, 1}, 0},
  };
  for (const auto& row : rows) {
    EXPECT_NEAR(problems::matching_digits(row.b, row.certified), row.digits, 1e-9) << row.b[0];
  }
}

/// A file in NIST's format.
std::string set_text(const std::string& model, const std::string& parameters,
                     const std::string& columns, const std::string& data) {
  return "Model:         A Class\n               2 Parameters (b1 and b2)\n\n" + model +
         "\n          Starting values                  Certified Values\n\n" + parameters +
         "\nResidual Sum of Squares:  1.5D+00\nNumber of Observations:  2\n\nData:  " + columns +
         "\n" + data;
}

TEST(Nist, FilesAreRead) {
  const problems::NistSet set = problems::parse_nist(
      set_text("y = b1*x + b2 + e", "b1 = 1 2 3.5E0 0.1\r\n  b2= 4\t5 6D-1\r\n", "Y  X",
               "  92.9E0 0.5E0\r\n\r\n 1 2\r\n"),
      "folder/Line.dat");
  EXPECT_EQ(set.name, "Line");
  EXPECT_EQ(set.columns, (std::vector<std::string>{"y", "x"}));
  EXPECT_EQ(set.starts[0], (Numbers{1, 4}));
  EXPECT_EQ(set.starts[1], (Numbers{2, 5}));
  EXPECT_EQ(set.certified, (Numbers{3.5, 0.6}));
  EXPECT_EQ(set.certified_sum, 1.5);
  EXPECT_EQ(set.data, (Numbers{92.9, 0.5, 1, 2}));
}

TEST(Nist, MalformedFilesAreRefusedWithTheirPlace) {
  const std::string model = "y = b1*x + e", b = "b1 = 1 2 3 4\n", data = "1 2\n3 4\n";
  const struct {
    std::string text, error;
  } rows[] = {
      {"", "set.dat: expected a set of NIST's StRD, there is no line \"Model:\""},
      {set_text("", b, "y x", data),
       "set.dat:1: expected a model \"y = ...\" after \"Model:\", got none"},
      {set_text("y = b2*x + e", b, "y x", data),
       "set.dat:1: expression: line 1, column 2: expected one of the names b1, y, x, got 'b2'"},
      {set_text(model, "", "y x", data),
       "set.dat:5: expected starting values \"b1 = ...\" below it"},
      {set_text(model, "b2 = 1 2 3 4\n", "y x", data), "set.dat:7: expected b1 = ..., got b2"},
      {set_text(model, "b1 = 1 2\n", "y x", data),
       "set.dat:7: expected two starts and a certified value after \"b1 =\", got 2 numbers"},
      {set_text(model, "b1 = 1 two 3 4\n", "y x", data),
       "set.dat:7: expected a number, got \"two\""},
      {set_text(model, b, "y", data), "set.dat:12: expected names of columns as in \"Data: y x\""},
      {set_text(model, b, "y x", "1 2 3\n"), "set.dat:13: expected 2 numbers, got 3 words"},
      {set_text(model, b, "y x", "1 nan\n"), "set.dat:13: expected a number, got \"nan\""},
      {set_text(model, b, "y x", "1 2\n"),
       "set.dat:13: expected 2 observations, as the header says, got 1"},
  };
  for (const auto& row : rows) {
    try {
      problems::parse_nist(row.text, "set.dat");
      ADD_FAILURE() << "no error: " << row.error;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Parse);
      EXPECT_EQ(std::string(error.what()), row.error);
    }
  }
}

}  // namespace
}  // namespace topograd
