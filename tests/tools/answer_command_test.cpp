// The answer of solve: parameters by name, uncertainties, residuals, data and fit.
#include "../support/paths.hpp"
#include "run_command.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

using Json = nlohmann::ordered_json;

/// Certified values of a set of NIST's StRD, from its file.
struct Certified {
  std::vector<double> values, deviations;
  double deviation = 0;  ///< of the residuals
  std::string csv;       ///< the observations
};

Certified read_certified(const std::string& set) {
  Certified out;
  std::istringstream text(read_file(source_dir() / "tests/data/nist" / (set + ".dat")));
  bool data = false;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string name, equals;
    double start1 = 0, start2 = 0, value = 0, deviation = 0;
    if (words >> name >> equals >> start1 >> start2 >> value >> deviation && equals == "=") {
      out.values.push_back(value);
      out.deviations.push_back(deviation);
    }
    if (line.starts_with("Residual Standard Deviation:"))
      out.deviation = std::stod(line.substr(line.find(':') + 1));
    std::istringstream fields(line);
    std::string y, x;
    if (data && fields >> y >> x) out.csv += x + ";" + y + "\n";
    if (line.starts_with("Data:") && line.find('y') < line.find('x') &&
        line.find("1 ") == line.npos)
      data = true, out.csv = "pressure;volume\n";
  }
  return out;
}

/// Writes a problem file for the set, with its data in a CSV file; returns its path.
std::string write_problem(const TemporaryDir& folder, const Certified& set,
                          const std::vector<double>& start, const std::string& expression) {
  const std::string base = folder.path() / "fit";
  std::ofstream(base + ".csv") << set.csv;
  Json parameters = Json::array();
  Json names = Json::array();
  for (std::size_t k = 0; k < start.size(); ++k) {
    const std::string name = "b" + std::to_string(k + 1);
    parameters.push_back({{"name", name}, {"values", {start[k]}}});
    names.push_back(name);
  }
  const Json problem = {
      {"title", "A fit of NIST's"},
      {"parameters", parameters},
      {"data",
       {{"x", {{"csv", "fit.csv"}, {"column", "pressure"}}},
        {"y", {{"csv", "fit.csv"}, {"column", "volume"}}}}},
      {"residuals",
       {{{"label", "point"},
         {"expressions", {expression}},
         {"parameters", names},
         {"data", {"x", "y"}}}}},
      {"solver",
       {{"function_tolerance", 1e-15}, {"parameter_tolerance", 1e-15}, {"max_iterations", 500}}}};
  std::ofstream(base + ".json") << problem.dump(1);
  return base + ".json";
}

struct NistRow {
  const char* set;
  std::vector<double> start;
  const char* expression;
};
const NistRow kNist[] = {
    {"Misra1a", {250, 0.0005}, "b1 * (1 - exp(-b2 * x)) - y"},
    {"Thurber",
     {1300, 1500, 500, 75, 1, 0.4, 0.05},
     "y - (b1 + b2 * x + b3 * x^2 + b4 * x^3) / (1 + b5 * x + b6 * x^2 + b7 * x^3)"}};

TEST(CommandAnswer, StandardErrorsAreTheCertifiedOnes) {
  for (const NistRow& row : kNist) {
    SCOPED_TRACE(row.set);
    const TemporaryDir folder;
    const Certified set = read_certified(row.set);
    ASSERT_EQ(set.values.size(), row.start.size());
    const std::string file = write_problem(folder, set, row.start, row.expression);
    const CommandResult result =
        topograd("solve '" + file + "' --backend cpu --covariance --json -");
    ASSERT_EQ(result.status, 0) << result.err;
    const Json report = Json::parse(result.out);
    const Json& covariance = report["covariance"];
    for (std::size_t k = 0; k < set.values.size(); ++k) {
      const std::string name = "b" + std::to_string(k + 1);
      EXPECT_EQ(covariance["parameters"][k], name);
      EXPECT_NEAR(report["parameters"][name][0].get<double>(), set.values[k],
                  1e-7 * std::abs(set.values[k]));
      EXPECT_NEAR(covariance["standard_errors"][k].get<double>(), set.deviations[k],
                  1e-6 * set.deviations[k]);
      EXPECT_EQ(covariance["correlations"][k][k], 1.0);
    }
    const Json& statistics = report["residual_statistics"];
    EXPECT_NEAR(std::sqrt(statistics["reduced_chi2"].get<double>()), set.deviation,
                1e-8 * set.deviation);
    const double n = statistics["rows"], freedom = statistics["degrees_of_freedom"];
    EXPECT_EQ(report["csv"], Json::parse(R"([{"file": "fit.csv", "rows": )" +
                                         statistics["rows"].dump() + R"(, "header": true}])"));
    EXPECT_EQ(freedom, n - static_cast<double>(set.values.size()));
    EXPECT_NEAR(statistics["rmse"].get<double>(), set.deviation * std::sqrt(freedom / n),
                1e-8 * set.deviation);
  }
}

