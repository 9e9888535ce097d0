// One page about a solve, for browsers: nothing else is needed to read it.
#pragma once

#include "answer.hpp"

#include "../../../api/source.hpp"
#include "../../../solver/summary.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace topograd::command {

/// What a page tells beside the summary.
struct PageContent {
  std::string title;    ///< what was solved
  std::string command;  ///< how it was called
  std::string picture;  ///< bytes of a PNG, before and after; empty if there is none
  std::string legend;   ///< what its colours mean
  std::vector<NamedSource> kernels;
  struct Row {
    std::string name;  ///< of the solver
    double seconds = 0, cost = 0;
    int iterations = 0;
    std::string note;
  };
  std::vector<Row> peers;  ///< ours first; empty if no other solver ran
  Answer answer;
  bool verbose = false;  ///< with Summary::full_report(), counters and all
};

/// The page: result, unknowns, curves through points, residuals, pictures, cost, gradient and step
/// per iteration as plots, times of the phases, kernels with their source, and every step.
std::string html_report(const Summary& summary, const PageContent& content);

/// The page of a set of solves: a row a run, as SetReport::json() has them.
std::string html_set_report(const nlohmann::ordered_json& report, const PageContent& content);

}  // namespace topograd::command
