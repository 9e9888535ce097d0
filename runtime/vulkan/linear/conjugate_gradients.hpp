// Conjugate gradients on the device: what one solve records.
#pragma once

#include "device_system.hpp"

#include <cstdint>

namespace topograd::runtime::vulkan {

/// An iteration is a direction and its product, an update, and a correction if there is one. The
/// solver's state is in the scalars.
class ConjugateGradients {
 public:
  struct Preconditioning {
    bool by_blocks = true;
    Correction* correction = nullptr;
  };

  /// All of these outlive it.
  ConjugateGradients(VectorOps& ops, DeviceSystem& system, Preconditioning by)
      : ops_(ops), system_(system), by_(by) {}

  void record_start(CommandList& list);
  /// An even number of iterations.
  void record_iterations(CommandList& list, int count);
  /// A solve with every kind of iteration, to declare or to rehearse.
  void record_all(CommandList& list) {
    record_start(list);
    record_iterations(list, 2);
  }

 private:
  /// Partial sums of r·z, and of r·r.
  std::uint32_t sums(const SystemVectors& v) const;
  void record_update(CommandList& list, const SystemVectors& v, int iteration,
                     std::uint32_t curvatures);

  VectorOps& ops_;
  DeviceSystem& system_;
  Preconditioning by_;
};

}  // namespace topograd::runtime::vulkan
