// The kernels of a topology on the CPU.
#pragma once

#include "../../model/model.hpp"
#include "../interpreter/compact.hpp"
#include "../interpreter/interpreter.hpp"
#include "../tiles/pool.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace topograd::runtime::cpu {

/// Results that can be computed for an instance.
enum class Part : std::uint8_t {
  Residual,      ///< rows
  Gradient,      ///< terms of Jᵀr by slot
  Vjp,           ///< terms of Jᵀ·seeds by slot
  Jtjp,          ///< terms of Jᵀ(J·p) by slot
  Jvp,           ///< rows of J·p
  Jacobian,      ///< J
  Linear,        ///< rows, then J, stored in columns
  ApplyLinear,   ///< rows of J·p from the columns of Linear
  JtjpLinear,    ///< terms of Jᵀ(J·p) by slot from the columns of Linear
  Hvp,           ///< terms of ∇²E·p by slot; E is ½ Σ r², or the energy
  Hessian,       ///< ∇²E by the slots, packed upper triangle
  Cost,          ///< one number
  Guards,        ///< 1 if a guard fails
  CostGradient,  ///< Gradient, then the parts of the cost: rows, or with a loss one number
  Values,        ///< the same, always with the rows
};
inline constexpr std::size_t kParts = 15;

/// A kernel that computes a part.
template <class T>
struct Kernel {
  TileKernel<T> tile;
  std::vector<OutputSource> sources;  ///< of outputs that are stored
  std::size_t columns = 0;            ///< columns they take, before all other outputs
  std::uint64_t operations = 0;       ///< per instance; a function counts as one
  ir::Program program;                ///< what the tiles compute, where it is kept
};

/// The kernels of a topology with its loss, made on first use.
template <class T>
class TermKernels {
 public:
  /// Topology and loss of the term outlive the kernels.
  ///
  ///   keeps_programs  those of kernels, for a device
  explicit TermKernels(const Term& term, Bits bits = Bits::native, bool keeps_programs = false)
      : program_(term.topology->program),
        loss_(term.loss),
        energy_(term.energy),
        keeps_programs_(keeps_programs),
        ops_(tile_ops<T>(bits)) {}

  const Kernel<T>& get(Part part);
  /// Null if the kernel has not been made.
  const Kernel<T>* made(Part part) const { return kernels_[static_cast<std::size_t>(part)].get(); }

 private:
  Kernel<T> make(Part part);
  ir::Program program_of(Part part) const;

  const ir::Program& program_;
  const ir::Program* loss_;
  bool energy_, keeps_programs_;
  const TileOps<T>& ops_;
  std::array<std::unique_ptr<const Kernel<T>>, kParts> kernels_;
};

}  // namespace topograd::runtime::cpu
