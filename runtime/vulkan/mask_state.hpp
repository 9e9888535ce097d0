// What sums are made with, and the mask that may take their place.
#pragma once

#include "linear/device_matrix.hpp"
#include "terms/device_term.hpp"
#include "terms/passes.hpp"
#include "tuning.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

/// What the sums of all terms are made with.
struct Sums {
  std::map<std::pair<std::size_t, Pass>, Decision> decisions;
  std::optional<bool> can_fuse;           ///< known once the lists are prepared
  std::vector<FusedProduct> fused_order;  ///< if so
  std::vector<Buffer> jacobians;  ///< by term, where products are made from a stored Jacobian
  std::vector<Buffer> stored;     ///< by term, terms of gather_store
  std::unique_ptr<DeviceMatrix> matrix;  ///< where products are made from JᵀJ itself
};

/// General kernels serve until those of the mask are there.
struct MaskState {
  enum class Stage { none, wanted, compiling, serving } stage = Stage::none;
  std::vector<std::shared_ptr<KernelJob>> jobs;
  Sums sums;
};

}  // namespace topograd::runtime::vulkan
