// Models as NIST's headers write them.
#pragma once

#include "../../api/expression/expression.hpp"
#include "../../ir/program.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace topograd::problems {

/// Reads the lines between "Model:" and "Starting values": those before the first '=' are words;
/// then each line with a '=' begins a statement, the others continue it. The last statement is the
/// model, those before it define constants.
///
/// Gives right − left side, as topograd::parse() reads it. Throws Error{Parse} if there is no
/// model.
std::string nist_expression(std::span<const std::string> lines);

/// What the expression of a model calls its unknowns and data.
///
///   parameters  how many there are: b1, b2, ...
///   columns     names of the data's columns
ExpressionNames nist_names(std::size_t parameters, const std::vector<std::string>& columns);

/// The program of nist_expression(). Throws Error{Parse} if there is no model or it cannot be read.
ir::Program parse_nist_model(std::span<const std::string> lines, std::size_t parameters,
                             const std::vector<std::string>& columns);

}  // namespace topograd::problems
