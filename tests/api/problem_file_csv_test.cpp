// Problem files: numbers from CSV files, fitted curves, and parameters by name.
#include "../support/paths.hpp"

#include "../../api/problem_file.hpp"
#include "../../ir/error.hpp"
#include "../../solver/covariance.hpp"
#include "../../solver/evaluator.hpp"
#include "../../solver/solve.hpp"

#include <gtest/gtest.h>

#include <zlib.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace topograd::test {
namespace {

double cost_at_start(ProblemFile& file) {
  return Evaluator(file.problem, {.backend = Backend::cpu}).cost();
}

/// The text of a problem whose only residual reads columns of a file.
std::string with_csv(const std::string& data, const std::string& rest = "") {
  return "{\"parameters\": [{\"name\": \"v\", \"values\": [1, 2, 3]}],\n \"data\": " + data +
         ",\n \"residuals\": [{\"expressions\": [\"v * t - y\"], \"parameters\": [\"v\"], "
         "\"data\": [\"t\", \"y\"]" +
         rest + "}]}";
}

constexpr const char* kBothColumns =
    R"({"t": {"csv": "p.csv", "column": "time"}, "y": {"csv": "p.csv", "column": 2}})";

std::unique_ptr<ProblemFile> parse_with(const std::string& csv, const std::string& text) {
  return parse_problem_file(text, "f.json", [&](const std::string& path) {
    if (path != "p.csv") throw Error(ErrorCode::File, path + ": cannot be read");
    return csv;
  });
}

TEST(ProblemFileCsv, ReadsColumnsOfCsvFiles) {
  const char* tables[] = {
      "time,note,volume\n1,2,4\n2,0,5\n3,0,6\n",
      "\xef\xbb\xbf# a station\r\ntime ;note; volume\r\n\r\n 1;2;4\r\n2;0; +5\r\n3;0;6.0e0",
      "time\tnote\tvolume\n1\t2\t4\n\n2\t0\t5\n3\t0\t6\n",
      "\"time\",\"a, \"\"b\"\"\",volume\n\"1\",\"x\ny\",4\n2,0,5\n3,0,6\n"};
  const double cost = (9 + 1 + 9) / 2.0;  // ½ Σ (v t - y)², v = t = 1, 2, 3
  for (const char* table : tables) {
    EXPECT_EQ(cost_at_start(*parse_with(table, with_csv(kBothColumns))), cost) << table;
    EXPECT_EQ(cost_at_start(*parse_with(
                  table, with_csv(R"([{"name": "t", "values": {"csv": "p.csv", "column": "time"}},
                                      {"name": "y", "csv": "p.csv", "column": "volume"}])"))),
              cost)
        << table;
  }
  // Without names, side by side, as starts, weights and indices; relative to the problem's folder.
  const TemporaryDir folder;
  std::ofstream(folder.path() / "p.csv") << "1,4,0.5,2\n2,5,1,1\n3,6,2,0\n";
  std::ofstream(folder.path() / "f.json") << R"({
    "parameters": [{"name": "v", "csv": "p.csv", "column": 0},
                   {"name": "p", "values": {"csv": "p.csv", "column": [0, 1]}}],
    "residuals": [{"expressions": ["v - y; q.x; q.y"], "weight": {"csv": "p.csv", "column": 2},
                   "parameters": {"v": {"array": "v", "index": {"csv": "p.csv", "column": 3}},
                                  "q": "p"},
                   "data": {"y": {"csv": "p.csv", "column": 1}}}]})";
  const auto file = read_problem_file(folder.path() / "f.json");
  EXPECT_EQ(file->parameters[1].width, 2u);
  EXPECT_EQ(file->parameters[1].values, (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_NEAR(cost_at_start(*file),
              0.5 * (0.5 * (1 + 1 + 16) + 1 * (9 + 4 + 25) + 2 * (25 + 9 + 36)), 1e-12);
}

TEST(ProblemFileCsv, TakesTheFirstRowForNamesOnlyWithoutNumbersInItsColumns) {
  // ½ Σ (v t - y)² with v = 1, 2, 3 over the rows that are numbers.
  const struct {
    const char *csv, *t, *y;
    std::size_t rows;
    bool header;
    double cost;
  } rows[] = {
      {"M,1,4\nF,2,0\nI,3,6\n", "1", "2", 3, false, (9 + 16 + 9) / 2.0},
      {"1,?,4\n2,x,0\n3,y,6\n", "0", "2", 3, false, (9 + 16 + 9) / 2.0},
      {"a,b,c\n1,2,4\n2,0,0\n3,0,6\n", "0", "2", 3, true, (9 + 16 + 9) / 2.0},
      {"a,2024,c\n1,2,4\n2,0,0\n3,0,6\n", "0", "2", 3, true, (9 + 16 + 9) / 2.0},
      {"10,20,30\n1,2,4\n2,0,0\n3,0,6\n", "\"10\"", "2", 3, true, (9 + 16 + 9) / 2.0},
      {"10,20,30\n1,2,4\n2,0,0\n3,0,6\n", "0, \"header\": true", "2", 3, true, (9 + 16 + 9) / 2.0},
      {"M,1,4\nF,2,0\nI,3,6\n", "1", "2, \"header\": false", 3, false, (9 + 16 + 9) / 2.0},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.csv);
    const auto file =
        parse_with(row.csv, with_csv(R"({"t": {"csv": "p.csv", "column": )" + std::string(row.t) +
                                     R"(}, "y": {"csv": "p.csv", "column": )" + row.y + "}}"));
    ASSERT_EQ(file->tables.size(), 1u);
    EXPECT_EQ(file->tables[0].path, "p.csv");
    EXPECT_EQ(file->tables[0].rows, row.rows);
    EXPECT_EQ(file->tables[0].header, row.header);
    EXPECT_EQ(cost_at_start(*file), row.cost);
  }
}

TEST(ProblemFileCsv, ReadsColumnsThatBlanksSeparate) {
  const char* tables[] = {
      "time note volume\n1 2 4\n2 0 5\n3 0 6\n",
      "#-----\n#  col1  col2\n time   note volume  # of a sensor\n  1.0 2\t4\n\n  2 0   5 # \n 3 0 "
      "6",
  };
  const double cost = (9 + 1 + 9) / 2.0;
  for (const char* table : tables)
    EXPECT_EQ(cost_at_start(*parse_with(table, with_csv(kBothColumns))), cost) << table;
  const auto bare = parse_with("# t n v\n  1 2 4\n  2 0 5\n  3 0 6\n",
                               with_csv(R"({"t": {"csv": "p.csv", "column": 0},
                                            "y": {"csv": "p.csv", "column": 2}})"));
  EXPECT_EQ(cost_at_start(*bare), cost);
  EXPECT_FALSE(bare->tables[0].header);
}

TEST(ProblemFileCsv, SkipsRowsWithMissingNumbersInColumnsThatAreRead) {
  const std::string rows =
      "time,note,volume\n1,,4\n,0,9\n2,x,5\n7,0,NA\n7,0,NaN\n7,0,?\nnull,0,1\n3,NA,6\n";
  const auto file =
      parse_with(rows, with_csv(R"({"t": {"csv": "p.csv", "column": "time", "skip_missing": true},
                         "y": {"csv": "p.csv", "column": 2}})"));
  EXPECT_EQ(cost_at_start(*file), (9 + 1 + 9) / 2.0);
  EXPECT_EQ(file->tables[0].rows, 3u);
  EXPECT_EQ(file->tables[0].skipped, 5u);
  const auto all = parse_with("time,note,volume\n1,2,4\n2,0,5\n3,0,6\n", with_csv(kBothColumns));
  EXPECT_FALSE(all->tables[0].skipped.has_value());
}

TEST(ProblemFileCsv, ReadsPackedFiles) {
  const TemporaryDir folder;
  const std::string text = "t y\n1 4\n2 5\n3 6\n", path = (folder.path() / "p.csv.gz").string();
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  std::ofstream(folder.path() / "f.json") << with_csv(R"({"t": {"csv": "p.csv.gz", "column": "t"},
                      "y": {"csv": "p.csv.gz", "column": "y"}})");
  EXPECT_EQ(cost_at_start(*read_problem_file((folder.path() / "f.json").string())), 19 / 2.0);
}

