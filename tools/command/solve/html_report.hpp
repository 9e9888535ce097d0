// A self-contained HTML page about a solve, with plots as SVG.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "../../../api/source.hpp"
#include "../../../solver/summary.hpp"
#include "answer.hpp"

namespace topograd::command {

/// A quantity at the steps 0, 1, 2, ... of a solve.
struct Plot {
  std::string title;
  std::vector<double> values;  ///< values that are not finite are omitted
  std::vector<bool> marked;    ///< steps with a hollow mark; may be empty
};

/// The plot as an <svg> element. The ordinate is logarithmic if the positive values span more than
/// a factor of 20; values of 0 among them are then omitted. It is linear otherwise, and if a value
/// is negative. Empty if no value is left.
std::string svg(const Plot& plot);

/// Points, with a fitted curve.
struct FitPlot {
  std::string title, x_name, y_name;
  std::vector<double> x, y;              ///< points that are not finite are omitted
  std::vector<bool> marked;              ///< points with a hollow mark; may be empty
  std::vector<double> curve_x, curve_y;  ///< ascending in x
};

/// The plot as an <svg> element with linear axes. If there are many points, some thousand are
/// chosen evenly, always including the ends. Empty if no point is finite.
std::string svg(const FitPlot& plot);

/// "0.0123", "4.5e-9": a short form for readers.
std::string short_number(double value, int digits = 4);

/// Contents of a page besides the summary.
struct PageContent {
  std::string title;    ///< what was solved
  std::string command;  ///< command line of the solve
  std::string picture;  ///< bytes of a PNG, before and after; may be empty
  std::string legend;   ///< meaning of its colours
  std::vector<NamedSource> kernels;
  struct Row {
    std::string name;  ///< name of the solver
    double seconds = 0, cost = 0;
    int iterations = 0;
    std::string note;
  };
  std::vector<Row> peers;  ///< this library first; empty if no other solver ran
  Answer answer;
  bool verbose = false;  ///< with Summary::full_report() and counters
};

/// The page: result, unknowns, fitted curves, residuals, pictures, plots of cost, gradient and step
/// per iteration, times of the phases, kernels with their source, and every step.
std::string html_report(const Summary& summary, const PageContent& content);

/// The page of a set of solves: one row per run of SetReport::json().
std::string html_set_report(const nlohmann::ordered_json& report, const PageContent& content);

}  // namespace topograd::command
