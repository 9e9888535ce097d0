// The results of a solve as text and as JSON.
#include "answer.hpp"

#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <numeric>

namespace topograd::command {
namespace {

constexpr std::size_t kMostColumns = 8;  // of a matrix of correlations; for more columns
constexpr std::size_t kMostPairs = 10;   // the strongest pairs are shown

// snprintf to a string; all uses have literal formats.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* text, ...) {
  std::va_list arguments;
  va_start(arguments, text);
  std::va_list again;
  va_copy(again, arguments);
  std::string out(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, text, arguments)), '\0');
  std::vsnprintf(out.data(), out.size() + 1, text, again);
  va_end(again);
  va_end(arguments);
  return out;
}

std::string summary_row(const char* label, const std::string& value) {
  return formatted("%-14s %s\n", label, value.c_str());
}

std::size_t longest_name(const Answer& answer) {
  std::size_t longest = 0;
  for (const UnknownValue& u : answer.unknowns) longest = std::max(longest, u.name.size());
  for (const ArrayExtremes& e : answer.extremes) longest = std::max(longest, e.name.size());
  return longest;
}

std::string parameter_part(const Answer& answer) {
  const int width = static_cast<int>(longest_name(answer));
  std::string out = "Parameters";
  if (answer.uncertainty && answer.uncertainty->failure.empty())
    out += answer.uncertainty->scaled
               ? " (value, standard error for residuals of equal, unknown variance)"
               : " (value, standard error for residuals of variance 1)";
  out += "\n";
  for (const UnknownValue& u : answer.unknowns) {
    out += formatted("  %-*s  %18.10g", width, u.name.c_str(), u.value);
    if (u.error) out += formatted("  %14.6g", *u.error);
    if (!u.note.empty()) out += "  " + u.note;
    out += "\n";
  }
  for (const ArrayExtremes& e : answer.extremes) {
    out += formatted("  %-*s  %18.10g (block %zu) to %.10g (block %zu), %zu blocks\n", width,
                     e.name.c_str(), e.smallest, e.smallest_block, e.largest, e.largest_block,
                     e.blocks);
  }
  return out;
}

struct Pair {
  std::size_t a, b;
};

std::vector<Pair> strongest_pairs(const Uncertainty& u) {
  const std::size_t n = u.names.size();
  std::vector<Pair> pairs;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < a; ++b) pairs.push_back({a, b});
  const auto strength = [&](const Pair& p) { return -std::abs(u.correlation[p.a * n + p.b]); };
  const std::size_t most = std::min(kMostPairs, pairs.size());
  std::ranges::partial_sort(pairs, pairs.begin() + static_cast<std::ptrdiff_t>(most), {}, strength);
  pairs.resize(most);
  return pairs;
}

std::string correlation_part(const Answer& answer) {
  if (!answer.uncertainty) return "";
  const Uncertainty& u = *answer.uncertainty;
  if (!u.failure.empty()) return "No standard errors: " + u.failure + "\n\n";
  const std::size_t n = u.names.size();
  if (n < 2) return "";
  if (n > kMostColumns) {
    std::string out = "Strongest correlations\n";
    for (const Pair& p : strongest_pairs(u))
      out += formatted("  %8.5f  %s, %s\n", u.correlation[p.a * n + p.b], u.names[p.b].c_str(),
                       u.names[p.a].c_str());
    return out + "\n";
  }
  int width = 8;
  for (const std::string& name : u.names) width = std::max(width, static_cast<int>(name.size()));
  std::string out = "Correlations\n" + std::string(static_cast<std::size_t>(width) + 2, ' ');
  for (const std::string& name : u.names) out += formatted("  %*s", width, name.c_str());
  out += "\n";
  for (std::size_t a = 0; a < n; ++a) {
    out += formatted("  %-*s", width, u.names[a].c_str());
    for (std::size_t b = 0; b <= a; ++b)
      out += formatted("  %*.5f", width, u.correlation[a * n + b]);
    out += "\n";
  }
  return out + "\n";
}

/// Intervals of the unknowns that are shown with a standard error.
std::string confidence_part(const Answer& answer) {
  if (!answer.uncertainty || !answer.uncertainty->failure.empty()) return "";
  const Uncertainty& u = *answer.uncertainty;
  const int width = static_cast<int>(longest_name(answer));
  std::string out = formatted("Confidence intervals, %g %%\n", 100 * kConfidence);
  std::size_t shown = 0;
  for (const UnknownValue& one : answer.unknowns) {
    const auto at = std::ranges::find(u.names, one.name);
    if (at == u.names.end()) continue;
    const double half = u.half_intervals[static_cast<std::size_t>(at - u.names.begin())];
    out += formatted("  %-*s  %18.10g  to %.10g\n", width, one.name.c_str(), one.value - half,
                     one.value + half);
    ++shown;
  }
  if (shown == 0) return "";
  return out + formatted("  all together: (x - x*)' C^-1 (x - x*) <= %.6g, dimension %zu\n\n",
                         u.region, u.dimension);
}

