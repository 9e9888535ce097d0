// Parses models in the notation of NIST's headers.
#pragma once

#include "../../api/expression/expression.hpp"
#include "../../ir/program.hpp"

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

}  // namespace topograd::problems
