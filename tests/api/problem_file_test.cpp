// Problem files: the problems they build, and errors with their place.
#include "../support/paths.hpp"

#include "../../api/problem_file.hpp"
#include "../../frontend/value/math.hpp"
#include "../../ir/error.hpp"
#include "../../ir/text.hpp"
#include "../../solver/evaluator.hpp"
#include "../../solver/solve.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace topograd::test {
namespace {

using OrderedJson = nlohmann::ordered_json;

// springs(W) of the benchmark as a file: positions, edges and anchored corners.
OrderedJson springs(unsigned w) {
  OrderedJson positions = OrderedJson::array(), tail = OrderedJson::array(),
              head = OrderedJson::array(), rest = OrderedJson::array(),
              corner = OrderedJson::array(), target = OrderedJson::array();
  const auto edge = [&](unsigned a, unsigned b, double length) {
    tail.push_back(a), head.push_back(b), rest.push_back(length);
  };
  for (unsigned k = 0; k < w * w; ++k) {
    const unsigned i = k % w, j = k / w;
    for (const double x :
         {i + 0.1 * std::sin(1.0 * k), j + 0.1 * std::cos(3.0 * k), 0.1 * std::sin(7.0 * k)})
      positions.push_back(x);
    if (i + 1 < w) edge(k, k + 1, 1);
    if (j + 1 < w) edge(k, k + w, 1);
    if (i + 1 < w && j + 1 < w) edge(k, k + w + 1, std::sqrt(2.0));
  }
  for (const unsigned k : {0u, w - 1, w * (w - 1), w * w - 1}) {
    corner.push_back(k);
    for (const double x : {1.1 * (k % w), 1.1 * (k / w), 0.0}) target.push_back(x);
  }
  return {{"parameters", {{{"name", "x"}, {"width", 3}, {"values", positions}}}},
          {"data", {{{"name", "corners"}, {"width", 3}, {"values", target}}}},
          {"residuals",
           {{{"label", "spring"},
             {"expressions", {"sqrt((a.x - b.x)^2 + (a.y - b.y)^2 + (a.z - b.z)^2) - rest"}},
             {"parameters",
              {{"a", {{"array", "x"}, {"index", tail}}}, {"b", {{"array", "x"}, {"index", head}}}}},
             {"data", {{"rest", rest}}}},
            {{"label", "anchor"},
             {"expressions", {"a[0] - c[0]", "a[1] - c[1]; a[2] - c[2]"}},
             {"parameters", {{"a", {{"array", "x"}, {"index", corner}}}}},
             {"data", {{"c", "corners"}}}}}}};
}

double initial_cost(ProblemFile& file) {
  return Evaluator(file.problem, {.backend = Backend::cpu}).cost();
}

TEST(ProblemFile, SpringsHaveThePublishedCost) {
  struct Row {
    unsigned width;
    double cost;  // Ceres, f64
  };
  for (const Row& row : {Row{10, 2.6161453817}, Row{30, 27.0082445932}}) {
    const auto file = parse_problem_file(springs(row.width).dump(1), "springs.json");
    EXPECT_NEAR(initial_cost(*file), row.cost, 1e-9 * row.cost);
    EXPECT_EQ(file->problem.topology_count(), 2u);
    EXPECT_EQ(file->problem.residual_count(), 3 * row.width * row.width - 4 * row.width + 1 + 12);
  }
}

// Editors write a byte order mark, and columns of errors do not count it.
TEST(ProblemFile, BeginsAfterAByteOrderMark) {
  const std::string marked = "\xef\xbb\xbf" + springs(10).dump(1);
  EXPECT_EQ(initial_cost(*parse_problem_file(marked, "springs.json")),
            initial_cost(*parse_problem_file(springs(10).dump(1), "springs.json")));
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_problem_file(text, "f.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("\xef\xbb\xbf{\"title\": 3}"), message("{\"title\": 3}"));
  EXPECT_EQ(message(std::string("{\0\"\0", 4)),
            "f.json:1: expected text in UTF-8, got UTF-16; save the file as UTF-8");
}

// The same numbers through the C++ interface.
TEST(ProblemFile, TheExampleFitsItsCurve) {
  const auto file = read_problem_file(source_dir() / "samples/data/curve_fit.json");
  const OrderedJson json =
      OrderedJson::parse(read_file(source_dir() / "samples/data/curve_fit.json"));
  const std::vector<double> x = json["data"][0]["values"], y = json["data"][1]["values"];
  std::vector<double> m = {0}, c = {0};
  Problem problem;
  const Parameters slope = problem.add_parameters(m), offset = problem.add_parameters(c);
  for (std::size_t i = 0; i + 1 < x.size(); ++i)
    problem.add_residual(exp(slope[0] * x[i] + offset[0]) - y[i]);
  problem.add_residual(slope[0] * std::sqrt(1e-6));
  SolverOptions options = file->options;
  options.backend = Backend::cpu;
  EXPECT_EQ(options.max_iterations, 50);
  EXPECT_EQ(options.function_tolerance, 1e-10);
  const Summary expected = solve(problem, options), got = solve(file->problem, options);
  EXPECT_NEAR(got.initial_cost, expected.initial_cost, 1e-12 * expected.initial_cost);
  EXPECT_NEAR(got.final_cost, expected.final_cost, 1e-9 * expected.final_cost);
  EXPECT_EQ(file->parameters[0].name, "m");
  EXPECT_NEAR(file->parameters[0].values[0], m[0], 1e-7);
  EXPECT_NEAR(file->parameters[1].values[0], c[0], 1e-7);
}

// Lines through three points each; t is that of all lines, y each line's own.
TEST(ProblemFile, DescribesOneOfManyProblems) {
  constexpr int kLines = 40;
  OrderedJson json = OrderedJson::parse(R"({
    "repeat": 40,
    "parameters": [{"name": "p", "width": 2, "values": [0, 0], "lower": [-100, -100]}],
    "data": {"t": [-1, 0, 1]},
    "residuals": [{"expressions": ["p[0] + p[1] * t - y"], "parameters": ["p"], "data": ["t", "y"]},
                  {"expressions": ["0.1 * p[1]"], "parameters": ["p"]}]
  })");
  std::vector<double> y;
  for (int k = 0; k < 3 * kLines; ++k) y.push_back(std::sin(k));
  json["data"]["y"] = y;
  const auto file = parse_problem_file(json.dump(), "lines.json");
  EXPECT_EQ(file->problem.residual_count(), 4U * kLines);
  EXPECT_EQ(file->parameters[0].values.size(), 2U * kLines);
  SolverOptions options = file->options;
  options.backend = Backend::cpu;
  const Summary summary = solve(file->problem, options);
  EXPECT_TRUE(summary.components.separate) << summary.components.why;
  EXPECT_EQ(summary.components.count, std::size_t{kLines});
  for (std::size_t k = 0; k < kLines; ++k) {
    const double* const at = &y[3 * k];
    EXPECT_NEAR(file->parameters[0].values[2 * k], (at[0] + at[1] + at[2]) / 3, 1e-7);
    EXPECT_NEAR(file->parameters[0].values[2 * k + 1], (at[2] - at[0]) / 2.01, 1e-7);
  }
}

