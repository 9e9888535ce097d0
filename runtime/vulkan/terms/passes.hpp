// Data of passes over all terms while they are recorded.
#pragma once

#include "../gather/fused_terms.hpp"
#include "../gather/gather_set.hpp"

#include <cstddef>
#include <memory>

namespace topograd::runtime::vulkan {

/// A pass with values beside the gradient, while it is recorded.
struct ValuePass {
  Pass pass;
  ValueSinks sinks;
};

/// Sets in the order in which they run: first those that write every owner of an array.
struct GatherUse {
  std::size_t term = 0;
  GatherSet* set = nullptr;
  bool covers = false;
};

/// Sets whose fused products make up that of the problem, and the terms that are fused into each.
struct FusedProduct {
  GatherUse use;
  codegen::Fusion fusion{};
  std::unique_ptr<FusedTerms> fused_terms;
};

}  // namespace topograd::runtime::vulkan
