// The coarse space of the two-level preconditioner on the device.
#pragma once

#include "../../linear/coarse_control.hpp"
#include "../linear/normal_products.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace topograd::runtime::vulkan {

/// Vectors, matrix and inverse, made at a point when CoarseControl says so.
class CoarseSpace : Part {
 public:
  /// All of these outlive it.
  CoarseSpace(const Part& part, NormalProducts& products, CoarseControl control)
      : Part(part), products_(products), control_(std::move(control)) {}

  CoarseControl& control() { return control_; }
  const CoarseControl& control() const { return control_; }

  /// Buffers of this space: what is recorded with it is derived from them.
  Source& buffers() { return buffers_; }

  /// Brings plan and buffers up to date where the space is due. True: need(),
  /// make_lists() and queue() are to follow.
  ///
  ///   x  gives the current point, in the device's order
  bool prepare(const std::function<std::vector<double>()>& x);
  /// Kernels that make the space, and those of record_correction().
  void need(Needs& needs);
  /// Lists that make it, once.
  void make_lists();
  /// It is made by what is queued here, before the solve.
  void queue(std::vector<const Recorded*>& lists);

  /// Partial sums of r·z that record_correction() writes behind those of the blocks.
  std::uint32_t sums() const { return control_.plan().unknowns(); }
  /// preconditioned += P (Pᵀ A P)⁻¹ Pᵀ residual, and its part of r·z.
  void record_correction(CommandList& list, bool predicated);

 private:
  bool fits() const;
  void make_buffers();
  void write_centres();
  void record_product(CommandList& list, std::uint32_t first);
  void record_vectors(CommandList& list);
  void record_matrix(CommandList& list);
  void record_elimination(CommandList& list, std::uint32_t first, std::uint32_t count);

  NormalProducts& products_;
  CoarseControl control_;
  Source buffers_{recorder_.kernels};
  struct Buffers {
    Buffer vectors, answers, offsets;              // by vector and entry
    Buffer from, scalars, homes, starts, follows;  // u32, see CoarsePlan
    Buffer sources;                                // u32, likewise
    Buffer weights;                                // spread, gather, and the probes
    std::array<Buffer, 2> matrices;                // take turns from panel to panel of pivots
    Buffer panel;                                  // its rows
    Buffer in, out;                                // coarse unknowns
  } b_;
  std::uint64_t version_ = 0, centres_ = 0;  // versions of the plan in the buffers
  Derived<std::vector<Recorded>> lists_{buffers_};
};

}  // namespace topograd::runtime::vulkan