TEST(ProblemFile, ListsOfManyProblemsThatDoNotFitAreNamed) {
  const auto message = [](const std::string& data, const std::string& repeat) {
    const std::string text =
        R"({"repeat": )" + repeat + R"(, "parameters": [{"name": "p", "values": [0]}], "data": )" +
        data +
        R"(, "residuals": [{"expressions": ["p + t - y"], "parameters": ["p"], "data": ["t", "y"]}]})";
    try {
      parse_problem_file(text, "f.json");
      return std::string("no error");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Parse);
      const std::string what = error.what();
      return what.substr(what.find(": /") + 2);
    }
  };
  EXPECT_EQ(message(R"({"t": [1, 2], "y": [1, 2, 3, 4, 5]})", "2"),
            "/residuals/0/data/1: expected 2 entries of one problem, or 4 of all, got 5");
  EXPECT_EQ(message(R"({"t": [1, 2, 3], "y": [1, 2, 3]})", "2"),
            "/residuals/0: expected lists of a multiple of 2 entries, as \"repeat\" says, got 3");
  EXPECT_EQ(message(R"({"t": [1], "y": [1]})", "4000000000"),
            "/repeat: expected at most 4194304 problems, as each has 4 numbers and instances in "
            "/residuals/0, got 4000000000");
  EXPECT_EQ(message(R"({"t": [1], "y": [1]})", "1000000000000"),
            "/repeat: expected a count from 1 that is below 4294967295, got 1000000000000");
}