TEST(CommandAnswer, OneProblemOfNistHasStandardErrorsAndAPlot) {
  const std::string data = " --data '" + (source_dir() / "tests/data/nist").string() + "'";
  for (const NistRow& row : kNist) {
    SCOPED_TRACE(row.set);
    const TemporaryDir folder;
    const Certified set = read_certified(row.set);
    const std::string page = folder.path() / "page.html", json = folder.path() / "report.json";
    const CommandResult result =
        topograd("solve nist --backend cpu --covariance --set " + std::string(row.set) + data +
                 " --report '" + page + "' --json '" + json + "'");
    ASSERT_EQ(result.status, 0) << result.err;
    const Json report = Json::parse(read_file(json));
    ASSERT_EQ(report["runs"].size(), 2u);
    for (const Json& run : report["runs"])
      for (std::size_t k = 0; k < set.values.size(); ++k)
        EXPECT_NEAR(run["covariance"]["standard_errors"][k].get<double>(), set.deviations[k],
                    1e-5 * set.deviations[k]);
    for (const char* part : {"2 of 2 runs solved", "From start ", "Parameters (value, standard",
                             "Correlations", "Residuals"})
      EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
    const std::string html = read_file(page);
    for (const char* part : {"Standard error", "Data and fit", "y over x"})
      EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  const CommandResult all = topograd("solve nist --backend cpu --covariance" + data);
  EXPECT_EQ(all.status, 2);
  EXPECT_EQ(all.err, "topograd: nist: --covariance expects a problem, not a set of them\n");
}

TEST(CommandAnswer, SummaryAndPageShowTheFit) {
  const TemporaryDir folder;
  const NistRow& row = kNist[0];
  const std::string file =
      write_problem(folder, read_certified(row.set), row.start, row.expression);
  const std::string page = folder.path() / "page.html";
  const CommandResult result =
      topograd("solve '" + file + "' --backend cpu --covariance --report '" + page + "'");
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* part :
       {"A fit of NIST's\n", "  b1         238.9421", "         2.70701", "Correlations",
        "14 rows, RMSE 0.0943", "Read fit.csv: 14 rows, after a row of names\n",
        "reduced chi^2 0.0103793 (12 degrees of freedom)", "\"point\" #",
        "Termination    CONVERGENCE"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_EQ(result.out.find("Counters"), std::string::npos);
  const std::string html = read_file(page);
  for (const char* part : {"<h2>Parameters</h2>", "<td>b2</td>", "<h2>Data and fit</h2>",
                           "aria-label=\"point: y over x\"", "class=\"fit\"", "reduced χ²",
                           "<h2>Correlations</h2>", "Largest residuals"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("Counters"), std::string::npos);
  const CommandResult verbose =
      topograd("solve '" + file + "' --backend cpu --verbose --report '" + page + "'");
  EXPECT_NE(verbose.out.find("Counters"), std::string::npos);
  EXPECT_NE(read_file(page).find("Counters"), std::string::npos);
  EXPECT_EQ(verbose.out.find("standard error"), std::string::npos);
}

TEST(CommandAnswer, WhatIsLeftOutHeldOrBoundedIsSaid) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "line.json";
  std::ofstream(file) << R"({
    "parameters": [{"name": "slope", "values": [0]}, {"name": "offset", "values": [0], "upper": 1},
                   {"name": "held", "values": [2], "constant": true}],
    "data": {"t": [0, 1, 2, 3], "v": [3, 5, 7, 100]},
    "residuals": [{"label": "sample", "expressions": ["slope * t + offset + held - v"],
                   "parameters": ["slope", "offset", "held"], "data": ["t", "v"],
                   "weight": [1, 1, 1, 0]}]})";
  const CommandResult result = topograd("solve '" + file + "' --backend cpu --covariance --json -");
  ASSERT_EQ(result.status, 0) << result.err;
  const Json report = Json::parse(result.out);
  EXPECT_EQ(report["residual_statistics"]["left_out"], 1);
  EXPECT_EQ(report["residual_statistics"]["degrees_of_freedom"], 1);
  EXPECT_EQ(report["covariance"]["parameters"], Json({"slope", "offset"}));
  const CommandResult text = topograd("solve '" + file + "' --backend cpu");
  for (const char* part : {"at its upper bound", "constant", "4 rows, 1 of them with weight 0"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
}

/// Rows that are data, less the coordinates that they can move.
TEST(CommandAnswer, DegreesOfFreedomCountDataAndWhatMoves) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "count.json";
  const std::string y = R"("data": [{"name": "y", "values": [1, 2, 3, 5]}], )",
                    five = R"("data": [{"name": "y", "values": [0.1, 0.2, 0.3, 0.4, 0.5]}], )",
                    a = R"({"name": "a", "values": [0]})", b = R"({"name": "b", "values": [0.5]})";
  const auto rows = [](const std::string& expression, const std::string& reads,
                       const std::string& more = "") {
    return R"("residuals": [{"expressions": [")" + expression + R"("], "parameters": )" + reads +
           R"(, "data": ["y"])" + more + "}]}";
  };
  const auto unknowns = [](const std::string& list) {
    return R"({"parameters": [)" + list + "], ";
  };
  const struct {
    std::string problem;
    int freedom, left_out;
  } cases[] = {
      {unknowns(a) + y + rows("a - y", R"(["a"])"), 3, 0},
      {unknowns(a) + R"("data": [{"name": "y", "values": [2]}], )" + rows("a - y", R"(["a"])"), 0,
       0},
      {unknowns(a + R"(, {"name": "b", "values": [0.5], "constant": true})") + y +
           rows("a + b - y", R"(["a", "b"])"),
       3, 0},
      {unknowns(a + ", " + b) + y + rows("a - y", R"(["a"])"), 3, 0},
      {unknowns(R"({"name": "a", "values": [0, 1, 2]})") + y +
           rows("a - y", R"({"a": {"array": "a", "index": 1}})"),
       3, 0},
      {unknowns(a) + y + rows("a - y", R"(["a"])", R"(, "weight": [1, 0, 1, 0])"), 1, 2},
      {unknowns(R"({"name": "a", "values": [5], "lower": 4})") + y + rows("a - y", R"(["a"])"), 3,
       0},
      {unknowns(R"({"name": "n", "values": [0.6, 0, 0.8], "width": 3, "manifold": "sphere"})") +
           five + rows("n[0] + n[1] * y + n[2] * y^2 - 0.9", R"(["n"])"),
       3, 0},
      {unknowns(
           R"({"name": "q", "values": [1, 0.1, 0.2, 0.3], "width": 4, "manifold": "quaternion"})") +
           five + rows("q[0] * y + q[1] * y^2 + q[2] + q[3] * y^3 - 0.9", R"(["q"])"),
       2, 0},
      {unknowns(
           R"({"name": "q", "values": [1, 0.1, 0.2], "width": 3, "manifold": {"subset": [1]}})") +
           y + rows("q[0] * y + q[1] * y^2 + q[2] - 0.9", R"(["q"])"),
       2, 0},
      {unknowns(a) + R"("uniforms": [{"name": "w", "value": 0}], )" + y +
           R"("residuals": [{"expressions": ["a - y"], "parameters": ["a"], "data": ["y"],
               "weight": "w"}, {"expressions": ["a - 1"], "parameters": ["a"]}]})",
       0, 4},
      {unknowns(a + ", " + b) + R"("data": [{"name": "y", "values": [2]}], )" +
           rows("a + b - y", R"(["a", "b"])"),
       0, 0},
      // b has only a point that is left out.
      {unknowns(a + ", " + b) + y +
           R"("residuals": [{"expressions": ["a - y"], "parameters": ["a"], "data": ["y"]},
               {"expressions": ["a + b"], "parameters": ["a", "b"], "weight": [0]}]})",
       3, 1}};
  for (const auto& row : cases) {
    SCOPED_TRACE(row.problem);
    std::ofstream(file) << row.problem;
    const CommandResult result = topograd("solve '" + file + "' --backend cpu --quiet --json -");
    ASSERT_EQ(result.status, 0) << result.err;
    const Json report = Json::parse(result.out);
    const Json& statistics = report["residual_statistics"];
    EXPECT_EQ(statistics["degrees_of_freedom"], row.freedom);
    EXPECT_EQ(report["degrees_of_freedom"], row.freedom);
    EXPECT_EQ(statistics["left_out"], row.left_out);
    if (row.freedom == 0) {
      EXPECT_TRUE(statistics["reduced_chi2"].is_null());
    } else {
      const double chi2 = 2 * report["final_cost"].get<double>() / row.freedom;
      EXPECT_NEAR(statistics["reduced_chi2"].get<double>(), chi2, 1e-12 * chi2);
    }
  }
}

