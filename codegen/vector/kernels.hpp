// Kernels of the solver's vector operations: norms, preconditioner and conjugate gradients on a
// device.
#pragma once

#include "../kernel.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace topograd::codegen {

/// Indices in the scalar buffer, through which kernels hand each other numbers without the host.
enum class Scalar : std::uint32_t {
#define TG_SCALAR(name) name,
#include "scalars.def"
#undef TG_SCALAR
};
inline constexpr std::uint32_t kScalarCount = static_cast<std::uint32_t>(Scalar::user) + 7;
std::string_view name(Scalar scalar);
constexpr std::uint32_t slot(Scalar scalar) { return static_cast<std::uint32_t>(scalar); }

enum class SolverState : std::uint32_t {
  running,
  converged,  ///< r·r, or r·z, <= threshold, or little is gained
  breakdown,  ///< p·q or r·z was not positive and finite
  limit,      ///< max_iterations are done
};

/// The decision of a device about a trial point.
enum class Verdict : std::int32_t {
  undecided = -1,  ///< the solver has not finished, or the cost falls too little
  refused,
  accepted
};

/// A scalar buffer before anything has run: constants set, state `limit`, the rest 0.
std::array<double, kScalarCount> initial_scalars();

/// Elements are 32-bit or 64-bit floats of `vectors` precision, sums and scalars of `scalars`
/// precision. Loops stride over the grid, so that any number of workgroups gives a result; sums
/// depend on that number alone.
enum class VectorOp {
#define TG_KERNEL(name, ...) name,
#include "kernels.def"
#undef TG_KERNEL
};
inline constexpr std::uint32_t kVectorOpCount = 0
#define TG_KERNEL(name, ...) +1
#include "kernels.def"
#undef TG_KERNEL
    ;
std::string_view name(VectorOp op);

/// Widest block of the block kernels; wider arrays are preconditioned as blocks of width 1.
inline constexpr std::uint32_t kMaxBlockWidth = 16;

/// Invocations of a workgroup that works on a tile of a front: eight rows of eight.
inline constexpr std::uint32_t kTileInvocations = 64;

/// When cg_update changes the step. Where directions take turns in two buffers, every other update
/// can change it by two directions at once, which reads and writes it half as often.
enum class StepTime {
  now,
  later,  ///< not at all; alpha and pending are left
  both    ///< by this direction, and by the one before, next_direction, with its alpha
};

struct VectorKernelRequest {
  VectorOp op = VectorOp::fill;
  Precision vectors = Precision::f64;
  Precision scalars = Precision::f64;  ///< the widest of the device, not below `vectors`
  std::uint32_t workgroup_size = 128;  ///< a power of two, at most 1024
  std::uint32_t width = 1;  ///< block kernels, segment_sum: 1 to kMaxBlockWidth (segment_sum: any);
                            ///< kernels whose rows are shared: a power of two up to workgroup_size
  bool predicated = false;  ///< plain kernels; those of the two-level preconditioner: by next_state
  bool unpreconditioned = false;  ///< cg_init, cg_update: z = r, which is not stored
  /// cg_update, where several of them make up one update: writes the scalars.
  bool decides = true;
  StepTime step_time = StepTime::now;  ///< cg_update; another one only where it decides
  bool float_controls_f32 = false, float_controls_f64 = false;
};

/// Push constants of the vector kernels.
struct VectorConstants {
  std::uint32_t count = 0;       ///< elements, blocks or partials
  std::uint32_t first = 0;       ///< position of element 0 in the vectors
  std::uint32_t out_first = 0;   ///< position of workgroup 0's partial (sum_partials: of the first)
  std::uint32_t out_stride = 0;  ///< between the sums of one workgroup in partials
  std::uint32_t blocks_first = 0;  ///< position of the array in `blocks` and `inverse`
  std::uint32_t a = slot(Scalar::one), b = slot(Scalar::zero);  ///< indices in the scalar buffer
  std::uint32_t overwrite = 1;  ///< segment_sum: 1 stores the sums, 0 adds them
  /// 1: kernels that mention `fixed` (and dot, max_abs) read that buffer; 0: nothing is fixed.
  /// (mask and those of boxes and manifolds always read it.)
  std::uint32_t masked = 0;
  // conjugate gradients: the partial sums that are read
  std::uint32_t sums_first = 0, sums_count = 0, sums_stride = 0;
};

/// The push constants that the kernel declares, in order.
std::vector<std::uint32_t> push_words(VectorOp op, const VectorConstants& constants);

/// Writes the shader, as generate() does. Throws Error{InvalidArgument} for sizes out of range.
KernelSource generate(const VectorKernelRequest& request);

}  // namespace topograd::codegen
