// The cost estimate by which sums of one batch are stored first or evaluated again.
#pragma once

#include "record/plan_record.hpp"
#include "requests.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace topograd::runtime {

/// Estimates for one instance, in bytes of memory traffic; operations count as the traffic that a
/// device moves meanwhile.
struct AccumulationEstimate {
  double recompute = 0, store = 0;
  std::uint64_t operations = 0;  ///< of all slots' terms, library functions as many as they have
};

/// For a pass over a batch of this shape.
AccumulationEstimate estimate_accumulation(const TermShape& shape, Pass pass,
                                           codegen::Precision precision);

/// gather_recompute or gather_store: the rule alone.
///
/// A gather kernel holds the program once for each role: for long programs the compilers' time
/// (14 s for stars of seven roles and 1,200 operations, 4 s with stored terms) and that of the
/// evaluations count for more than the traffic of stored terms.
codegen::Accumulation choose_accumulation(const AccumulationEstimate& estimate);

/// Below, launches are what is timed.
bool large_enough_to_measure(std::uint64_t instances);

/// The estimates are so close, and the batch so large, that a measurement is worth its time.
bool worth_measuring(const AccumulationEstimate& estimate, std::uint64_t instances);

}  // namespace topograd::runtime
