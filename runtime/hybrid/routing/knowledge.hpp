// The data that a scheduler has learned, and the rows from which first guesses are trained.
#pragma once

#include "first_guess.hpp"
#include "history.hpp"
#include "transfer_times.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topograd::runtime::hybrid {

/// Learned data, to be saved, transferred to other machines and reported. Targets are named.
struct Knowledge {
  struct Kernel {
    Hash128 hash;
    std::string operation;
    std::map<std::string, std::vector<History::Row>> targets;
    std::uint64_t used = 0;  ///< order of last use in this process; 0 = unused; not saved
  };
  std::vector<Kernel> kernels;
  std::map<std::string, TransferTimes::Rows> transfers;
  std::map<std::string, double> thresholds;  ///< items, by operation
  std::map<std::string, std::vector<TrainingRow>> training;
  /// Drivers of the targets on which it was measured; a missing entry matches any driver.
  std::map<std::string, std::string> drivers;
};

/// One line per kernel and power of two of its size, by target: target, kernel, operation, size,
/// operations, bytes, parallelism, reuse, pattern, family, us; strings in quotes; these names are
/// the header.
std::string training_csv(const Knowledge& knowledge);

/// The same as an array of objects.
std::string training_json(const Knowledge& knowledge);

}  // namespace topograd::runtime::hybrid
