// Facts that two solves must share for one to continue from the other's checkpoint.
#pragma once

#include "../../ir/machine/state_record.hpp"
#include "../model/model.hpp"
#include "../option_table.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace topograd {

/// Facts in the order in which differences are told.
struct SolveFacts {
  struct Fact {
    std::string what;   ///< "method", "numbers of residuals \"edge\""
    std::string value;  ///< for people, or 32 digits of a hash
    bool is_hash = false;
  };
  std::vector<Fact> facts;

  void transfer(ir::StateRecord& record);
};

/// The backend that makes the steps, and how it solves for them.
struct SolvePlace {
  std::string backend, linear_solver;
};

/// Version of the library, sizes, topologies and data of the problem, and the options that steps
/// depend on. Limits, tolerances, threads and the device may differ.
///
///   x  (scalars); the values of fixed ones are data
///
/// Cost: reads all columns of all batches once.
SolveFacts facts_of(const ProblemModel& model, const SolverOptions& options,
                    const SolvePlace& place, std::span<const double> x);

/// The options that steps depend on, alone.
SolveFacts facts_of(const SolverOptions& options, OptionScope scope);

/// The difference as a sentence: "precision is f64 here, f32 in the checkpoint"; empty if there is
/// none.
std::string difference(const SolveFacts& here, const SolveFacts& there);

}  // namespace topograd