/// The answer is that of the problem without the point: a = b = 1, exactly.
TEST(CommandAnswer, WeightZeroLeavesAPointOutWithoutAValue) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "log.json";
  const auto expect_fit = [&](const std::string& residuals) {
    std::ofstream(file) << R"({"parameters": [{"name": "a", "values": [3]},
                                              {"name": "b", "values": [2]}],
      "data": [{"name": "t", "values": [0, 1, 2, 4, 8]},
               {"name": "y", "values": [0, 1, 1.6931471805599454, 2.386294361119891,
                                        3.0794415416798357]}],
      "uniforms": [{"name": "w", "value": 0}], )" +
                               residuals + "}";
    for (const char* method : {"levenberg_marquardt", "lbfgs"}) {
      const CommandResult result = topograd("solve '" + file + "' --backend cpu --method " +
                                            method + " --covariance --quiet --json -");
      ASSERT_EQ(result.status, 0) << result.err;
      const Json report = Json::parse(result.out);
      EXPECT_EQ(report["termination"], "CONVERGENCE") << report["message"];
      EXPECT_LT(report["final_cost"].get<double>(), 1e-9);
      EXPECT_EQ(report["residual_statistics"]["degrees_of_freedom"], 2);
      EXPECT_EQ(report["covariance"]["parameters"], Json({"a", "b"}));
    }
  };
  expect_fit(R"("residuals": [{"expressions": ["a + b * log(t) - y"], "parameters": ["a", "b"],
                               "data": ["t", "y"], "weight": [0, 1, 1, 1, 1]}])");
  // By a uniform, and with other residuals for the points that count.
  expect_fit(R"("residuals": [{"expressions": ["a + b * log(t) - y"], "parameters": ["a", "b"],
                               "data": {"t": [0], "y": [1]}, "weight": "w"},
                              {"expressions": ["a + b * log(t) - y"], "parameters": ["a", "b"],
                               "data": {"t": [1, 2, 4, 8],
                                        "y": [1, 1.6931471805599454, 2.386294361119891,
                                              3.0794415416798357]}}])");
}