TEST(ProblemFileCsv, SaysWhereACsvFileIsWrong) {
  const struct {
    const char *csv, *data, *error;
  } rows[] = {
      {"time,note,volume\n1,2,4\n2,0,five\n", kBothColumns,
       "f.json:2:84: /data/y/column: p.csv:3: expected a finite number in column \"volume\", got "
       "\"five\""},
      {"time,note,volume\n1,2,nan\n", kBothColumns,
       "f.json:2:84: /data/y/column: p.csv:2: expected a finite number in column \"volume\", got "
       "\"nan\""},
      {"time;note;volume\n1;2;4,5\n", kBothColumns,
       "f.json:2:84: /data/y/column: p.csv:2: expected a finite number in column \"volume\", got "
       "\"4,5\", which has a decimal comma: numbers have a point"},
      {"1,5 2 4,5\n2 1 3,5\n", R"({"t": {"csv": "p.csv", "column": 0}})",
       "f.json:2:43: /data/t/column: p.csv:1: expected a finite number in column 0, got \"1,5\", "
       "which has a decimal comma: numbers have a point"},
      {"time,note,volume\n1,2,2024-01-31\n", kBothColumns,
       "f.json:2:84: /data/y/column: p.csv:2: expected a finite number in column \"volume\", got "
       "\"2024-01-31\", a date or a time: write it as a number"},
      {"time,note,volume\n1,2,12:30\n", kBothColumns,
       "f.json:2:84: /data/y/column: p.csv:2: expected a finite number in column \"volume\", got "
       "\"12:30\", a date or a time: write it as a number"},
      {"time,note,volume\n1,2,\n", kBothColumns,
       "f.json:2:84: /data/y/column: p.csv:2: expected a finite number in column \"volume\", got "
       "\"\": \"skip_missing\": true skips such rows"},
      {"\xff\xfe"
       "1",
       kBothColumns,
       "f.json:2:24: /data/t/csv: p.csv:1: expected text in UTF-8, got UTF-16; save the file as "
       "UTF-8"},
      {"time note volume\n1 2\n", kBothColumns,
       "f.json:2:24: /data/t/csv: p.csv:2: expected 3 fields as the first row has, got 2"},
      {"t\n?\n", R"({"t": {"csv": "p.csv", "column": "t", "skip_missing": true}})",
       "f.json:2:24: /data/t/csv: p.csv:2: expected rows of numbers, got none; 1 row with missing "
       "numbers was skipped"},
      {"1,2\n", R"({"t": {"csv": "p.csv", "column": 0, "skip_missing": 1}})",
       "f.json:2:62: /data/t/skip_missing: expected true or false, got 1"},
      {"t,note,volume\n1,2,4\n", kBothColumns,
       "f.json:2:43: /data/t/column: p.csv: expected one of the columns t, note, volume, got "
       "\"time\""},
      {"1,2,4\n", kBothColumns,
       "f.json:2:43: /data/t/column: p.csv: expected a column by its number, the first row has no "
       "names, got \"time\""},
      {"time,volume,time\n1,2,3\n", kBothColumns,
       "f.json:2:43: /data/t/column: p.csv: expected one column \"time\", got several of that "
       "name; "
       "give its number from 0"},
      {"time,volume\n1,2\n", kBothColumns,
       "f.json:2:84: /data/y/column: p.csv: expected a column below 2, got 2"},
      {"time,note,volume\n1,2,4\n\n1,2\n", kBothColumns,
       "f.json:2:24: /data/t/csv: p.csv:4: expected 3 fields as the first row has, got 2"},
      {"time,\"note,volume\n1,2,4\n", kBothColumns,
       "f.json:2:24: /data/t/csv: p.csv:1: expected an end of the quoted field"},
      {"time,note,volume\n", kBothColumns,
       "f.json:2:24: /data/t/csv: p.csv:1: expected rows of numbers, got none"},
      {"M,1,nan\nF,2,3\n", R"({"t": {"csv": "p.csv", "column": 2}})",
       "f.json:2:43: /data/t/column: p.csv:1: expected a finite number in column 2, got \"nan\""},
      {"a,b\n1,2\n", R"({"t": {"csv": "p.csv", "column": "a", "header": false}})",
       "f.json:2:43: /data/t/column: p.csv: expected a column by its number, the first row has no "
       "names, got \"a\""},
      {"1,2\n", R"({"t": {"csv": "p.csv", "column": 0, "header": 1}})",
       "f.json:2:56: /data/t/header: expected true or false, got 1"},
      {"1,2\n3,4\n",
       R"({"t": {"csv": "p.csv", "column": 0, "header": false},
           "y": {"csv": "p.csv", "column": 1, "header": true}})",
       "f.json:2:56: /data/t/header: expected one value for p.csv, got true and false"},
      {"1\n", R"({"t": {"values": [1, 2, 3], "header": true}})",
       "f.json:2:48: /data/t/header: expected \"header\" beside \"csv\""},
      {"1\n", R"({"t": {"csv": "q.csv", "column": 0}})",
       "f.json:2:24: /data/t/csv: q.csv: cannot be read"},
      {"1\n", R"({"t": {"csv": "p.csv"}})", "f.json:2:16: /data/t: expected the key \"column\""},
      {"1\n", R"({"t": {"csv": "p.csv", "column": -1}})",
       "f.json:2:43: /data/t/column: expected the name of a column or its number from 0, got -1"},
  };
  for (const auto& row : rows) {
    try {
      parse_with(row.csv, with_csv(row.data));
      ADD_FAILURE() << row.error << ": no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), row.error);
      EXPECT_EQ(error.code(), ErrorCode::Parse);
    }
  }
}

