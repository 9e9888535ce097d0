// The rows that first guesses are fitted on, for people who fit their own.
#pragma once

#include "scheduler.hpp"

#include <string>

namespace topograd::runtime::hybrid {

/// A line for each kernel and power of two of its size, by target: target, kernel, operation, size,
/// operations, bytes, parallelism, reuse, pattern, family, us; texts in quotes, after a line of
/// these names.
std::string training_csv(const Knowledge& knowledge);

/// The same as an array of objects.
std::string training_json(const Knowledge& knowledge);

}  // namespace topograd::runtime::hybrid
