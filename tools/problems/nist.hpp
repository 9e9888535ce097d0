// NIST's reference sets of nonlinear regression (StRD): models, starts, data, certified values.
#pragma once

#include "../../api/expression/expression.hpp"
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

/// Parses the lines between "Model:" and "Starting values": lines before the first '=' are text;
/// then each line with a '=' begins a statement, which the other lines continue. The last statement
/// is the model, the others define constants.
///
/// Returns right − left side, for topograd::parse(). Throws Error{Parse} if there is no model.
std::string nist_expression(std::span<const std::string> lines);

/// Names of the unknowns and data in the expression of a model.
///
///   parameters  number of parameters: b1, b2, ...
///   columns     names of the data's columns
ExpressionNames nist_names(std::size_t parameters, const std::vector<std::string>& columns);

/// The program of nist_expression(). Throws Error{Parse} if there is no model or it is invalid.
ir::Program parse_nist_model(std::span<const std::string> lines, std::size_t parameters,
                             const std::vector<std::string>& columns);

/// One set, with the contents of its file.
struct NistSet {
  std::string name;  ///< of the file, without folder and extension
  /// right − left side of the model, over parameters b1, b2, ... and the columns of the data,
  /// without the error term "+ e".
  ir::Program residual;
  std::string expression;                     ///< the same as text
  std::vector<std::string> columns;           ///< y and the predictors
  std::vector<double> data;                   ///< observation by observation, one number per column
  std::array<std::vector<double>, 2> starts;  ///< of the parameters
  std::vector<double> certified;              ///< their certified values
  double certified_sum = 0;                   ///< Σ r² there: twice this library's cost

  std::size_t observations() const { return data.size() / columns.size(); }
};

/// Parses a set from the text of its file: the model between the lines "Model:" and "Starting
/// values", on any number of lines; starts and certified values; data after the last line "Data:",
/// which names its columns.
///
/// The model is in NIST's notation: parameters b1, b2, ..., round and square brackets, ** for
/// powers, arctan; its left side is a column or a function of columns (log[y]); it may follow
/// definitions of constants (pi = 3.14...).
///
/// Throws Error{Parse} with `name` and, if known, the line.
NistSet parse_nist(std::string_view text, const std::string& name);

/// The same for a file. Also throws Error{File}.
NistSet read_nist(const std::string& path);

/// The files of a folder that end in .dat, by name; `path` itself if it is a file. Throws
/// Error{File} if there are none.
std::vector<std::string> nist_files(const std::string& path);

/// The problem and its memory.
struct Nist {
  std::vector<double> b;
  Problem problem;             ///< one topology, one residual per observation
  std::optional<Curve> curve;  ///< of b, if only y is fitted, over one predictor
};

///   start  0 or 1
std::unique_ptr<Nist> nist(const NistSet& set, std::size_t start = 0);

/// Number of digits of the worst parameter: the least −log₁₀(|b − c| / |c|), or −log₁₀|b| if c = 0;
/// between 0 and 11, the number of certified digits.
double matching_digits(std::span<const double> b, std::span<const double> certified);

}  // namespace topograd::problems
