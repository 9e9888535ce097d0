// The mask that may take the place of general kernels.
#pragma once

#include "linear/normal_products.hpp"

#include <memory>
#include <vector>

namespace topograd::runtime::vulkan {

/// General kernels serve until those of the mask are there.
struct MaskState {
  enum class Stage { none, wanted, compiling, serving } stage = Stage::none;
  std::vector<std::shared_ptr<KernelJob>> jobs;
  TermSums::Made sums;
  NormalProducts::Made products;
};

}  // namespace topograd::runtime::vulkan
