// Export of the training rows of first guesses, for users who fit their own.
#pragma once

#include "knowledge.hpp"

#include <string>

namespace topograd::runtime::hybrid {

/// One line per kernel and power of two of its size, by target: target, kernel, operation, size,
/// operations, bytes, parallelism, reuse, pattern, family, us; strings in quotes; these names are
/// the header.
std::string training_csv(const Knowledge& knowledge);

/// The same as an array of objects.
std::string training_json(const Knowledge& knowledge);

}  // namespace topograd::runtime::hybrid
