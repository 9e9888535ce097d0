// What a solve found: unknowns by their names, residuals, uncertainties, and curves through points.
#pragma once

#include "../input/named_problem.hpp"

#include "../../../solver/summary.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace topograd::command {

/// One unknown.
struct UnknownValue {
  std::string name;  ///< "tau", "points[3][1]"
  double value = 0;
  std::optional<double> error;  ///< standard error
  std::string note;             ///< "constant", "at its lower bound"; empty if there is none
};

/// One coordinate of the blocks of an array.
struct ArrayExtremes {
  std::string name;  ///< "points[.][1]"
  std::size_t blocks = 0;
  double smallest = 0, largest = 0;
  std::size_t smallest_block = 0, largest_block = 0;
};

/// Residuals as they were written, weights included, without robust losses.
struct ResidualStatistics {
  std::uint64_t rows = 0;
  std::uint64_t left_out = 0;  ///< of them: with weight 0
  double rmse = 0;             ///< √(Σ r² / (rows − left_out))
  std::uint64_t unknowns = 0;
  /// 2 · cost / (rows − left_out − unknowns); losses applied. Nothing without degrees of freedom.
  std::optional<double> reduced_chi2;
  struct Worst {
    std::string label;  ///< "point" #7, row 1
    double value = 0;
  };
  std::vector<Worst> worst;  ///< the largest rows by magnitude, descending

  std::int64_t degrees_of_freedom() const {
    return static_cast<std::int64_t>(rows - left_out) - static_cast<std::int64_t>(unknowns);
  }
};

/// From (JᵀJ)⁻¹ at the solution.
struct Uncertainty {
  bool scaled = false;              ///< by the reduced χ², which there is then
  std::vector<std::string> names;   ///< of the unknowns that vary
  std::vector<double> errors;       ///< standard errors
  std::vector<double> correlation;  ///< (names, names), row by row
  std::string failure;              ///< why there is none; the lists are empty then
};

struct Answer {
  std::string title;                            ///< of a problem file
  std::vector<UnknownValue> unknowns;           ///< of small arrays
  std::vector<ArrayExtremes> extremes;          ///< of large ones
  std::optional<ResidualStatistics> residuals;  ///< nothing for a problem of energies alone
  std::vector<std::string> lines;               ///< what the problem itself has to say
  std::optional<Uncertainty> uncertainty;       ///< if asked for
  struct FittedCurve {
    std::string label, x_name, y_name;
    std::vector<double> x, y;          ///< the data
    std::vector<bool> left_out;        ///< of them: with weight 0
    std::vector<double> fit_x, fit_y;  ///< the curve, ascending
  };
  std::vector<FittedCurve> curves;
};

/// Most unknowns of which covariances are asked for.
inline constexpr std::uint64_t kMostCovariances = 1000;
/// Throws Error{InvalidArgument} or Error{Unsupported} if covariance cannot be asked for.
void check_covariance(const std::string& name, const Problem& problem);

/// Cost: an evaluation of the residuals on the CPU, and with `covariance` a factorisation.
Answer find_answer(NamedProblem& named, const Summary& summary, bool covariance);

/// The result for people: unknowns, residuals, cost, steps, where it ran, why it ended.
std::string report(const Answer& answer, const Summary& summary);

/// Adds the keys that docs/command.md lists to a solve's report.
void describe(const Answer& answer, nlohmann::ordered_json& report);

}  // namespace topograd::command
