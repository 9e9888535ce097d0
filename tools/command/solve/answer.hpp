// The result of a solve: unknowns by name, rows of residuals, uncertainties, and fitted curves.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../../solver/summary.hpp"
#include "../input/named_problem.hpp"

namespace topograd::command {

/// The residuals as written, without losses, at the problem's present unknowns. With shares those
/// of all processes, on the first one; empty on the others. Collective then.
///
///   shares  null: the problem is whole
std::vector<double> residual_rows(NamedProblem& named, const ShareGroup* shares);

/// Names of rows: "point" #7, row 1. Named by the blocks of a file, otherwise by the number of the
/// residual among those of its topology.
///
///   rows  with shares those that the first process gives
std::vector<std::string> row_labels(NamedProblem& named, std::span<const std::uint64_t> rows,
                                    const ShareGroup* shares);

/// One unknown.
struct UnknownValue {
  std::string name;  ///< "tau", "points[3][1]"
  double value = 0;
  std::optional<double> error;  ///< standard error
  std::string note;             ///< "constant", "at its lower bound"; empty if there is none
};

/// Range of one coordinate of an array's blocks.
struct ArrayExtremes {
  std::string name;  ///< "points[.][1]"
  std::size_t blocks = 0;
  double smallest = 0, largest = 0;
  std::size_t smallest_block = 0, largest_block = 0;
};

/// Statistics of residuals as written, with weights but without robust losses.
struct ResidualStatistics {
  std::uint64_t rows = 0;
  std::uint64_t left_out = 0;            ///< rows with weight 0
  double rmse = 0;                       ///< √(Σ r² / (rows − left_out))
  std::uint64_t degrees_of_freedom = 0;  ///< Summary::degrees_of_freedom()
  /// 2 · cost / degrees_of_freedom, with losses. Empty without degrees of freedom.
  std::optional<double> reduced_chi2;
  struct Worst {
    std::string label;  ///< "point" #7, row 1
    double value = 0;
  };
  std::vector<Worst> worst;  ///< largest rows by magnitude, descending
};

/// Uncertainties from (JᵀJ)⁻¹ at the solution.
struct Uncertainty {
  bool scaled = false;                    ///< by the reduced χ², which then exists
  std::vector<std::string> names;         ///< of the variable unknowns that the residuals determine
  std::vector<std::string> undetermined;  ///< of the others
  std::vector<double> errors;             ///< standard errors
  std::vector<double> correlation;        ///< (names, names), row by row
  /// Half the width of each interval that has the unknown with the probability kConfidence: by
  /// Student's t if scaled, else by the normal distribution.
  std::vector<double> half_intervals;
  /// With that probability all of them are where (x − x*)ᵀ C⁻¹ (x − x*) <= region, C the covariance
  /// (its pseudo-inverse, if constraints are active): by F if scaled, else by χ².
  double region = 0;
  std::size_t dimension = 0;  ///< of the region: its degrees of freedom
  std::string failure;        ///< reason if there is none; the lists are then empty
};

/// Probability of confidence intervals and regions.
inline constexpr double kConfidence = 0.95;

struct Answer {
  std::string title;                            ///< of a problem file
  std::string first_line;                       ///< what the problem does to its input
  std::vector<UnknownValue> unknowns;           ///< of small arrays
  std::vector<ArrayExtremes> extremes;          ///< of large ones
  std::optional<ResidualStatistics> residuals;  ///< nothing for a problem of energies alone
  std::vector<std::string> lines;               ///< what the problem itself has to say
  std::optional<Uncertainty> uncertainty;       ///< if asked for
  struct FittedCurve {
    std::string label, x_name, y_name;
    std::vector<double> x, y;          ///< the data
    std::vector<bool> left_out;        ///< data with weight 0
    std::vector<double> fit_x, fit_y;  ///< the curve, ascending
  };
  std::vector<FittedCurve> curves;
};

/// Maximum number of unknowns for which covariances can be requested.
inline constexpr std::uint64_t kMostCovariances = 1000;
/// Throws Error{InvalidArgument} or Error{Unsupported} if a covariance is not available.
void check_covariance(const std::string& name, const Problem& problem);

/// Cost: an evaluation of the residuals on the CPU, and with `covariance` a factorisation.
///
///   shares  null: the problem is whole; else all processes call this, and the first one gets the
///           answer
Answer find_answer(NamedProblem& named, const Summary& summary, bool covariance,
                   const ShareGroup* shares = nullptr);

/// The result as text: unknowns, residuals, cost, steps, device, reason of termination.
std::string report(const Answer& answer, const Summary& summary);

/// Adds the keys that docs/command.md lists to a solve's report.
void describe(const Answer& answer, nlohmann::ordered_json& report);

}  // namespace topograd::command