TEST(ProblemFileCsv, NamesDoNotEndAtNul) {
  try {
    parse_problem_file(R"({"parameters": [{"name": "x", "values": [1]}],
      "data": [{"name": "d", "values": {"csv": "a\u0000b.csv", "column": 0}}], "residuals": []})",
                       "nul.json", [](const std::string&) { return std::string("1\n"); });
    ADD_FAILURE() << "the name ends at its second character";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("with the character \\u0000"), std::string::npos)
        << error.what();
  }
}

TEST(ProblemFileNames, ErrorsOfSolvesNameParameters) {
  const auto file = parse_problem_file(
      R"({"parameters": [{"name": "tau", "values": [0]}, {"name": "points", "width": 2,
                          "values": [1, 2, 3, 4]}],
          "residuals": [{"label": "decay", "expressions": ["1 / tau + p.x"],
                         "parameters": {"tau": "tau", "p": {"array": "points", "index": 1}}}]})",
      "f.json");
  const SolverOptions options{.backend = Backend::cpu};
  const auto message = [&] {
    try {
      solve(file->problem, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_TRUE(message().starts_with("solve: residual \"decay\" #0 ")) << message();
  file->parameters[0].values[0] = std::nan("");
  EXPECT_EQ(message(), "solve: parameter \"tau\" is nan at the start; expected a finite number");
  file->parameters[0].values[0] = 1;
  file->parameters[1].values[3] = INFINITY;
  EXPECT_EQ(message(),
            "solve: parameter \"points\", block 1, coordinate 1 is inf at the start; expected a "
            "finite number");
}

TEST(ProblemFileNames, OtherErrorsNameParameters) {
  const auto file = parse_problem_file(
      R"({"parameters": [{"name": "tau", "values": [0], "lower": -1},
                         {"name": "spare", "width": 2, "values": [1, 2]}],
          "residuals": [{"expressions": ["tau - 1"], "parameters": ["tau"]}]})",
      "f.json");
  const SolverOptions options{.backend = Backend::cpu};
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message([&] { Covariance(file->problem, {.solver = options}); }), "no error")
      << "what nothing reads is undetermined, and the rest has a covariance";
  file->parameters[0].values[0] = -2;
  EXPECT_EQ(message([&] { solve(file->problem, options); }),
            "solve: parameter \"tau\" starts at -2, outside its bounds [-1, inf]");
  file->parameters[0].values[0] = 0;
  const Summary summary = solve(file->problem, options);
  EXPECT_EQ(summary.unread_names, std::vector<std::string>{"parameter \"spare\""});
}

