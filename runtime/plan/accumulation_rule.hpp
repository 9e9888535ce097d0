// Cost estimate for the choice between storing terms and evaluating them again.
#pragma once

#include "record/plan_record.hpp"
#include "requests.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Estimates for one instance, in bytes of memory traffic; operations count as the traffic that a
/// device moves in the same time.
struct AccumulationEstimate {
  double recompute = 0, store = 0;
  std::uint64_t operations = 0;  ///< of all slots' terms, inside functions too
  std::uint64_t repeated = 0;    ///< of the longest kernel that evaluates terms in each block slot
};

/// Estimates a pass over a batch of this shape; `float64` tells how kernels in f64 compute.
AccumulationEstimate estimate_accumulation(const TermShape& shape, Pass pass,
                                           codegen::Precision precision,
                                           codegen::Float64 float64 = codegen::Float64::native);

/// True if a kernel that evaluates the terms in each block slot would take drivers' compilers too
/// long.
bool is_long(const AccumulationEstimate& estimate);

/// The strategy, or gather_store instead of a gather_recompute whose kernel would be too long: the
/// one of a device whatever was asked for.
codegen::Accumulation short_accumulation(const TermShape& shape, Pass pass,
                                         codegen::Accumulation strategy);

/// Chooses gather_recompute or gather_store by the rule alone.
///
/// A gather kernel holds the program once for each block slot: for long programs the compile time
/// (14 s for stars of seven block slots and 1,200 operations, 4 s with stored terms) and the
/// evaluations cost more than the traffic of stored terms.
codegen::Accumulation choose_accumulation(const AccumulationEstimate& estimate);

/// False if a measurement would time launches instead of kernels.
bool large_enough_to_measure(std::uint64_t instances);

/// True if the estimates are so close, and the batch so large, that measuring pays.
bool worth_measuring(const AccumulationEstimate& estimate, std::uint64_t instances);

}  // namespace topograd::runtime
