// A self-contained HTML page about a solve.
#pragma once

#include "answer.hpp"

#include "../../../api/source.hpp"
#include "../../../solver/summary.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace topograd::command {

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