TEST(ProblemFile, TheManualShowsTheExample) {
  const std::string manual = read_file(source_dir() / "docs/problem-files.md");
  EXPECT_NE(manual.find(read_file(source_dir() / "samples/data/curve_fit.json")),
            std::string::npos);
}

// ½ Σ w r² by hand.
TEST(ProblemFile, ColumnsMeanWhatTheySay) {
  const struct {
    const char* block;
    double cost;
  } rows[] = {
      {R"("expressions": ["a"], "parameters": {"a": "v"})", (1 + 4 + 9 + 16) / 2.0},
      {R"("expressions": ["a.y"], "parameters": {"a": "p"})", (100 + 400 + 900) / 2.0},
      {R"("expressions": ["a"], "parameters": {"a": {"array": "p", "coordinate": 1}})",
       (100 + 400 + 900) / 2.0},
      {R"("expressions": ["a"], "parameters": {"a": {"array": "v", "index": 2}})", 9 / 2.0},
      {R"("expressions": ["a"], "parameters": {"a": {"array": "v", "index": [3, 3]}})", 32 / 2.0},
      {R"("expressions": ["a - L"], "parameters": {"a": {"array": "v", "index": 2}}, "data": {"L": [1, 2]})",
       (4 + 1) / 2.0},
      {R"("expressions": ["a - L"], "parameters": {"a": "v"}, "data": {"L": 1})",
       (1 + 4 + 9) / 2.0},
      {R"("expressions": ["v"], "parameters": ["v"], "weight": [1, 0, 2, 0])", (1 + 18) / 2.0},
      {R"("expressions": ["v"], "parameters": ["v"], "weight": 2)", 30},
      {R"("expressions": ["v"], "parameters": ["v"], "weight": "u")", 3 * 30 / 2.0},
      {R"("expressions": ["v"], "parameters": ["v"], "weight": "d")",
       (1 * 5 + 4 * 6 + 9 * 7 + 16 * 8) / 2.0},
      {R"("expressions": ["u * a - d"], "parameters": {"a": {"array": "v", "index": [0, 1]}}, "data": {"d": {"array": "d", "index": [3, 2]}})",
       (25 + 1) / 2.0},
      {R"("count": 3, "expressions": ["a"], "parameters": {"a": {"array": "v", "index": 1}})", 6},
  };
  for (const auto& row : rows) {
    const std::string text =
        R"({"parameters": [{"name": "v", "values": [1, 2, 3, 4]},
                           {"name": "p", "width": 2, "values": [0, 10, 0, 20, 0, 30]}],
            "uniforms": [{"name": "u", "value": 3}],
            "data": [{"name": "d", "values": [5, 6, 7, 8]}],
            "residuals": [{)" +
        std::string(row.block) + "}]}";
    const auto file = parse_problem_file(text, "f.json");
    EXPECT_NEAR(initial_cost(*file), row.cost, 1e-12 * row.cost) << row.block;
  }
}

TEST(ProblemFile, TakesLossesBoundsAndManifolds) {
  // ½ Σ ρ of r = 3 by the formulas.
  const struct {
    const char* loss;
    double cost;
  } losses[] = {{R"("trivial")", 4.5},
                {R"({"huber": 0.5})", (2 * 0.5 * 3 - 0.25) / 2},
                {R"({"cauchy": 2})", 2 * std::log(1 + 9.0 / 4)},
                {R"({"scaled": [{"tukey": 1}, 6]})", 1.0},
                {R"({"composed": [{"arctan": 2}, {"huber": 1}]})", std::atan(5.0 / 2)},
                {R"({"tolerant": [4, 0.5]})",
                 0.25 * (std::log1p(std::exp(10.0)) - std::log1p(std::exp(-8.0)))}};
  for (const auto& row : losses) {
    const auto file = parse_problem_file(
        R"({"parameters": [{"name": "v", "values": [3]}],
            "residuals": [{"expressions": ["v"], "parameters": ["v"], "loss": )" +
            std::string(row.loss) + "}]}",
        "f.json");
    EXPECT_NEAR(initial_cost(*file), row.cost, 1e-12) << row.loss;
  }
  const auto file = parse_problem_file(
      R"({"parameters": [{"name": "v", "width": 2, "values": [0, 0, 1, 1], "lower": -2,
                          "upper": [1, null, null, 3]},
                         {"name": "q", "width": 3, "values": [2, 0, 0], "manifold": "sphere"},
                         {"name": "s", "width": 2, "values": [0, 7], "manifold": {"subset": [1]}}],
          "residuals": [{"expressions": ["v.x - 5; v.y + 5"], "parameters": ["v"]},
                        {"expressions": ["q.x; q.y - 5; q.z"], "parameters": ["q"]},
                        {"expressions": ["s.x - 1; s.y - 1"], "parameters": ["s"]}],
          "solver": {"backend": "cpu", "method": "dogleg", "dogleg_type": "subspace",
                     "function_tolerance": 1e-14, "use_nonmonotonic_steps": true}})",
      "f.json");
  solve(file->problem, file->options);
  const std::vector<std::vector<double>> expected = {{1, -2, 5, -2}, {0, 2, 0}, {1, 7}};
  for (std::size_t a = 0; a < expected.size(); ++a)
    for (std::size_t k = 0; k < expected[a].size(); ++k)
      EXPECT_NEAR(file->parameters[a].values[k], expected[a][k], 1e-6) << a << ", " << k;
}

