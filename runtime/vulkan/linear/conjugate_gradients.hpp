// Conjugate gradients on the device: what one solve records.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "../recording/vector_ops.hpp"

namespace topograd::runtime::vulkan {

/// Vectors of a system's unknowns.
struct SystemVectors {
  const Buffer &gradient, &step, &residual, &product, &preconditioned;
  /// They take turns from iteration to iteration. The same buffer twice: updated in place.
  std::array<const Buffer*, 2> directions;
  const Buffer& fixed;  ///< u32 by unknown
  const Buffer &partials, &curvature, &decision;
  std::vector<DiagonalBlocks> blocks;
  std::uint32_t unknowns, block_groups;  ///< block_groups: workgroups over all blocks
  /// True if each update makes the step of the one before, too, and so reads δ half as often. All
  /// blocks have one width then: dispatches of one update share scalars, which one of them writes.
  bool postpones_steps = false;
};

/// A δ = −gradient with a symmetric positive definite matrix A.
class DeviceSystem {
 public:
  struct Direction {
    const Buffer &preconditioned, &before, &now;
    std::uint32_t sums;  ///< partial sums of r·z
  };

  virtual ~DeviceSystem() = default;
  virtual SystemVectors vectors() = 0;
  /// Inverts the diagonal blocks. Begins behind the caller's barrier, ends with one to come.
  virtual void record_begin(CommandList& list) = 0;
  /// now = preconditioned + β before, product = A now. Returns the partial sums of the curvature.
  /// Barriers as record_begin().
  virtual std::uint32_t record_product(CommandList& list, const Direction& direction) = 0;
};

/// A term that a preconditioner adds to the inverses of the diagonal blocks.
class Correction {
 public:
  virtual ~Correction() = default;
  /// Partial sums of r·z that record_correction() writes behind those of the blocks.
  virtual std::uint32_t sums() const = 0;
  /// Adds to `preconditioned` and to r·z. Begins with a barrier, ends with one to come.
  ///
  ///   predicated  only while the solver runs
  virtual void record_correction(CommandList& list, bool predicated) = 0;
};

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
