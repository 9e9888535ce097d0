// NIST's reference sets for nonlinear regression (StRD): model, starts, data and certified values
// are read from a set's file.
#pragma once

#include "../../api/problem_file/problem_file_curve.hpp"
#include "../../frontend/problem.hpp"
#include "../../ir/program.hpp"

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::problems {

/// One set, as its file says.
struct NistSet {
  std::string name;  ///< of the file, without folder and ending
  /// right − left side of the model, over parameters b1, b2, ... and the columns of the data; the
  /// error term "+ e" is not part of it.
  ir::Program residual;
  std::string expression;                     ///< the same as text
  std::vector<std::string> columns;           ///< y and the predictors
  std::vector<double> data;                   ///< observation by observation, one number a column
  std::array<std::vector<double>, 2> starts;  ///< of the parameters
  std::vector<double> certified;              ///< their certified values
  double certified_sum = 0;                   ///< Σ r² there: twice our cost

  std::size_t observations() const { return data.size() / columns.size(); }
};

/// Reads a set from the text of its file: the model between the lines "Model:" and "Starting
/// values", on as many lines as it takes; starts and certified values; data after the last line
/// "Data:", which names their columns.
///
/// The model is written as NIST writes it: parameters b1, b2, ..., round and square brackets, **
/// for powers, arctan; on its left side a column or a function of columns (log[y]); constants may
/// be defined before it (pi = 3.14...).
///
/// Throws Error{Parse} with `name` and, where there is one, the line.
NistSet parse_nist(std::string_view text, const std::string& name);

/// The same of a file. Throws also Error{File}.
NistSet read_nist(const std::string& path);

/// The files of a folder that end in .dat, by name; `path` itself if it is a file. Throws
/// Error{File} if there is none.
std::vector<std::string> nist_files(const std::string& path);

/// The problem and the memory that it works on.
struct Nist {
  std::vector<double> b;
  Problem problem;             ///< one topology, one residual an observation
  std::optional<Curve> curve;  ///< of b, where y alone is fitted over one predictor
};

///   start  0 or 1
std::unique_ptr<Nist> nist(const NistSet& set, std::size_t start = 0);

/// Digits of the worst parameter: the least −log₁₀(|b − c| / |c|), or −log₁₀|b| where c = 0;
/// between 0 and 11, the digits that are certified.
double matching_digits(std::span<const double> b, std::span<const double> certified);

}  // namespace topograd::problems