TEST(ProblemFile, ErrorsOfLossesBoundsAndManifoldsHaveTheirPlace) {
  const struct {
    const char *parameter, *residual, *text;
  } rows[] = {
      {"", R"(, "loss": {"huber": -1})",
       "f.json:2:80: /residuals/0/loss/huber: huber loss: scale a must be a finite number > 0, got "
       "-1"},
      {"", R"(, "loss": {"huber": 1, "tukey": 1})",
       "f.json:2:70: /residuals/0/loss: expected one loss, got 2"},
      {"", R"(, "loss": "quadratic")",
       "f.json:2:70: /residuals/0/loss: expected \"trivial\" or an object, got \"quadratic\""},
      {R"(, "lower": [1])", "",
       "f.json:1:70: /parameters/0/lower: expected one bound a scalar, 2, got 1"},
      {R"(, "lower": [-1, null], "upper": 1.5)", "",
       "f.json:1:57: /parameters/0/values/1: expected a start within its bounds [-inf, 1.5], got "
       "2"},
      {R"(, "lower": 3, "upper": 1.5)", "",
       "f.json:1:54: /parameters/0/values/0: expected a lower bound below the upper one, got 3 and "
       "1.5"},
      {R"(, "lower": [1, 0], "upper": [1, 3])", "",
       "f.json:1:54: /parameters/0/values/0: expected a lower bound below the upper one, got 1 and "
       "1: \"constant\" holds an unknown"},
      {R"(, "lower": 1.5)", "",
       "f.json:1:54: /parameters/0/values/0: expected a start within its bounds [1.5, inf], got 1"},
      {R"(, "manifold": "quaternion")", "",
       "f.json:1:73: /parameters/0/manifold: expected a manifold of blocks of 2, got quaternion of "
       "4"},
      {R"(, "manifold": {"subset": [2]})", "",
       "f.json:1:73: /parameters/0/manifold: manifold: subset: coordinate 2 is out of range (size "
       "is 2)"}};
  for (const auto& row : rows) {
    const std::string text =
        R"({"parameters": [{"name": "v", "width": 2, "values": [1, 2])" +
        std::string(row.parameter) +
        "}],\n \"residuals\": [{\"expressions\": [\"v.x\"], \"parameters\": [\"v\"]" +
        row.residual + "}]}";
    try {
      parse_problem_file(text, "f.json");
      FAIL() << "no error: " << row.text;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), row.text);
    }
  }
}

TEST(ProblemFile, HoldsBlocksConstant) {
  const auto file = parse_problem_file(
      R"({"parameters": [{"name": "v", "values": [1, 2, 3], "constant": [1]},
                         {"name": "w", "values": [4], "constant": true}],
          "residuals": [{"expressions": ["v + w"], "parameters": ["v", "w"]}]})",
      "f.json");
  solve(file->problem, {.backend = Backend::cpu, .max_iterations = 50});
  EXPECT_NEAR(file->parameters[0].values[0], -4, 1e-6);
  EXPECT_EQ(file->parameters[0].values[1], 2);
  EXPECT_EQ(file->parameters[1].values[0], 4);
}

struct Mistake {
  const char* text;
  const char* error;
};

