// Report of a set of solves.
#include "set_report.hpp"

#include "../../../solver/summary_json.hpp"

#include <cmath>
#include <cstdio>

namespace topograd::command {
namespace {

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

/// Adds all fields except the costs.
void add_summary(Summary& total, const Summary& s) {
  if (total.termination == Termination::CONVERGENCE) total.termination = s.termination;
  if (total.backend.empty()) {  // no run had a backend yet
    total.backend = s.backend;
    total.on_device = s.on_device;
    total.device = s.device;
    total.why = s.why;
    total.accumulation = s.accumulation;
    total.linear_solver = s.linear_solver;
    total.linear_solver_note = s.linear_solver_note;
  }
  total.num_successful_steps += s.num_successful_steps;
  total.num_unsuccessful_steps += s.num_unsuccessful_steps;
  total.num_nonfinite_steps += s.num_nonfinite_steps;
  total.num_repeated_steps += s.num_repeated_steps;
  total.num_escapes += s.num_escapes;
  total.num_linear_iterations += s.num_linear_iterations;
  total.unknowns += s.unknowns;
  total.parameters += s.parameters;
  total.residuals += s.residuals;
  total.topologies.insert(total.topologies.end(), s.topologies.begin(), s.topologies.end());
  total.times += s.times;
  static_cast<runtime::EngineCounts&>(total) += s;
}

void print_row(const Run& run, const Summary& summary) {
  std::printf("%-22s %3d  cost %.10e  %5.2f digits  %5d iterations  %s%s\n", run.name.c_str(),
              run.start, summary.final_cost, run.digits, summary.num_iterations(),
              std::string(name(summary.termination)).c_str(), run.solved ? "" : "  NOT SOLVED");
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const PeerRun& run) {
  const PeerReport& peer = run.report;
  nlohmann::ordered_json row = {
      {"name", peer.name},           {"version", peer.version},
      {"libraries", peer.libraries}, {"linear_solver", peer.linear_solver},
      {"solved", run.solved},        {"cost", finite_or_null(peer.final_cost)}};
  row["digits"] = run.digits;
  row["iterations"] = peer.iterations;
  row["termination"] = peer.termination;
  row["time_s"] = row["solve_s"] = peer.solve_s;  // key of other problems, key of a run
  return row;
}

}  // namespace

void SetReport::add(const Run& run, const Summary& summary, std::span<const double> parameters,
                    bool quiet) {
  if (count_ == 0) {
    total_ = summary;
    total_.iterations.clear();
    total_.initial_cost = total_.final_cost = 0;
  } else {
    add_summary(total_, summary);
  }
  if (std::isfinite(summary.final_cost)) {
    total_.initial_cost += summary.initial_cost;
    total_.final_cost += summary.final_cost;
  } else {
    ++without_cost_;
  }
  total_.times.build_seconds += run.build_seconds;
  ++count_;
  solved_ += run.solved ? 1 : 0;
  if (summary.termination != Termination::CONVERGENCE && unconverged_++ == 0) {
    first_unconverged_ = run.name + " from start " + std::to_string(run.start) + ": " +
                         std::string(name(summary.termination));
  }
  if (!run.solved)
    short_ += (short_.empty() ? "" : ", ") + run.name + " from start " + std::to_string(run.start);
  nlohmann::ordered_json row = {{"name", run.name},
                                {"start", run.start},
                                {"solved", run.solved},
                                {"cost", finite_or_null(summary.final_cost)}};
  row["digits"] = run.digits;
  row["iterations"] = summary.num_iterations();
  row["termination"] = name(summary.termination);
  row["message"] = summary.message;
  row["linear_iterations"] = summary.num_linear_iterations;
  row["solve_s"] = summary.times.total_seconds;
  constexpr std::size_t kLongest = 64;
  if (parameters.size() <= kLongest) row["parameters"] = parameters;
  for (const PeerRun& peer : run.peers) {
    row["peers"].push_back(to_json(peer));
    peers_[peer.report.name + " " + peer.report.version] += peer.solved ? 1 : 0;
  }
  runs_.push_back(std::move(row));
  if (!quiet) print_row(run, summary);
}

std::string SetReport::unconverged() const {
  if (unconverged_ == 0) return "";
  return std::to_string(unconverged_) + " of " + std::to_string(count_) +
         " runs ended without convergence, the first is " + first_unconverged_;
}

std::string SetReport::verdict() const {
  std::string text = std::to_string(solved_) + " of " + std::to_string(count_) + " runs solved" +
                     (short_.empty() ? "" : "; short: " + short_);
  for (const auto& [peer, solved] : peers_) text += "; " + peer + ": " + std::to_string(solved);
  return text;
}

nlohmann::ordered_json SetReport::json() const {
  Summary total = total_;
  total.message = verdict();
  auto report = nlohmann::ordered_json::parse(to_json(total));
  report.erase("history");
  report["solved"] = solved_;
  report["runs_without_cost"] = without_cost_;
  report["runs"] = runs_;
  return report;
}

}  // namespace topograd::command