TEST(CommandAnswer, ConfidenceIsThatOfTheTables) {
  // Ten measurements of one number: the t of nine degrees of freedom is 2.262157, that of two
  // sides at 95 %; and of two numbers, F(2, 8) is 4.458970.
  const TemporaryDir folder;
  const std::string file = folder.path() / "mean.json";
  const auto solved = [&](const std::string& text) {
    std::ofstream(file) << text;
    const CommandResult result =
        topograd("solve '" + file + "' --backend cpu --covariance --json -");
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out)["covariance"];
  };
  const std::string data = R"("data": {"t": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
                                       "v": [2, 4, 3, 5, 4, 6, 7, 5, 8, 9]})";
  const Json mean = solved(R"({"parameters": [{"name": "m", "values": [0]}], )" + data +
                           R"(, "residuals": [{"expressions": ["m - v"], "parameters": ["m"],
                               "data": ["v"]}]})");
  const double error = mean["standard_errors"][0];
  // Σ (v − 5.3)² = 44.1.
  EXPECT_NEAR(error, std::sqrt(44.1 / 9 / 10), 1e-9);
  EXPECT_EQ(mean["confidence_level"], 0.95);
  EXPECT_NEAR(mean["confidence_half_widths"][0].get<double>() / error, 2.262157, 1e-6);
  EXPECT_NEAR(mean["confidence_region"]["bound"].get<double>(), 2.262157 * 2.262157, 1e-5);
  const std::string line = R"({"parameters": [{"name": "a", "values": [0]},
                                              {"name": "b", "values": [0]}], )" +
                           data;
  const std::string rows = R"(, "residuals": [{"expressions": ["a + b * t - v"],
      "parameters": ["a", "b"], "data": ["t", "v"]}])";
  const Json both = solved(line + rows + "}");
  EXPECT_EQ(both["confidence_region"]["dimension"], 2);
  EXPECT_NEAR(both["confidence_region"]["bound"].get<double>(), 2 * 4.458970, 1e-5);
  EXPECT_NEAR(
      both["confidence_half_widths"][1].get<double>() / both["standard_errors"][1].get<double>(),
      2.306004, 1e-6);
  // With a + 5.5 b = 5 the line turns around its middle, which is almost the mean: b has the same
  // error up to the variance, and a = 5 − 5.5 b has 5.5 times that of b.
  const Json held = solved(line + rows + R"(, "equalities": [{"expressions": ["a + 5.5 * b - 5"],
      "parameters": ["a", "b"]}]})");
  EXPECT_EQ(held["confidence_region"]["dimension"], 1);
  EXPECT_NEAR(held["standard_errors"][0].get<double>(),
              5.5 * held["standard_errors"][1].get<double>(), 1e-9);
  EXPECT_NEAR(held["correlations"][0][1].get<double>(), -1, 1e-9);
  // s²(b) = Σr² / 9 / Σ(t − 5.5)², Σ(t − 5.5)² = 82.5; of v − 5 = b (t − 5.5).
  double product = 0, square = 0;
  const double v[] = {2, 4, 3, 5, 4, 6, 7, 5, 8, 9};
  for (int k = 0; k < 10; ++k) {
    product += (k - 4.5) * (v[k] - 5);
    square += (v[k] - 5) * (v[k] - 5);
  }
  const double slope = product / 82.5;
  EXPECT_NEAR(held["standard_errors"][1].get<double>(),
              std::sqrt((square - slope * product) / 9 / 82.5), 1e-7);
}