/// The text around a residual block: lines 1 to 3, the block begins in line 4.
std::string around(const std::string& block) {
  return "{\"parameters\": [{\"name\": \"v\", \"values\": [1, 2]}],\n"
         " \"data\": [{\"name\": \"d\", \"values\": [1, 2, 3]}],\n"
         " \"residuals\": [\n" +
         block + "]}";
}

void expect_error(const std::string& text, const std::string& expected) {
  try {
    parse_problem_file(text, "f.json");
    ADD_FAILURE() << text << ": no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), expected) << text;
    EXPECT_EQ(error.code(), ErrorCode::Parse);
  }
}

TEST(ProblemFile, CountsMayBeWrittenAsAnyWholeNumber) {
  // JSON has one kind of numbers; its schema takes 1e3 and 2.0 as integers.
  const auto file = parse_problem_file(R"({
    "parameters": [{"name": "x", "width": 2.0, "values": [1, 2, 3, 4]}],
    "residuals": [{"expressions": ["a.x - a.y"], "parameters": {"a": {"array": "x", "index": [1.0, 0e5]}}}],
    "solver": {"max_iterations": 1e3}})",
                                       "counts.json");
  EXPECT_EQ(file->parameters[0].width, 2u);
  EXPECT_EQ(file->residuals[0].instances, 2u);
  EXPECT_EQ(file->options.max_iterations, 1000);
  for (const char* count : {"1.5", "-2.0", "1e10", "1e300", "-1"}) {
    const std::string text = R"({"parameters": [{"name": "x", "values": [1]}], "residuals": [],
      "solver": {"max_iterations": )" +
                             std::string(count) + "}}";
    EXPECT_THROW(parse_problem_file(text, "counts.json"), Error) << count;
  }
}

TEST(ProblemFile, SaysWhereTheFormIsWrong) {
  const Mistake rows[] = {
      {"", "f.json:1:1: expected a JSON object, got an empty text"},
      {" \n\t", "f.json:1:1: expected a JSON object, got an empty text"},
      {"{\n  \"parameters\": [,]}",
       "f.json:2:18: syntax error while parsing value - unexpected "
       "','; expected '[', '{', or a literal"},
      {"{\"parameters\":\n [1, 1e999]}", "f.json:2:6: number overflow parsing '1e999'"},
      {"[1]", "f.json:1:1: expected an object, got a list of 1"},
      {"{}", "f.json:1:1: expected \"parameters\" with at least one array"},
      {"{\"parameter\": []}",
       "f.json:1:15: /parameter: expected one of the keys title, repeat, parameters, "
       "uniforms, data, residuals, equalities, inequalities, solver, $schema, got \"parameter\""},
      {"{\"title\": \"a\",\n \"parameters\": [{\"name\": \"v\",\n  \"values\": [1], \"name\": "
       "\"w\"}]}",
       "f.json:3:18: the key \"name\" is there twice"},
      {"{\"title\": \"{\\\"a\\\": 1}\", \"solver\": {}, \"title\": \"\"}",
       "f.json:1:39: the key \"title\" is there twice"},
      {"{\"parameters\": 7}", "f.json:1:16: /parameters: expected a list, got 7"},
      {"{\"parameters\": [\n{\"values\": [1]}]}",
       "f.json:2:1: /parameters/0: expected the key \"name\""},
      {"{\"parameters\": [\n{\"name\": \"v\", \"width\": 0, \"values\": [1]}]}",
       "f.json:2:24: /parameters/0/width: expected a width from 1, got 0"},
      {"{\"parameters\": [\n{\"name\": \"v\", \"width\": 2, \"values\": [1]}]}",
       "f.json:2:37: /parameters/0/values: expected blocks of 2, got 1 numbers"},
      {"{\"parameters\": [\n{\"name\": \"v\", \"values\": [1,\n null]}]}",
       "f.json:3:2: /parameters/0/values/1: expected a number, got null"},
      {"{\"parameters\": [{\"name\": \"v\", \"values\": [1], \"constant\": [1]}]}",
       "f.json:1:59: /parameters/0/constant/0: expected a block number below 1, got 1"},
      {"{\"parameters\": [{\"name\": \"v\", \"values\": [1]}]}",
       "f.json:1:1: expected \"residuals\" with at least one block"},
  };
  for (const Mistake& row : rows) expect_error(row.text, row.error);
}