TEST(ProblemFileCurve, FindsTheCurveThatABlockFits) {
  const struct {
    const char *expression, *rest;
    double at_two;  ///< the curve there; NaN: none
  } rows[] = {
      {"m * exp(c * t) - y", "", 3 * std::exp(0.5 * 2)},
      {"(y - (m * t + c)) / s", "", 6.5},
      {"y - m * t - c", R"(, "weight": [1, 0, 2])", 6.5},
      {"log(y) - m * t", "", NAN},
      {"y * t * m - 1", "", NAN},
      {"m * t + c * s - y", "", NAN},
      {"m * t - y; c", "", NAN},
      {"m - y", "", NAN},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.expression);
    const auto file = parse_problem_file(
        R"({"parameters": [{"name": "m", "values": [3]}, {"name": "c", "values": [0.5]}],
            "data": {"t": [0, 1, 4], "y": [1, 2, 3], "s": [0.1, 0.2, 0.1]},
            "residuals": [{"label": "l", "expressions": [")" +
            std::string(row.expression) + R"("], "parameters": ["m", "c"],
                           "data": ["t", "y", "s"])" +
            row.rest + "}]}",
        "f.json");
    if (std::isnan(row.at_two)) {
      EXPECT_TRUE(file->curves.empty());
      continue;
    }
    ASSERT_EQ(file->curves.size(), 1u);
    const Curve& curve = file->curves[0];
    EXPECT_EQ(curve.x_name + curve.y_name + curve.label, "tyl");
    EXPECT_EQ(curve.y, (std::vector<double>{1, 2, 3}));
    EXPECT_NEAR(curve.fit(std::vector<double>{2})[0], row.at_two, 1e-14);
  }
  const auto own = parse_problem_file(
      R"({"parameters": [{"name": "m", "values": [3, 4]}], "data": {"t": [0, 1], "y": [1, 2]},
          "residuals": [{"expressions": ["m * t - y"], "parameters": ["m"], "data": ["t", "y"]}]})",
      "f.json");
  EXPECT_TRUE(own->curves.empty()) << "every instance has a slope of its own";
}

}  // namespace
}  // namespace topograd::test