TEST(CommandAnswer, LargeProblemsShowExtremesAndPlaces) {
  const CommandResult result = topograd("solve springs --width 10 --backend cpu");
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* part : {"  positions[.][0]  ", "(block ", ", 100 blocks", "\"spring\" #"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
}

TEST(CommandAnswer, CovarianceThatIsNotThereIsSaid) {
  const TemporaryDir folder;
  const std::string file = folder.path() / "sum.json";
  std::ofstream(file) << R"({"parameters": [{"name": "a", "values": [0]},
                                            {"name": "b", "values": [0]}],
    "residuals": [{"expressions": ["a + b - v"], "parameters": ["a", "b"],
                   "data": {"v": [1, 2, 3]}}]})";
  const CommandResult result = topograd("solve '" + file + "' --backend cpu --covariance");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find(
                "No standard errors: covariance: the residuals do not determine parameter \"a\""),
            std::string::npos)
      << result.out;
  // Unknowns of others, that nothing determines, do not disturb the mean of four numbers.
  std::ofstream(file) << R"({"parameters": [{"name": "a", "values": [1]},
                                            {"name": "spare", "values": [5, 6]},
                                            {"name": "c", "values": [1]}, {"name": "d", "values": [2]}],
    "residuals": [{"expressions": ["a - y"], "parameters": ["a"], "data": {"y": [1, 2, 3, 5]}},
                  {"expressions": ["c - d"], "parameters": ["c", "d"]}]})";
  const CommandResult partly = topograd("solve '" + file + "' --backend cpu --covariance --json -");
  ASSERT_EQ(partly.status, 0) << partly.err;
  const Json covariance = Json::parse(partly.out)["covariance"];
  EXPECT_EQ(covariance["parameters"], Json({"a"}));
  EXPECT_EQ(covariance["undetermined"], Json({"spare[0]", "spare[1]", "c", "d"}));
  // Σ (y − 2.75)² = 8.75, on 5 − 3 degrees of freedom.
  EXPECT_NEAR(covariance["standard_errors"][0].get<double>(), std::sqrt(8.75 / 2 / 4), 1e-9);
  EXPECT_EQ(covariance["confidence_region"]["dimension"], 1);

  const CommandResult large = topograd("solve springs --width 30 --backend cpu --covariance");
  EXPECT_EQ(large.status, 2);
  EXPECT_EQ(large.err, "topograd: springs: --covariance expects at most 1000 unknowns, got 2700\n");
}

/// Progress that is shown is no reason to solve components together.
TEST(CommandAnswer, ComponentsDoNotDependOnWhatIsPrinted) {
  const TemporaryDir folder;
  const std::string problem = folder.path() / "many.json", json = folder.path() / "report.json";
  std::string t;
  for (int k = 1; k <= 40; ++k) t += (k == 1 ? "" : ", ") + std::to_string(0.1 * k);
  std::ofstream(problem) << R"({"repeat": 40, "parameters": [{"name": "p", "values": [0]}],
    "data": {"t": [)" << t
                         << R"(]},
    "residuals": [{"expressions": ["exp(p * t) - 2"], "parameters": ["p"], "data": ["t"]}]})";
  for (const char* options : {"", " --quiet"}) {
    const CommandResult run = topograd("solve '" + problem + "' --json '" + json + "'" + options);
    EXPECT_EQ(run.status, 0) << run.err;
    const nlohmann::json report = read_json(json);
    EXPECT_EQ(report["components"]["solved"], "separate") << options;
    EXPECT_EQ(report["components"]["count"], 40) << options;
  }
}

}  // namespace
}  // namespace topograd::test