TEST(ProblemFile, SaysWhereABlockIsWrong) {
  const Mistake rows[] = {
      {R"({"parameters": ["v"]})", "f.json:4:1: /residuals/0: expected the key \"expressions\""},
      {R"({"expressions": []})",
       "f.json:4:17: /residuals/0/expressions: expected at least one expression, got a list of 0"},
      {R"({"expressions": ["sqrt(v"], "parameters": ["v"]})",
       "f.json:4:18: /residuals/0/expressions/0: expression: line 1, column 7: expected an "
       "operator, ',' or ')', got the end of the text"},
      {R"({"expressions": ["v"], "parameters": ["w"]})",
       "f.json:4:39: /residuals/0/parameters/0: expected one of the arrays v, got \"w\""},
      {R"({"expressions": ["a"], "parameters": {"a": {"array": "v", "index": [0, 2]}}})",
       "f.json:4:72: /residuals/0/parameters/a/index/1: expected a block of v below 2, got 2"},
      {R"({"expressions": ["a"], "parameters": {"a": {"array": "v", "index": [0, -1]}}})",
       "f.json:4:72: /residuals/0/parameters/a/index/1: expected a block number from 0, got -1"},
      {R"({"expressions": ["a"], "parameters": {"a": {"array": "v", "coordinate": 1}}})",
       "f.json:4:44: /residuals/0/parameters/a: expected a coordinate below 1, got 1"},
      {R"({"expressions": ["v - d"], "parameters": ["v"], "data": ["d"]})",
       "f.json:4:58: /residuals/0/data/0: expected 2 entries as /residuals/0/parameters/0 has, got "
       "3"},
      {R"({"expressions": ["v"], "parameters": ["v"], "count": 5})",
       "f.json:4:39: /residuals/0/parameters/0: expected 5 entries as \"count\" says, got 2"},
      {R"({"expressions": ["a"], "parameters": {"a": {"array": "v", "index": 0}}, "count": 4000000000})",
       "f.json:4:82: /residuals/0/count: expected at most 8388608 instances that no list tells "
       "apart, got 4000000000"},
      {R"({"expressions": ["v"], "parameters": ["v"], "weight": [1, -1]})",
       "f.json:4:55: /residuals/0/weight: expected weights >= 0, got -1 for instance 1"},
      {R"({"expressions": ["d"], "data": ["d"]})",
       "f.json:4:1: /residuals/0: add_residuals: the residual does not depend on any parameter, in "
       "residual #0"},
      {R"({"expressions": ["v"], "parameters": ["v"], "losses": 1})",
       "f.json:4:55: /residuals/0/losses: expected one of the keys label, count, expressions, "
       "parameters, data, weight, loss, got \"losses\""},
      {R"({"expressions": ["v"], "parameters": {"2v": "v"}})",
       "f.json:4:18: /residuals/0/expressions/0: names: \"2v\" is no name (a letter, then letters, "
       "digits and "
       "underscores; not pi, inf or nan)"},
  };
  for (const Mistake& row : rows) expect_error(around(row.text), row.error);
}

TEST(ProblemFile, SaysWhichOptionIsWrong) {
  const Mistake rows[] = {
      {R"({"max_iterations": -1})",
       "f.json:5:29: /solver/max_iterations: options: max_iterations must be a finite number >= 0, "
       "got -1"},
      {R"({"linear_tolerance": 2})",
       "f.json:5:31: /solver/linear_tolerance: options: linear_tolerance must be in (0, 1), got 2"},
      {R"({"line_search": {"max_expansion": "x"}})",
       "f.json:5:44: /solver/line_search/max_expansion: line_search.max_expansion: expected a "
       "number, got \"x\""},
      {R"({"line_search": {"speed": 1}})",
       "f.json:5:36: /solver/line_search/speed: expected one of the keys sufficient_decrease, "
       "sufficient_curvature_decrease, max_expansion, min_step_size, max_evaluations, got "
       "\"speed\""},
      {R"({"backend": "cuda"})",
       "f.json:5:22: /solver/backend: backend: expected one of automatic, cpu, vulkan, auto, "
       "gpu, got \"cuda\""},
  };
  for (const Mistake& row : rows) {
    std::string text = around(R"({"expressions": ["v"], "parameters": ["v"]})");
    text.replace(text.size() - 1, 1, ",\n\"solver\":" + std::string(row.text) + "}");
    expect_error(text, row.error);
  }
}

}  // namespace
}  // namespace topograd::test
