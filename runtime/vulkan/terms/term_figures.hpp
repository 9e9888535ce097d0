// Sizes and costs of passes over one term.
#pragma once

#include "device_term.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan {

/// Operations of one evaluation of a pass over all slots; a library function counts as several.
std::uint64_t pass_cost(const TermShape& shape, Pass pass);

/// The work of one evaluation of a pass that is summed by owner.
struct SumWork {
  std::uint64_t entries = 0;     ///< summed terms; of stored terms those of one evaluation
  std::uint64_t operations = 0;  ///< functions count as one
  std::uint64_t bytes = 0;       ///< bytes of columns, and of stored terms
};
SumWork sum_work(const Context& context, DeviceTerm& term, Pass pass, bool stored_terms);

}  // namespace topograd::runtime::vulkan
