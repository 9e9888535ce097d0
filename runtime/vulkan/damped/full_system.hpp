// The damped normal equations of all unknowns on the device.
#pragma once

#include "../linear/device_system.hpp"
#include "../linear/normal_products.hpp"
#include "../steps/point_moves.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan {

/// (JᵀJ + Λ) δ = −Jᵀr, with products as NormalProducts makes them.
class FullSystem final : public DeviceSystem, Part {
 public:
  /// All of these outlive it.
  FullSystem(const Part& part, NormalProducts& products, PointMoves& moves)
      : Part(part), products_(products), moves_(moves) {}

  SystemVectors vectors() override;
  void record_begin(CommandList& list) override;
  std::uint32_t record_product(CommandList& list, const Direction& direction) override;

 private:
  std::uint32_t record_fused(CommandList& list, const Direction& direction);

  NormalProducts& products_;
  PointMoves& moves_;
};

}  // namespace topograd::runtime::vulkan