std::string residual_part(const ResidualStatistics& r) {
  std::string out = "Residuals\n  " + std::to_string(r.rows) + " rows";
  if (r.left_out > 0) out += ", " + std::to_string(r.left_out) + " of them with weight 0";
  out += ", RMSE " + short_number(r.rmse, 6);
  if (r.reduced_chi2)
    out += ", reduced chi^2 " + short_number(*r.reduced_chi2, 6) + " (" +
           std::to_string(r.degrees_of_freedom) + " degrees of freedom)";
  out += "\n";
  for (const ResidualStatistics::Worst& w : r.worst)
    out += formatted("  %14.6g  %s\n", w.value, w.label.c_str());
  return out + "\n";
}

std::string solve_part(const Summary& s) {
  const std::string rejected = s.num_unsuccessful_steps == 0
                                   ? ""
                                   : ", " + std::to_string(s.num_unsuccessful_steps) + " rejected";
  std::string out = summary_row("Cost", short_number(s.final_cost, 10) + ", from " +
                                            short_number(s.initial_cost, 10)) +
                    summary_row("Steps", std::to_string(s.num_iterations()) + rejected + " (" +
                                             std::string(name(s.method)) + ", " +
                                             std::string(linear_solver_name(s)) + ", " +
                                             std::string(codegen::name(s.precision)) + ")") +
                    summary_row("Backend", s.backend + ", " + s.device) + "  why: " + s.why + "\n";
  if (!s.method_note.empty()) out += "  method: " + s.method_note + "\n";
  for (const std::string& name : s.unread_names) out += "Nothing reads " + name + ": unchanged\n";
  if (s.unread_blocks.size() > s.unread_names.size())
    out += "  and " + std::to_string(s.unread_blocks.size() - s.unread_names.size()) +
           " more that nothing reads\n";
  if (s.cross_check.compared > 0)
    out +=
        summary_row("Cross-check", std::to_string(s.cross_check.compared) + " outputs compared, " +
                                       std::to_string(s.cross_check.differences) + " differences");
  return out + summary_row("Time", short_number(s.times.total_seconds, 4) + " s") +
         summary_row("Termination", std::string(name(s.termination)) + " (" + s.message + ")");
}

}  // namespace

std::string report(const Answer& answer, const Summary& summary) {
  std::string out = answer.first_line.empty() ? "" : answer.first_line + "\n\n";
  if (!answer.title.empty()) out += answer.title + "\n\n";
  out += parameter_part(answer) + "\n" + confidence_part(answer) + correlation_part(answer);
  if (answer.residuals) out += residual_part(*answer.residuals);
  for (const std::string& line : answer.lines) out += line + "\n";
  if (!answer.lines.empty()) out += "\n";
  return out + solve_part(summary);
}

void describe(const Answer& answer, nlohmann::ordered_json& report) {
  if (answer.residuals) {
    const ResidualStatistics& r = *answer.residuals;
    nlohmann::ordered_json& statistics = report["residual_statistics"];
    statistics = {{"rows", r.rows},
                  {"left_out", r.left_out},
                  {"rmse", r.rmse},
                  {"degrees_of_freedom", r.degrees_of_freedom}};
    statistics["reduced_chi2"] =
        r.reduced_chi2 ? nlohmann::ordered_json(*r.reduced_chi2) : nlohmann::ordered_json();
    report["worst_residuals"] = nlohmann::ordered_json::array();
    for (const ResidualStatistics::Worst& w : r.worst)
      report["worst_residuals"].push_back({{"residual", w.label}, {"value", w.value}});
  }
  if (!answer.uncertainty) return;
  const Uncertainty& u = *answer.uncertainty;
  nlohmann::ordered_json& covariance = report["covariance"];
  covariance = nlohmann::ordered_json::object();
  if (!u.failure.empty()) {
    covariance["failure"] = u.failure;
    return;
  }
  covariance["scaled_by_reduced_chi2"] = u.scaled;
  covariance["parameters"] = u.names;
  if (!u.undetermined.empty()) covariance["undetermined"] = u.undetermined;
  covariance["standard_errors"] = u.errors;
  covariance["confidence_level"] = kConfidence;
  covariance["confidence_half_widths"] = u.half_intervals;
  covariance["confidence_region"] = {{"bound", u.region}, {"dimension", u.dimension}};
  nlohmann::ordered_json& rows = covariance["correlations"] = nlohmann::ordered_json::array();
  for (std::size_t a = 0; a < u.names.size(); ++a) {
    const auto begin = u.correlation.begin() + static_cast<std::ptrdiff_t>(a * u.names.size());
    rows.push_back(std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(u.names.size())));
  }
}

}  // namespace topograd::command
